package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/service/authority"
)

// certificates returns the TLS configuration for clients. Without a certificate of the operator, all members use the
// group's own authority, which the first one makes and keeps beside the log.
func (m *member) certificates(ctx context.Context) (*tls.Config, error) {
	s := newServing(m.Options)
	if m.CertFile == "" {
		if err := m.authority(ctx); err != nil {
			return nil, fmt.Errorf("the group's own authority of certificates: %w", err)
		}
	}
	secure, trust, err := s.certificates(m.Options, m.key, m.at)
	m.trust = trust
	return secure, err
}

// authorityFiles are kept beside the log, in this order: without the last one there is no authority.
var authorityFiles = []string{"tls/ca.key", "tls/ca.pem"}

// authorityTime is how long the member that makes a group may take to keep its authority.
const authorityTime = 30 * time.Second

// authority brings the files of the authority to this member. The member that makes the group makes them.
func (m *member) authority(ctx context.Context) error {
	began := time.Now()
	for {
		err := m.fetchAuthority(ctx)
		switch {
		case !errors.Is(err, fs.ErrNotExist):
			return err
		case !m.group.mark.Made:
			return m.keepAuthority(ctx)
		case time.Since(began) > authorityTime:
			return fmt.Errorf("%w: the member that has made the group has not kept it. Give the members a certificate "+
				"(-tls-cert, -tls-key)", err)
		}
		if err := sleep.For(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

func (m *member) fetchAuthority(ctx context.Context) error {
	for i := range authorityFiles {
		name := authorityFiles[len(authorityFiles)-1-i]
		path := filepath.Join(m.Data, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := m.group.files(0).Fetch(ctx, name, path); err != nil {
			return err
		}
	}
	return nil
}

func (m *member) keepAuthority(ctx context.Context) error {
	dir := filepath.Join(m.Data, "tls")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if _, err := authority.Open(dir, m.key, time.Now()); err != nil {
		return err
	}
	for _, name := range authorityFiles {
		if err := m.group.files(0).Keep(ctx, name, filepath.Join(m.Data, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	return nil
}
