package wire_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
)

func sealer(t testing.TB, seed byte) *wire.Sealer {
	t.Helper()
	s, err := wire.NewSealer(source(seed))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhatIsSealedOpensOnlyAsItWas(t *testing.T) {
	s := sealer(t, 1)
	plain, about := []byte("the planted secret"), []byte("task.eu.c.r.a")
	sealed, err := s.Seal([]byte("head"), plain, about)
	if err != nil {
		t.Fatal(err)
	}
	body := sealed[4:]
	if bytes.Contains(sealed, plain) {
		t.Fatal("the message is not encrypted")
	}
	if got, err := s.Open(body, about); err != nil || !bytes.Equal(got, plain) {
		t.Fatalf("the decrypted message is %q, %v", got, err)
	}
	refuse := func(what string, s *wire.Sealer, sealed, about []byte) {
		t.Helper()
		if _, err := s.Open(sealed, about); !errors.Is(err, wire.ErrNotAuthentic) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refuse("another subject", s, body, []byte("task.us.c.r.a"))
	refuse("another key", sealer(t, 2), body, about)
	for i := range body {
		altered := bytes.Clone(body)
		altered[i] ^= 1
		refuse("a flipped bit", s, altered, about)
		refuse("a cut message", s, body[:i], about)
	}
}

func TestTheSameTextIsNeverSealedAlike(t *testing.T) {
	s := sealer(t, 1)
	one, _ := s.Seal(nil, []byte("x"), nil)
	two, _ := s.Seal(nil, []byte("x"), nil)
	if bytes.Equal(one, two) {
		t.Error("it was")
	}
}

func TestEnvelopesComeBackWhole(t *testing.T) {
	ctx := t.Context()
	blobs := mem.New(mem.Options{}).Connect("blobs")
	for _, seal := range []bool{false, true} {
		p := wire.Packer{Run: "r", Blobs: blobs, Rand: source(3)}
		if seal {
			p.Sealer = sealer(t, 1)
		}
		for name, data := range map[string][]byte{
			"nothing": nil, "small": []byte("hello"), "compressible": bytes.Repeat([]byte("abc"), 100_000),
			"not compressible": noise(100_000), "large": noise(wire.SpillOver + 1),
			"large once compressed": append(noise(wire.SpillOver), make([]byte, 1<<20)...),
		} {
			packed, err := p.Pack(ctx, "subject", data)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if len(packed) > wire.SpillOver+100 {
				t.Errorf("%s: the envelope has %d bytes", name, len(packed))
			}
			got, err := p.Unpack(ctx, "subject", packed)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: %d bytes came back, %v", name, len(got), err)
			}
			if _, err := p.Unpack(ctx, "another", packed); seal && !errors.Is(err, wire.ErrNotAuthentic) {
				t.Errorf("%s: the message was decrypted under another subject: %v", name, err)
			}
		}
	}
}

// store has blobs that a test can inspect.
type store struct {
	wire.Blobs
	data  map[string][]byte
	names map[string]string
}

func (s *store) PutBlob(_ context.Context, sum string, data []byte) error {
	if have := sha256.Sum256(data); hex.EncodeToString(have[:]) != sum {
		return errors.New("wrong hash")
	}
	s.data[sum] = bytes.Clone(data)
	return nil
}

func (s *store) NameBlob(_ context.Context, name, sum string) error { s.names[name] = sum; return nil }

func (s *store) GetBlob(_ context.Context, sum string) ([]byte, error) {
	return bytes.Clone(s.data[sum]), nil
}

func (s *store) GetBlobIf(_ context.Context, sum string, ok func(bytes int64) error) ([]byte, error) {
	data := bytes.Clone(s.data[sum])
	return data, ok(int64(len(data)))
}

func TestASpilledMessageIsSealedEvenWithoutAKey(t *testing.T) {
	secret := []byte("the planted ephemeral value")
	data := append(noise(wire.SpillOver), secret...)
	blobs := &store{data: map[string][]byte{}, names: map[string]string{}}
	p := wire.Packer{Run: "run 1", Blobs: blobs, Rand: source(3)}
	packed, err := p.Pack(t.Context(), "call.eu", data)
	if err != nil {
		t.Fatal(err)
	}
	for sum, blob := range blobs.data {
		if bytes.Contains(blob, secret) || bytes.Contains(blob, data[:64]) {
			t.Error("the blob is not encrypted")
		}
		if blobs.names[wire.SpillName("run 1", sum)] != sum {
			t.Error("the blob is not bound to its run")
		}
		blob[len(blob)/2] ^= 1
	}
	if _, err := p.Unpack(t.Context(), "call.eu", packed); !errors.Is(err, wire.ErrNotAuthentic) {
		t.Errorf("an altered blob was accepted: %v", err)
	}
}

func TestAnEnvelopeThatIsNotSealedIsRefusedWhereSealsAreUsed(t *testing.T) {
	open := wire.Packer{Rand: source(3)}
	closed := wire.Packer{Sealer: sealer(t, 1), Rand: source(4)}
	packed, _ := open.Pack(t.Context(), "s", []byte("x"))
	if _, err := closed.Unpack(t.Context(), "s", packed); !errors.Is(err, wire.ErrNotAuthentic) {
		t.Errorf("an envelope that is not sealed was accepted: %v", err)
	}
	sealed, _ := closed.Pack(t.Context(), "s", []byte("x"))
	if _, err := open.Unpack(t.Context(), "s", sealed); !errors.Is(err, wire.ErrNoKey) {
		t.Errorf("without a key: %v", err)
	}
	sealed[1] &^= 2 // claims not to be sealed
	if _, err := closed.Unpack(t.Context(), "s", sealed); !errors.Is(err, wire.ErrNotAuthentic) {
		t.Errorf("with an altered flag: %v", err)
	}
}

func TestHostileEnvelopesAreRefused(t *testing.T) {
	p := wire.Packer{Rand: source(3), Blobs: mem.New(mem.Options{}).Connect("b")}
	for _, packed := range [][]byte{nil, {1}, {2, 0}, {1, 255}, {1, 1, 0x28, 0xb5}, {1, 4},
		append([]byte{1, 4}, make([]byte, 64)...)} {
		if got, err := p.Unpack(t.Context(), "s", packed); err == nil {
			t.Errorf("%x was read as %x", packed, got)
		}
	}
}

func TestAKeyOfAnotherRunDoesNotOpen(t *testing.T) {
	ctx := t.Context()
	c := mem.New(mem.Options{}).Connect("c")
	pair, err := nkeys.CreateCurveKeysWithRand(source(1))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := wire.NewKeyring(c, pair, source(2))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ring.Create(ctx, "eu", "run-1"); err != nil {
		t.Fatal(err)
	}
	sealed, err := c.GetKey(ctx, "eu", "run-1", ring.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.PutKey(ctx, "us", "run-1", ring.PublicKey(), sealed); err != nil {
		t.Fatal(err)
	}
	if _, err := ring.Open(ctx, "us", "run-1"); !errors.Is(err, wire.ErrNotAuthentic) {
		t.Errorf("a key of another pool: %v", err)
	}
	for what, bad := range map[string][]byte{
		"of another run": sealed, "cut": sealed[:40], "altered": slices.Concat(sealed[:80], []byte{sealed[80] ^ 1},
			sealed[81:]), "empty": nil,
	} {
		if err := c.PutKey(ctx, "eu", "run-2", ring.PublicKey(), bad); err != nil {
			t.Fatal(err)
		}
		if _, err := ring.Open(ctx, "eu", "run-2"); !errors.Is(err, wire.ErrNotAuthentic) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := ring.Share(ctx, "eu", "run-1", "not a key"); err == nil {
		t.Error("the key was shared with an invalid recipient")
	}
	if err := ring.Share(ctx, "eu", "run-9", ring.PublicKey()); !errors.Is(err, wire.ErrNoKey) {
		t.Errorf("a key that does not exist was shared: %v", err)
	}
}
