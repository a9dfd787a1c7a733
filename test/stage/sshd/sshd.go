//go:build unix

package sshd

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"
)

// Required is the variable that has tests fail where OpenSSH's sshd is missing, for machines that are to have it.
const Required = "MILLIPEDE_REQUIRE_SSHD"

// Server is a server with its keys.
type Server struct {
	Host string
	Port int
	User string
	// HostKey is the server's public key, as in authorized_keys.
	HostKey string
	// PrivateKey is accepted, and so is a key with a certificate of CA.
	PrivateKey string
	CA         ssh.Signer
	// Password is accepted by the server inside the process; empty for the other.
	Password string
}

// Each runs a test against each kind of server that this machine has.
func Each(t *testing.T, test func(t *testing.T, s *Server)) {
	t.Run("in the process", func(t *testing.T) { test(t, Start(t)) })
	program, err := exec.LookPath("sshd")
	if err != nil {
		program = "/usr/sbin/sshd" // which is not in everybody's path
		_, err = os.Stat(program)
	}
	switch {
	case err == nil:
		t.Run("OpenSSH", func(t *testing.T) { test(t, openSSH(t, program)) })
	case os.Getenv(Required) != "":
		t.Errorf("this machine is to have OpenSSH's sshd, and has none: apt-get install openssh-server")
	default:
		t.Log("this machine has no sshd of OpenSSH: tested against the server inside the process alone")
	}
}

// NewKey makes a key pair: the private key in PEM, and as a signer.
func NewKey(t *testing.T) (string, ssh.Signer) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block)), signer
}

// Public is the public key of a signer, as in authorized_keys.
func Public(s ssh.Signer) string { return string(ssh.MarshalAuthorizedKey(s.PublicKey())) }

// Certify returns a certificate of the server's authority for a user's key, as in a file that ends in -cert.pub.
func (s *Server) Certify(t *testing.T, key ssh.PublicKey) string {
	t.Helper()
	c := &ssh.Certificate{
		Key: key, CertType: ssh.UserCert, KeyId: "test", ValidPrincipals: []string{s.User},
		ValidBefore: ssh.CertTimeInfinity,
		Permissions: ssh.Permissions{Extensions: map[string]string{"permit-pty": "", "permit-port-forwarding": ""}},
	}
	if err := c.SignCert(rand.Reader, s.CA); err != nil {
		t.Fatal(err)
	}
	return string(ssh.MarshalAuthorizedKey(c))
}

// newServer makes the keys of a server.
func newServer(t *testing.T) (s *Server, host, client ssh.Signer, hostPEM string) {
	t.Helper()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	s = &Server{Host: "127.0.0.1", User: me.Username}
	hostPEM, host = NewKey(t)
	s.HostKey = Public(host)
	s.PrivateKey, client = NewKey(t)
	_, s.CA = NewKey(t)
	return s, host, client, hostPEM
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
