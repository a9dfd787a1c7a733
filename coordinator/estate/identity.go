package estate

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/encryption"
	"github.com/millipede-iac/millipede/internal/bounds"
)

// identity returns the name and the key pair of the coordinator that owns the store of a home; they are generated
// at first use. Their file contains the name and, in the next line, the seed of the pair, which is encrypted if the
// state is. The key pair decrypts the keys of runs that are resumed; it is stored outside of the message store. A
// process without a home gets a temporary name and pair: its runs cannot be resumed.
func (e *Estate) identity(ctx context.Context, home *layout.Home) (string, nkeys.KeyPair, error) {
	if home == nil {
		pair, err := nkeys.CreateCurveKeys()
		return e.newCoordinator(), pair, err
	}
	file := home.Identity()
	name, kept, err := readIdentity(file)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case missing:
		name = e.newCoordinator()
	case err != nil:
		return "", nil, err
	}
	seed, stale := e.openSeed(ctx, kept)
	if seed == nil {
		pair, err := nkeys.CreateCurveKeys()
		if err != nil {
			return "", nil, err
		}
		if seed, err = pair.Seed(); err != nil {
			return "", nil, err
		}
		stale = true
	}
	pair, err := nkeys.FromCurveSeed(seed)
	if err != nil {
		return "", nil, fmt.Errorf("the file %s is damaged: %w", file, err)
	}
	t := e.sealing.State()
	switch {
	case stale && e.Seeds != nil:
		if seed, err = e.Seeds.Seal(ctx, seed); err == nil {
			err = writeIdentity(file, name, base64.StdEncoding.AppendEncode(nil, seed))
		}
	case stale && !(t.Encrypts() && e.Use.LooksOnly):
		if seed, err = t.Seal(ctx, seed); err == nil {
			err = writeIdentity(file, name, seed)
		}
	case missing:
		err = writeIdentity(file, name, nil) // the first run generates another pair
	}
	return name, pair, err
}

// newCoordinator generates the name of a coordinator.
func (e *Estate) newCoordinator() string { return "c-" + strings.ToLower(e.NewID()[:12]) }

// openSeed returns the seed, and whether it is not stored as configured; nil if there is none. A seed that cannot
// be decrypted is discarded: the store was decrypted before with the configured key, so at most messages of an
// interrupted run in the message store are lost.
func (e *Estate) openSeed(ctx context.Context, kept []byte) (seed []byte, stale bool) {
	t := e.sealing.State()
	switch {
	case len(kept) == 0:
		return nil, true
	case e.Seeds != nil:
		sealed, err := base64.StdEncoding.DecodeString(string(kept))
		if err == nil {
			seed, stale, err = e.Seeds.Open(ctx, sealed, nil)
		}
		if err != nil {
			return nil, true
		}
		return seed, stale
	case !encryption.IsEncrypted(kept):
		return kept, t.Encrypts()
	case t == nil:
		return nil, true
	}
	seed, stale, err := t.Open(ctx, kept, nil)
	if err != nil {
		return nil, true
	}
	return seed, stale
}

// readIdentity returns the name, and the stored form of the seed.
func readIdentity(file string) (name string, kept []byte, err error) {
	text, err := bounds.ReadFile(file, bounds.Text)
	if err != nil {
		return "", nil, err
	}
	first, rest, _ := bytes.Cut(bytes.TrimSpace(text), []byte("\n"))
	return string(first), bytes.TrimSpace(rest), nil
}

// writeIdentity writes the file durably and atomically, because runs depend on it.
func writeIdentity(file, name string, kept []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return backend.WriteWhole(file, fmt.Appendf(nil, "%s\n%s\n", name, kept))
}

// CoordinatorAt returns the name and the key pair of the coordinator that owns a home, sealed with seeds. They are
// generated at first use. It is for a coordinator that executes the runs of many estates.
func CoordinatorAt(ctx context.Context, home layout.Home, seeds Sealer, newID func() string) (string, nkeys.KeyPair,
	error) {
	return New(Options{Seeds: seeds, NewID: newID}).identity(ctx, &home)
}
