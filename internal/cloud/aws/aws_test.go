package aws

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Relative names were opened in the working directory of the process, which is not that of the operation.
func TestFilesThatSettingsNameAreInTheDirectoryOfTheOperation(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := Settings{
		CABundle: "ca.pem", Transport: &http.Transport{}, Path: func(name string) string {
			if filepath.IsAbs(name) {
				return name
			}
			return filepath.Join(dir, name)
		},
		Env: func(name string) string { return map[string]string{"HOME": "/home/somebody"}[name] },
	}
	if err := s.setTransport(); err == nil || !strings.Contains(err.Error(), "holds no certificate") {
		t.Errorf("the authorities: %v", err)
	}
	got := s.paths([]string{"config", "~/config", "/etc/config"})
	want := []string{filepath.Join(dir, "config"), "/home/somebody/config", "/etc/config"}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the files are %q, not %q", got, want)
	}
}

// The operation's environment had made a TLS configuration with its own authorities. The session used at most the
// authorities of it, and ignored its other settings.
func TestTheTransportKeepsWhatTheEnvironmentSaysAboutCertificates(t *testing.T) {
	given := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "s3.example.com", MinVersion: tls.VersionTLS13}
	s := Settings{Transport: &http.Transport{TLSClientConfig: given}, Insecure: true}
	if err := s.setTransport(); err != nil {
		t.Fatal(err)
	}
	got := s.Transport.TLSClientConfig
	if got.RootCAs != given.RootCAs || got.ServerName != "s3.example.com" || got.MinVersion != tls.VersionTLS13 ||
		!got.InsecureSkipVerify {
		t.Errorf("the transport has %+v", got)
	}
}
