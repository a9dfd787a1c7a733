package hub_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
)

// apart is a transport where the pool eu has a store of its own, in which somebody stores blobs.
type apart struct {
	*mem.Conn
	store *mem.Conn
	puts  atomic.Int64
	fails atomic.Bool
}

type counted struct {
	wire.Blobs
	of *apart
}

func (c counted) PutBlob(ctx context.Context, sum string, data []byte) error {
	c.of.puts.Add(1)
	if c.of.fails.Load() {
		return wire.ErrUnanswered
	}
	return c.Blobs.PutBlob(ctx, sum, data)
}

func (a *apart) Domains(context.Context) (map[string]string, error) {
	return map[string]string{"eu": "eu"}, nil
}

func (a *apart) TaskBlobs(pool string) (wire.Blobs, bool) {
	if pool == "eu" {
		return counted{a.store, a}, true
	}
	return a.Conn, false
}

func TestAPackageIsCopiedOnceToTheStoreOfAPoolThatHasItsOwn(t *testing.T) {
	ctx := t.Context()
	system := mem.New(mem.Options{})
	a := &apart{Conn: system.Connect("coordinator"), store: mem.New(mem.Options{}).Connect("store")}
	h := hub.New(a, "c")
	for _, w := range []wire.Heartbeat{{Worker: "w1", Pools: []string{"eu"}, Platform: "linux_amd64"},
		{Worker: "w2", Pools: []string{"us"}, Platform: "linux_arm64"}} {
		if err := a.Beat(ctx, w); err != nil {
			t.Fatal(err)
		}
	}
	p := wire.Package{Source: "example.org/a/b", Version: "1.0.0"}
	data := []byte("archive")
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	for _, platform := range []string{"linux_amd64", "linux_arm64"} {
		if err := errors.Join(a.PutBlob(ctx, name, data), a.NameBlob(ctx, wire.PackageName(p, platform), name)); err != nil {
			t.Fatal(err)
		}
	}
	a.fails.Store(true)
	if err := h.Supply(ctx, "eu", p); !errors.Is(err, wire.ErrUnanswered) {
		t.Errorf("a store that does not answer: %v", err)
	}
	a.fails.Store(false)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := errors.Join(h.Supply(ctx, "eu", p), h.Supply(ctx, "us", p)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := a.puts.Load(); n != 2 {
		t.Errorf("it was stored %d times, one of them in vain", n)
	}
	if got, err := a.store.LookupBlob(ctx, wire.PackageName(p, "linux_amd64")); err != nil || got != name {
		t.Errorf("the store of the region has %q: %v", got, err)
	}
	if got, err := a.store.LookupBlob(ctx, wire.PackageName(p, "linux_arm64")); !errors.Is(err, wire.ErrNotFound) {
		t.Errorf("it has a package for a platform of another pool, %q: %v", got, err)
	}
	missing := wire.Package{Source: "example.org/a/c", Version: "1.0.0"}
	if err := h.Supply(ctx, "eu", missing); err != nil {
		t.Errorf("a package that nobody has uploaded: %v", err)
	}
}
