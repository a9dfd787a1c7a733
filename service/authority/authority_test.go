package authority_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service/authority"
	"github.com/millipede-iac/millipede/state/seal"
)

func TestAClientThatTrustsTheAuthorityTrustsTheServer(t *testing.T) {
	dir := t.TempDir()
	key, err := seal.NewKey(seal.NewSecret())
	if err != nil {
		t.Fatal(err)
	}
	first, err := authority.Open(dir, key, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	again, err := authority.Open(dir, key, time.Now()) // as at the next start
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(first.File())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		t.Fatal("the file has no certificate")
	}
	for _, a := range []*authority.Authority{first, again} {
		certificate, err := a.Issue([]string{"localhost", "127.0.0.1"}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
		server.StartTLS()
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool,
			MinVersion: tls.VersionTLS12}}}
		reply, err := client.Get(server.URL) // it is local
		if err != nil {
			t.Fatal(err)
		}
		_ = reply.Body.Close()
		client.CloseIdleConnections()
		server.Close()
	}
	info, err := os.Stat(dir + "/ca.key")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info, err)
	}
}

// The key of the authority was in plain text beside the encrypted data: with a copy of the directory, anybody could
// pose as the service to every client that trusts it.
func TestACopyOfTheDirectoryMakesNoCertificates(t *testing.T) {
	dir := t.TempDir()
	key, err := seal.NewKey(seal.NewSecret())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := authority.Open(dir, key, time.Now()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x509.ParseECPrivateKey(text); err == nil || bytes.Contains(text, []byte("PRIVATE KEY")) {
		t.Error("the stored key is not encrypted")
	}
	other, err := seal.NewKey(seal.NewSecret())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := authority.Open(dir, other, time.Now()); !errors.Is(err, seal.ErrBroken) {
		t.Errorf("the authority was opened with another key: %v", err)
	}
}
