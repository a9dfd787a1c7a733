package backends

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http/httptest"
	"testing"
	"time"
)

// clientCertificate returns a self-signed certificate and its key, both PEM-encoded.
func clientCertificate(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "somebody"}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

// The coordinator runs in both directories; with the variable TOFU, OpenTofu runs in the second one.
func TestAnHTTPServerMayRequireAClientCertificate(t *testing.T) {
	if testing.Short() {
		t.Skip("a dozen commands are run")
	}
	t.Parallel()
	certificate, key := clientCertificate(t)
	known := x509.NewCertPool()
	known.AppendCertsFromPEM(certificate)
	s := httptest.NewUnstartedServer(&server{})
	s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: known, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	w := &world{kind: "http", env: map[string]string{"TF_HTTP_CLIENT_CA_CERTIFICATE_PEM": string(authority)}, body: `
			address        = "` + s.URL + `/state"
			lock_address   = "` + s.URL + `/lock"
			unlock_address = "` + s.URL + `/lock"`}
	w.directory(t, w.body, configuration).fails("certificate required", "init", "-input=false")
	w.env["TF_HTTP_CLIENT_CERTIFICATE_PEM"], w.env["TF_HTTP_CLIENT_PRIVATE_KEY_PEM"] = string(certificate), string(key)
	a, b := w.directory(t, w.body, configuration), w.directory(t, w.body, configuration)
	if tofu != "" {
		b.program = tofu
	}
	turns(t, w, a, b)
}
