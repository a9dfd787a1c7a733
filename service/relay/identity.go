package relay

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/http"
	"time"
)

// Members know each other by certificates of an authority whose key all of them derive from the key of the service. A
// connection between members names a server that no client asks for, so both use the same port.

// memberName is the name of the server of such connections (RFC 6761: no DNS has it).
const memberName = "member.millipede.invalid"

// Identity is what a member proves itself with, and knows others by.
type Identity struct {
	leaf tls.Certificate
	pool *x509.CertPool
}

// The certificates are valid for as long as the key is: the clocks of machines may be wrong.
var (
	validFrom = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	validTo   = time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC)
)

// NewIdentity returns the identity of a member with a name. secret and incarnation are those of its group.
func NewIdentity(secret, incarnation []byte, name string) (*Identity, error) {
	seed, err := hkdf.Key(sha256.New, secret, incarnation, "millipede group members", ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	authority := ed25519.NewKeyFromSeed(seed)
	// The same bytes for every member: signatures of Ed25519 have nothing random.
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Millipede's group"},
		NotBefore: validFrom, NotAfter: validTo, KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, root, root, authority.Public(), authority)
	if err != nil {
		return nil, err
	}
	if root, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	number, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	leaf := &x509.Certificate{SerialNumber: number, Subject: pkix.Name{CommonName: name}, NotBefore: validFrom,
		NotAfter: validTo, KeyUsage: x509.KeyUsageDigitalSignature, DNSNames: []string{memberName},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if der, err = x509.CreateCertificate(rand.Reader, leaf, root, public, authority); err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	return &Identity{leaf: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, pool: pool}, nil
}

// Server returns the settings of a listener for clients and members. own are those for clients.
func (i *Identity) Server(own *tls.Config) *tls.Config {
	// Without tickets: else one of a client's connection would be looked at here.
	peers := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: own.NextProtos, Certificates: []tls.Certificate{i.leaf},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: i.pool, SessionTicketsDisabled: true}
	out := own.Clone()
	out.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if hello.ServerName == memberName {
			return peers, nil
		}
		return nil, nil //nolint:nilnil // that of clients
	}
	return out
}

// Client returns a transport to other members.
func (i *Identity) Client() *http.Transport {
	return &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, ServerName: memberName, RootCAs: i.pool,
			Certificates: []tls.Certificate{i.leaf}},
		DialContext:         (&net.Dialer{Timeout: 2 * time.Second, KeepAlive: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout: 2 * time.Second, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute,
		DisableCompression: true,
	}
}

// IsPeer reports whether a request is of another member.
func IsPeer(q *http.Request) bool { return q.TLS != nil && q.TLS.ServerName == memberName }

// unsent reports whether an error says that nothing of a request has reached another member.
func unsent(err error) bool {
	op := (*net.OpError)(nil)
	return errors.As(err, &op) && op.Op == "dial"
}
