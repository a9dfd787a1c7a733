package cloud_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/environ"
)

// A relative name in SSL_CERT_FILE was opened in the working directory of the process, which is not that of the
// operation.
func TestAuthoritiesAreReadInTheDirectoryOfTheOperation(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	dir := t.TempDir()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	s := cloud.Environment{Dir: dir, Environ: environ.Variables{"SSL_CERT_FILE=ca.pem"}}.Completed()
	transport := s.Transport()
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil {
		t.Error(err)
	}
}
