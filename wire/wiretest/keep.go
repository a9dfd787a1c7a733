package wiretest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"slices"

	"github.com/nats-io/nkeys"

	"github.com/millipede-iac/millipede/wire"
)

// noise returns n bytes that do not compress, the same for the same seed.
func noise(seed byte, n int) []byte {
	data := make([]byte, n)
	source(seed).Read(data) //nolint:errcheck // never fails
	return data
}

// source is a random source for tests, deterministic for a seed.
func source(seed byte) *rand.ChaCha8 { return rand.NewChaCha8([32]byte{seed}) }

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

var keepTests = []test{
	{"a blob comes back whole, whatever its size", func(ctx context.Context, b *bench) {
		alice, worker := b.actor(), b.actor()
		for _, n := range []int{0, 1, 128 << 10, 3<<20 + 17} {
			data := noise(1, n)
			b.no(alice.PutBlob(ctx, hash(data), data))
			b.no(alice.PutBlob(ctx, hash(data), data)) // again
			got, err := worker.GetBlob(ctx, hash(data))
			b.no(err)
			if !bytes.Equal(got, data) {
				b.Fatalf("a blob of %d bytes came back as %d others", n, len(got))
			}
		}
	}},
	{"a blob that nobody stored is not found", func(ctx context.Context, b *bench) {
		alice := b.actor()
		there, err := alice.HasBlob(ctx, hash([]byte("x")))
		b.no(err)
		if there {
			b.Fatal("it is there")
		}
		_, err = alice.GetBlob(ctx, hash([]byte("x")))
		b.is(err, wire.ErrNotFound)
		b.no(alice.PutBlob(ctx, hash([]byte("x")), []byte("x")))
		if there, err = alice.HasBlob(ctx, hash([]byte("x"))); err != nil || !there {
			b.Fatalf("it is not there: %v", err)
		}
	}},
	{"a blob under a wrong hash is refused", func(ctx context.Context, b *bench) {
		alice := b.actor()
		if err := alice.PutBlob(ctx, hash([]byte("x")), []byte("y")); err == nil {
			b.Fatal("it was stored")
		}
		_, err := alice.GetBlob(ctx, hash([]byte("x")))
		b.is(err, wire.ErrNotFound)
	}},
	{"a name leads to its blob, and can be bound anew", func(ctx context.Context, b *bench) {
		alice, worker := b.actor(), b.actor()
		name := wire.PackageName(wire.Package{Source: "registry.opentofu.org/hashicorp/aws", Version: "5.1.0+x"},
			"linux_amd64")
		_, err := worker.LookupBlob(ctx, name)
		b.is(err, wire.ErrNotFound)
		for _, content := range []string{"one", "two"} {
			sum := hash([]byte(content))
			b.no(alice.PutBlob(ctx, sum, []byte(content)))
			b.no(alice.NameBlob(ctx, name, sum))
			got, err := worker.LookupBlob(ctx, name)
			b.no(err)
			if got != sum {
				b.Fatalf("the name leads to %s", got)
			}
		}
	}},
	{"blobs and names survive a restart of the server", func(ctx context.Context, b *bench) {
		alice := b.actor()
		b.no(alice.PutBlob(ctx, hash([]byte("x")), []byte("x")))
		b.no(alice.NameBlob(ctx, "n", hash([]byte("x"))))
		b.no(alice.Close())
		b.Restart(b.T)
		worker := b.actor()
		sum, err := worker.LookupBlob(ctx, "n")
		b.no(err)
		_, err = worker.GetBlob(ctx, sum)
		b.no(err)
	}},
	{"a large message travels sealed through a blob, and goes with its run", func(ctx context.Context, b *bench) {
		alice, worker := b.actor(), b.actor()
		sealer, err := wire.NewSealer(source(1))
		b.no(err)
		r := ref("a1")
		data := noise(2, wire.SpillOver+1)
		out := wire.Packer{Run: r.Run, Sealer: sealer, Blobs: alice, Rand: source(2)}
		packed, err := out.Pack(ctx, wire.TaskSubject(r), data)
		b.no(err)
		if len(packed) > 1024 {
			b.Fatalf("the envelope has %d bytes", len(packed))
		}
		b.no(alice.PublishTask(ctx, r, packed))
		d := b.tasks(ctx, worker, r.Pool, 1)[0]
		in := wire.Packer{Run: r.Run, Sealer: sealer, Blobs: worker, Rand: source(3)}
		got, err := in.Unpack(ctx, wire.TaskSubject(d.Ref()), d.Data())
		b.no(err)
		if !bytes.Equal(got, data) {
			b.Fatal("it came out different")
		}
		b.no(alice.PurgeRun(ctx, "another run", nil))
		_, err = in.Unpack(ctx, wire.TaskSubject(d.Ref()), d.Data())
		b.no(err)
		b.no(alice.PurgeRun(ctx, r.Run, nil))
		_, err = in.Unpack(ctx, wire.TaskSubject(d.Ref()), d.Data())
		b.is(err, wire.ErrNotFound)
	}},
	{"a large result travels through the blobs of its pool, and goes with its run",
		func(ctx context.Context, b *bench) {
			alice, worker := b.actor(), b.actor()
			r := ref("a1")
			r.Pool = "eu_west 1"
			b.publish(ctx, alice, r) // which makes the pool known
			data := noise(3, wire.SpillOver+1)
			out := wire.Packer{Run: r.Run, Blobs: worker.PoolBlobs(r.Pool), Incoming: worker, Rand: source(2)}
			packed, err := out.Pack(ctx, "about", data)
			b.no(err)
			in := wire.Packer{Run: r.Run, Blobs: alice, Incoming: alice.PoolBlobs(r.Pool), Rand: source(3)}
			got, err := in.Unpack(ctx, "about", packed)
			b.no(err)
			if !bytes.Equal(got, data) {
				b.Fatal("it came out different")
			}
			b.no(alice.PurgeRun(ctx, r.Run, nil))
			_, err = in.Unpack(ctx, "about", packed)
			b.is(err, wire.ErrNotFound)
		}},
	{"a key that nobody stored is not found", func(ctx context.Context, b *bench) {
		_, err := b.actor().GetKey(ctx, "eu", "run-1", "W")
		b.is(err, wire.ErrNotFound)
	}},
	{"a run's key reaches whom it was sealed for, and nobody else", func(ctx context.Context, b *bench) {
		alice, worker := b.actor(), b.actor()
		ring := func(c wire.Transport, seed byte) *wire.Keyring {
			pair, err := nkeys.CreateCurveKeysWithRand(source(seed))
			b.no(err)
			k, err := wire.NewKeyring(c, pair, source(seed+100))
			b.no(err)
			return k
		}
		coordinator, invited, uninvited := ring(alice, 1), ring(worker, 2), ring(worker, 3)
		own, err := coordinator.Create(ctx, "eu 1", "run-1")
		b.no(err)
		_, err = invited.Open(ctx, "eu 1", "run-1")
		b.is(err, wire.ErrNoKey)
		b.no(coordinator.Share(ctx, "eu 1", "run-1", invited.PublicKey()))
		theirs, err := invited.Open(ctx, "eu 1", "run-1")
		b.no(err)
		_, err = coordinator.Create(ctx, "us", "run-1")
		b.no(err)
		_, err = invited.Open(ctx, "us", "run-1")
		b.is(err, wire.ErrNoKey)
		sealed, err := own.Seal(nil, []byte("secret"), []byte("about"))
		b.no(err)
		plain, err := theirs.Open(sealed, []byte("about"))
		b.no(err)
		if string(plain) != "secret" {
			b.Fatalf("it opened as %q", plain)
		}
		_, err = uninvited.Open(ctx, "eu 1", "run-1")
		b.is(err, wire.ErrNoKey)
		restarted := ring(alice, 1)
		again, err := restarted.Open(ctx, "eu 1", "run-1")
		b.no(err)
		if plain, err = again.Open(sealed, []byte("about")); err != nil || string(plain) != "secret" {
			b.Fatalf("after a restart it opened as %q, %v", plain, err)
		}
		b.no(alice.PurgeRun(ctx, "run-1", nil))
		_, err = ring(worker, 2).Open(ctx, "eu 1", "run-1")
		b.is(err, wire.ErrNoKey)
	}},
	{"keys that are stored together reach their recipients, and are replaced and removed together",
		func(ctx context.Context, b *bench) {
			alice, worker := b.actor(), b.actor()
			keys := func(pairs ...string) (list []wire.SealedKey) {
				for pair := range slices.Chunk(pairs, 2) {
					list = append(list, wire.SealedKey{Recipient: pair[0], Sealed: []byte(pair[1])})
				}
				return list
			}
			has := func(pool, recipient, want string) {
				got, err := worker.GetKey(ctx, pool, "run-1", recipient)
				if want == "" {
					b.is(err, wire.ErrNotFound)
					return
				}
				b.no(err)
				if string(got) != want {
					b.Fatalf("the key of %s is %q, not %q", recipient, got, want)
				}
			}
			b.no(alice.PutKeys(ctx, "eu 1", "run-1", keys("V", "v", "W", "w")))
			b.no(alice.PutKey(ctx, "eu 1", "run-1", "X", []byte("x")))
			b.no(alice.PutKeys(ctx, "us", "run-1", keys("V", "of us")))
			has("eu 1", "V", "v")
			has("eu 1", "W", "w")
			has("eu 1", "X", "x")
			has("eu 1", "Y", "")
			b.no(alice.PutKeys(ctx, "eu 1", "run-1", keys("V", "new", "X", "newer")))
			has("eu 1", "V", "new")
			has("eu 1", "X", "newer")
			b.no(alice.PurgeKeys(ctx, "eu 1", "another run"))
			has("eu 1", "V", "new")
			b.no(alice.PurgeKeys(ctx, "eu 1", "run-1"))
			for _, recipient := range []string{"V", "X"} {
				has("eu 1", recipient, "")
			}
			has("us", "V", "of us")
		}},
}
