package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"

	"github.com/millipede-iac/millipede/encryption"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// Sealed means that a snapshot cannot be decrypted, or is not encrypted although it must be.
type Sealed struct {
	// Summary is the problem; Detail has more, and may be empty.
	Summary, Detail string
	// Tried has a line about the result of each attempt to decrypt it.
	Tried string
}

func (s *Sealed) Error() string {
	if s.Detail == "" {
		return s.Summary
	}
	return s.Summary + ": " + s.Detail
}

// Encrypted returns a backend over another one, whose snapshots the target encrypts. Without a target they are
// unencrypted, and encrypted snapshots are distinguished from invalid ones.
func Encrypted(b Backend, t *encryption.Target) Backend {
	e := &encrypted{Backend: b, target: t, stale: map[string]bool{}}
	if l, ok := b.(*Local); ok && t != nil {
		l.encryptBackup = e.encryptBackup
	}
	return e
}

type encrypted struct {
	Backend
	target *encryption.Target

	mu    sync.Mutex // guards stale
	stale map[string]bool
}

// Plain returns the backend below an encrypting one, or else the backend itself.
func Plain(b Backend) Backend {
	if e, ok := b.(*encrypted); ok {
		return e.Backend
	}
	return b
}

// Close closes the backend below.
func (e *encrypted) Close() error { return Close(e.Backend) }

// Describe implements Backend.
func (e *encrypted) Describe(workspace string) Description {
	d := e.Backend.Describe(workspace)
	e.mu.Lock()
	defer e.mu.Unlock()
	d.Stale = d.Stale || e.stale[workspace]
	return d
}

// Read implements Backend.
func (e *encrypted) Read(ctx context.Context, workspace string) ([]byte, error) {
	data, err := e.Backend.Read(ctx, workspace)
	if err != nil || len(data) == 0 {
		return data, err
	}
	plain, stale, err := Open(ctx, e.target, data)
	if err != nil {
		return nil, err
	}
	e.note(workspace, stale)
	return plain, nil
}

func (e *encrypted) note(workspace string, stale bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stale[workspace] = stale
}

// Open decrypts a snapshot. stale means that it would now be encrypted differently. The error is *Sealed.
func Open(ctx context.Context, t *encryption.Target, data []byte) (plain []byte, stale bool, err error) {
	if t == nil && encryption.IsEncrypted(data) {
		return nil, false, &Sealed{
			Summary: "Unsupported state file format", Detail: "This state file is encrypted and can not be read " +
				"without an encryption configuration",
		}
	}
	plain, stale, err = t.OpenState(ctx, data)
	if err != nil {
		summary, tried, _ := strings.Cut(err.Error(), "\n")
		return nil, false, &Sealed{Summary: summary, Tried: tried}
	}
	return plain, stale, nil
}

// Write implements Backend.
func (e *encrypted) Write(ctx context.Context, workspace string, data []byte) error {
	sealed, err := e.seal(ctx, data, e.Backend.Describe(workspace).Form)
	if err != nil {
		return err
	}
	if err := e.Backend.Write(ctx, workspace, sealed); err != nil {
		return err
	}
	e.note(workspace, false)
	return nil
}

func (e *encrypted) seal(ctx context.Context, data []byte, form tfstate.Form) ([]byte, error) {
	if !e.target.Encrypts() {
		return data, nil
	}
	sealed, err := e.target.SealState(ctx, data)
	if err != nil || form != tfstate.Indented {
		return sealed, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, sealed, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// encryptBackup returns the backup of earlier content: encrypted like new content.
func (e *encrypted) encryptBackup(ctx context.Context, before []byte) ([]byte, error) {
	plain, stale, err := Open(ctx, e.target, before)
	if err != nil || !stale {
		return before, nil //nolint:nilerr // unreadable content is kept unchanged
	}
	return e.seal(ctx, plain, tfstate.Indented)
}
