package nats

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certificates are the files of an authority that was made for one test, and of the certificates that it has signed.
type Certificates struct {
	CA                    string
	ServerCert, ServerKey string // for 127.0.0.1
	ClientCert, ClientKey string // of "client"
}

// MakeCertificates writes certificates into dir. They are good for a day.
func MakeCertificates(dir string) (Certificates, error) {
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour),
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Certificates{}, err
	}
	sign := func(name string, template *x509.Certificate, key *ecdsa.PrivateKey) (cert, keyFile string, err error) {
		der, err := x509.CreateCertificate(rand.Reader, template, ca, &key.PublicKey, caKey)
		if err != nil {
			return "", "", fmt.Errorf("signing the certificate of %s: %w", name, err)
		}
		secret, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return "", "", err
		}
		cert, keyFile = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+"-key.pem")
		if err := os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
			0o600); err != nil {
			return "", "", err
		}
		return cert, keyFile, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
			0o600)
	}
	leaf := func(name string, serial int64) (cert, keyFile string, err error) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return "", "", err
		}
		return sign(name, &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			KeyUsage:    x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth,
				x509.ExtKeyUsageClientAuth},
			NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		}, key)
	}
	var c Certificates
	if c.CA, _, err = sign("authority", ca, caKey); err != nil {
		return c, err
	}
	if c.ServerCert, c.ServerKey, err = leaf("server", 2); err != nil {
		return c, err
	}
	c.ClientCert, c.ClientKey, err = leaf("client", 3)
	return c, err
}
