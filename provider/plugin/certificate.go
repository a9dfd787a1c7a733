package plugin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"sync"
	"time"
)

// certificateVariable is the environment variable in which a plugin gets the certificate of its client.
const certificateVariable = "PLUGIN_CLIENT_CERT="

// certificate is the certificate with which this process identifies itself to its plugins (mutual TLS, as with
// AutoMTLS of go-plugin). The process has one for all of them, on the curve P-256. go-plugin would make one for each
// plugin, on P-521, where each signature and each verification takes milliseconds: a tenth of the CPU time of a start.
type certificate struct {
	tls.Certificate
	text string // PEM
}

var ownCertificate = sync.OnceValues(newCertificate)

func newCertificate() (*certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	// Plugins take the certificate as the only authority for their clients, so it may sign certificates.
	form := &x509.Certificate{
		Subject:               pkix.Name{CommonName: serverName},
		DNSNames:              []string{serverName},
		SerialNumber:          serial,
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().AddDate(30, 0, 0), // longer than a process lives
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making the certificate for plugins: %w", err)
	}
	return &certificate{
		Certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		text:        string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
	}, nil
}

// serverName is the name in the certificates of plugins.
const serverName = "localhost"

// client returns the configuration of the connection to one plugin. go-plugin adds the plugin's own certificate, which
// it gets in the handshake, as the only authority.
func (c *certificate) client() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{c.Certificate}, MinVersion: tls.VersionTLS12,
		ServerName: serverName}
}
