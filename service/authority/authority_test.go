package authority_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service/authority"
)

func TestAClientThatTrustsTheAuthorityTrustsTheServer(t *testing.T) {
	dir := t.TempDir()
	first, err := authority.Open(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	again, err := authority.Open(dir, time.Now()) // as at the next start
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(first.File())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		t.Fatal("the file holds no certificate")
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
		reply, err := client.Get(server.URL) //nolint:noctx // it is local
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
