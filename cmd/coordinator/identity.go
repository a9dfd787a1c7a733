package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/millipede-iac/millipede/state/encryption"
	"github.com/millipede-iac/millipede/state/snapshot"
)

// identityFile holds the name of the coordinator that owns the store in this directory, and in the next line the seed of its key
// pair: as it is, or in an envelope where the state is encrypted.
var identityFile = filepath.Join(storeDir, "coordinator")

// looking are the commands that have an engine and change nothing: they leave the file as it is.
var looking = []string{"plan", "console", "graph", "validate"}

// identity returns the name and the key pair; they are made at the first use. The key pair opens the keys of runs that are
// resumed; it lies outside of the message store. A seed that cannot be decrypted is given up: of the store, which was read
// before, the configuration has the key, so what is lost is at most what an interrupted run left in the message store.
func (a *app) identity(ctx context.Context) (string, nkeys.KeyPair, error) {
	name, kept, err := readIdentity()
	if errors.Is(err, fs.ErrNotExist) {
		return a.newIdentity(ctx)
	}
	if err != nil {
		return "", nil, err
	}
	t := a.sealing.State()
	seed, stale := kept, t.Encrypts()
	if encryption.IsEncrypted(kept) {
		if t == nil {
			return a.newIdentity(ctx)
		}
		if seed, stale, err = t.Open(ctx, kept, nil); err != nil {
			return a.newIdentity(ctx)
		}
	}
	pair, err := nkeys.FromCurveSeed(bytes.TrimSpace(seed))
	if err != nil {
		return "", nil, fmt.Errorf("the file %s is damaged: %w", identityFile, err)
	}
	if stale && !slices.Contains(looking, a.command) {
		err = a.writeIdentity(ctx, name, seed)
	}
	return name, pair, err
}

// readIdentity returns the name, and the seed as it is kept.
func readIdentity() (name string, kept []byte, err error) {
	text, err := os.ReadFile(identityFile)
	if err != nil {
		return "", nil, err
	}
	first, rest, _ := bytes.Cut(bytes.TrimSpace(text), []byte("\n"))
	return string(first), bytes.TrimSpace(rest), nil
}

func (a *app) newIdentity(ctx context.Context) (string, nkeys.KeyPair, error) {
	pair, err := nkeys.CreateCurveKeys()
	if err != nil {
		return "", nil, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return "", nil, err
	}
	name := "c-" + strings.ToLower(newID()[:12])
	return name, pair, a.writeIdentity(ctx, name, seed)
}

func (a *app) writeIdentity(ctx context.Context, name string, seed []byte) error {
	if err := os.MkdirAll(storeDir, 0o700); err != nil {
		return err
	}
	kept, err := a.sealing.State().Seal(ctx, seed)
	if err != nil {
		return err
	}
	// Runs rest on it, so it must not be lost with the power, nor be half there.
	return snapshot.WriteWhole(identityFile, fmt.Appendf(nil, "%s\n%s\n", name, kept))
}
