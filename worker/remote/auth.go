package remote

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/internal/environ"
)

// keyAgent is a connection to the SSH agent. The caller closes it.
type keyAgent struct {
	agent.ExtendedAgent
	conn net.Conn
	// identity is the key to try first.
	identity string
	// dir is the directory to which the name of its file is relative.
	dir string
}

func openAgent(ctx context.Context, socket, identity, dir string) (*keyAgent, error) {
	if socket == "" {
		return nil, nil
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("connecting to the SSH agent: %w", err)
	}
	return &keyAgent{agent.NewClient(conn), conn, identity, dir}, nil
}

func (a *keyAgent) close() error {
	if a == nil {
		return nil
	}
	return a.conn.Close()
}

// signers returns the agent's keys, the preferred one first, because servers limit the number of attempts.
func (a *keyAgent) signers() ([]ssh.Signer, error) {
	if a == nil {
		return nil, nil
	}
	list, err := a.Signers()
	if err != nil {
		return nil, fmt.Errorf("asking the SSH agent for its keys: %w", err)
	}
	if a.identity != "" {
		key := identityKey(environ.Path(a.dir, a.identity))
		slices.SortStableFunc(list, func(x, y ssh.Signer) int { return a.rank(x, key) - a.rank(y, key) })
	}
	return list, nil
}

// rank returns 0 for the preferred key, 1 for a key whose comment ends like it, 2 for others.
func (a *keyAgent) rank(s ssh.Signer, key []byte) int {
	public := s.PublicKey()
	if key != nil && bytes.Equal(public.Marshal(), key) {
		return 0
	}
	named, ok := public.(*agent.Key)
	switch {
	case ok && named.Comment == a.identity:
		return 0
	case ok && strings.HasSuffix(named.Comment, a.identity):
		return 1
	}
	return 2
}

// identityKey reads the public key from the file that identity names, or from the same name with .pub; nil if
// neither has a key.
func identityKey(path string) []byte {
	for _, name := range []string{path, path + ".pub"} {
		data, err := bounds.ReadFile(name, bounds.Text)
		if err != nil {
			continue
		}
		if s, err := ssh.ParsePrivateKey(data); err == nil {
			return s.PublicKey().Marshal()
		}
		if key, _, _, _, err := ssh.ParseAuthorizedKey(data); err == nil {
			return key.Marshal()
		}
	}
	return nil
}

// clientConfig returns the SSH client configuration. The keys of the block and of the agent form one method,
// because each method is tried only once.
func clientConfig(l Login, a *keyAgent) (*ssh.ClientConfig, error) {
	var own []ssh.Signer
	if l.PrivateKey != "" {
		s, err := privateSigner(l)
		if err != nil {
			return nil, err
		}
		own = append(own, s)
	}
	c := &ssh.ClientConfig{User: l.User, HostKeyCallback: ssh.InsecureIgnoreHostKey()}
	if len(own) > 0 || a != nil {
		c.Auth = append(c.Auth, ssh.PublicKeysCallback(func() ([]ssh.Signer, error) {
			more, err := a.signers()
			if len(own) > 0 && err != nil {
				return own, nil //nolint:nilerr // the keys of the block suffice
			}
			return append(slices.Clone(own), more...), err
		}))
	}
	if l.Password != "" {
		c.Auth = append(c.Auth, ssh.Password(l.Password), ssh.KeyboardInteractive(func(_, _ string, questions []string,
			_ []bool) ([]string, error) {
			return slices.Repeat([]string{l.Password}, len(questions)), nil
		}))
	}
	if l.HostKey != "" {
		if err := checkHost(c, l.HostKey); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func privateSigner(l Login) (ssh.Signer, error) {
	if block, _ := pem.Decode([]byte(l.PrivateKey)); block == nil {
		// The words are OpenTofu's.
		return nil, errors.New("Failed to read ssh private key: no key found")
	}
	s, err := ssh.ParsePrivateKey([]byte(l.PrivateKey))
	if missing := (*ssh.PassphraseMissingError)(nil); errors.As(err, &missing) {
		// The words are OpenTofu's.
		return nil, errors.New("Failed to read ssh private key: password protected keys are not supported. Decrypt " +
			"the key, or put it into an SSH agent")
	}
	if err != nil {
		// The words are OpenTofu's.
		return nil, fmt.Errorf("Failed to parse ssh private key: %w", err)
	}
	if l.Certificate == "" {
		return s, nil
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(l.Certificate))
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the SSH key: %w", err)
	}
	certificate, ok := key.(*ssh.Certificate)
	if !ok {
		return nil, fmt.Errorf("the certificate of the SSH key is a plain public key of the type %s", key.Type())
	}
	signer, err := ssh.NewCertSigner(certificate, s)
	if err != nil {
		return nil, fmt.Errorf("using the certificate of the SSH key: %w", err)
	}
	return signer, nil
}

// checkHost sets how the host is authenticated: by a key, or by a certificate that was signed with it.
func checkHost(c *ssh.ClientConfig, text string) error {
	want, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil {
		return fmt.Errorf("reading the host key: %w", err)
	}
	same := func(key ssh.PublicKey) bool { return bytes.Equal(key.Marshal(), want.Marshal()) }
	checker := &ssh.CertChecker{
		IsHostAuthority: func(key ssh.PublicKey, _ string) bool { return same(key) },
		HostKeyFallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			if !same(key) {
				return fmt.Errorf("the host shows the %s key %s, which is not the one of the connection block",
					key.Type(), ssh.FingerprintSHA256(key))
			}
			return nil
		},
	}
	c.HostKeyCallback = checker.CheckHostKey
	// A host has several keys: it must offer the known one, or any certified one.
	c.HostKeyAlgorithms = []string{
		ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
		ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01,
	}
	if want.Type() == ssh.KeyAlgoRSA {
		c.HostKeyAlgorithms = append(c.HostKeyAlgorithms, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
	}
	c.HostKeyAlgorithms = append(c.HostKeyAlgorithms, want.Type())
	return nil
}
