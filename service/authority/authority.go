// Package authority issues certificates for a service without a configured certificate: it has its own
// authority, which clients must trust, and certificates for the names at which the service listens.
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/millipede-iac/millipede/internal/wholefile"
	"github.com/millipede-iac/millipede/state/seal"
)

// The validity of an authority and of its certificates; a new certificate is issued at each start of the
// service.
const (
	authorityTerm   = 10 * 365 * 24 * time.Hour
	certificateTerm = 365 * 24 * time.Hour
)

// keyPlace is the additional data for encrypting the authority's key.
var keyPlace = []byte("tls/ca.key")

// Authority signs certificates.
type Authority struct {
	file        string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// Open returns the authority in a directory, and creates it if necessary. Its key is encrypted in the
// directory: a copy of the directory is not sufficient for issuing certificates.
func Open(dir string, sealing *seal.Key, now time.Time) (*Authority, error) {
	a := &Authority{file: filepath.Join(dir, "ca.pem")}
	keyFile := filepath.Join(dir, "ca.key")
	text, err := os.ReadFile(a.file)
	if errors.Is(err, fs.ErrNotExist) {
		return a, a.make(keyFile, sealing, now)
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no certificate: remove it, and ca.key, for new ones", a.file)
	}
	if a.certificate, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, fmt.Errorf("%s: %w", a.file, err)
	}
	if text, err = os.ReadFile(keyFile); err != nil {
		return nil, err
	}
	if text, err = sealing.Open(keyPlace, text); err == nil {
		a.key, err = x509.ParseECPrivateKey(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w; remove it, and ca.pem, for new ones", keyFile, err)
	}
	return a, nil
}

// make creates a new authority. It writes the certificate last: without it the key is not used.
func (a *Authority) make(keyFile string, sealing *seal.Key, now time.Time) (err error) {
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	number, err := serial()
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: number, Subject: pkix.Name{CommonName: "Millipede's own authority"},
		NotBefore: now.Add(-time.Hour),
		NotAfter:  now.Add(authorityTerm), KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
		MaxPathLenZero: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		return err
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	key, err := x509.MarshalECPrivateKey(a.key)
	if err != nil {
		return err
	}
	if err := wholefile.Durable(keyFile, wholefile.Private, wholefile.Bytes(sealing.Seal(keyPlace, key))); err != nil {
		return err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return wholefile.Durable(a.file, wholefile.Public, wholefile.Bytes(certificate))
}

func serial() (*big.Int, error) { return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) }

// File returns the path of the certificate that clients must trust.
func (a *Authority) File() string { return a.file }

// Issue issues a certificate for a server with these names and addresses.
func (a *Authority) Issue(hosts []string, now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	number, err := serial()
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: number, Subject: pkix.Name{CommonName: hosts[0]}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.Add(certificateTerm),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	return tls.Certificate{Certificate: [][]byte{der, a.certificate.Raw}, PrivateKey: key}, err
}
