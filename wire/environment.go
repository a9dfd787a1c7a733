package wire

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Environment refers to the environment variables that plugins and provisioners of a task are started with. The
// variables themselves are sealed with a run key, so that nobody on the way can read or replace them.
type Environment struct {
	// Run names the key. It is usually the operation that the task belongs to, which may have several runs.
	Run string `msgpack:"r"`
	// Sealed has the sealed variables themselves if they are short; otherwise they are a blob.
	Sealed string `msgpack:"s,omitempty"`
	// Blob is the lower-case hex SHA-256 of the sealed variables.
	Blob string `msgpack:"b,omitempty"`
}

// shortVariables is the maximum size of sealed variables in bytes that are in each task instead of in a blob: a blob
// costs the server some twenty requests, which is more than a small run costs otherwise, and a kilobyte in 100,000
// tasks is 100 MB.
const shortVariables = 1 << 10

// Variables are environment variables for workers.
type Variables struct {
	// Whole says that Entries are the whole environment. Otherwise they are added to the worker's own.
	Whole bool `msgpack:"w,omitempty"`
	// Entries have the form NAME=value.
	Entries []string `msgpack:"e,omitempty"`
}

// MaxVariables is the largest encoded size of Variables in bytes: more than a program can be started with.
const MaxVariables = 2 << 20

// environmentSubject is the text that the seal of variables covers besides the variables.
func environmentSubject(pool, run string) string {
	return "environment." + Token(pool) + "." + Token(run)
}

// PutVariables seals variables for the workers of a pool, stores them as a blob if they are not short, and returns a
// reference to them. PurgeRun with the packer's Run removes the blob. The packer needs a Sealer and Blobs.
func (p Packer) PutVariables(ctx context.Context, pool string, v Variables) (*Environment, error) {
	plain := marshal(&v)
	if len(plain) > MaxVariables {
		return nil, fmt.Errorf("the environment has %d bytes, and %d can travel", len(plain), MaxVariables)
	}
	whole := Packer{Run: p.Run, Sealer: p.Sealer, Rand: p.Rand}
	sealed, err := whole.Pack(ctx, environmentSubject(pool, p.Run), plain)
	if err != nil {
		return nil, err
	}
	if len(sealed) <= shortVariables {
		return &Environment{Run: p.Run, Sealed: string(sealed)}, nil
	}
	sum := sha256.Sum256(sealed)
	name := hex.EncodeToString(sum[:])
	if err := p.Blobs.PutBlob(ctx, name, sealed); err != nil {
		return nil, err
	}
	if err := p.Blobs.NameBlob(ctx, SpillName(p.Run, name), name); err != nil {
		return nil, err
	}
	return &Environment{Run: p.Run, Blob: name}, nil
}

// GetVariables returns the variables that e refers to. It returns ErrNotFound if their blob was removed because the
// operation has ended, and ErrNotAuthentic for variables of another operation or pool. The packer's Run is e.Run, and
// its Sealer has the key of that.
func (p Packer) GetVariables(ctx context.Context, pool string, e *Environment) (*Variables, error) {
	sealed := []byte(e.Sealed)
	if e.Sealed == "" {
		var err error
		if sealed, err = p.Blobs.GetBlobIf(ctx, e.Blob, func(bytes int64) error {
			if bytes > MaxVariables+CompressOver { // with the fields that the envelope adds
				return fmt.Errorf("the environment has %d bytes", bytes)
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	whole := Packer{Run: p.Run, Sealer: p.Sealer, Rand: p.Rand}
	plain, err := whole.Unpack(ctx, environmentSubject(pool, p.Run), sealed)
	if err != nil {
		return nil, err
	}
	if len(plain) > MaxVariables {
		return nil, fmt.Errorf("the environment has %d bytes", len(plain))
	}
	v, err := unmarshalAs[Variables]("environment", plain)
	if err != nil {
		return nil, err
	}
	return &v, nil
}
