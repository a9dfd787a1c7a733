package log

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/state/seal"
)

var incarnation = ID{1, 2, 3}

func keyOf(t testing.TB, store string) *seal.Key {
	t.Helper()
	key, err := Key([]byte("a secret of 32 bytes, or any text"), incarnation, store)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func header() Header {
	return Header{Kind: Changes, Incarnation: incarnation, Store: "records", Epoch: 7, Member: "alice", ID: ID{4, 5, 6},
		Before: 300, BeforeHash: Hash{7, 8, 9}}
}

func noParts(Hash) ([]byte, error) { return nil, ErrNone }

func TestAnEntryIsReadAsItWasWritten(t *testing.T) {
	for name, content := range map[string][]byte{
		"without content": {}, "small": []byte("content"), "of two and a half parts": bytes.Repeat([]byte("x"), 5*MaxPart/2),
	} {
		t.Run(name, func(t *testing.T) {
			data, parts := header().seal(keyOf(t, "records"), content)
			e, err := Parse(data)
			if err != nil || e.Header != header() {
				t.Fatalf("%+v, %v", e, err)
			}
			if len(content) > MaxInline && (len(parts) != 3 || len(data) > 1000) || len(content) < MaxInline && parts != nil {
				t.Errorf("%d bytes and %d parts", len(data), len(parts))
			}
			got, err := e.open(keyOf(t, "records"), "records", func(h Hash) ([]byte, error) {
				for _, p := range parts {
					if sha256.Sum256(p) == h {
						return p, nil
					}
				}
				return nil, ErrNone
			})
			if err != nil || !bytes.Equal(got, content) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}

// The file has an entry of the first version. Later ones read it.
func TestAnEntryOfTheFirstVersionIsRead(t *testing.T) {
	const path = "testdata/entry-1.hex"
	if os.Getenv("UPDATE") != "" {
		data, _ := header().seal(keyOf(t, "records"), []byte("content"))
		if err := os.WriteFile(path, []byte(hex.EncodeToString(data)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	const plain = "01" + "52" + // the format; the length of the header
		"01" + "01020300000000000000000000000000" + // changes; the incarnation
		"07" + "7265636f726473" + "07" + "05" + "616c696365" + // the store; the epoch; the member
		"04050600000000000000000000000000" + "ac02" + // the ID; the sequence before
		"0708090000000000000000000000000000000000000000000000000000000000" + // the hash before
		"00" + "2f" // the content is here, with this length: a nonce, "content", a tag
	if got := hex.EncodeToString(data); !strings.HasPrefix(got, plain) || len(got) != len(plain)+2*(24+7+16) {
		t.Errorf("the entry is\n%s, and not as the document says\n%s", got, plain)
	}
	e, err := Parse(data)
	if err != nil || e.Header != header() {
		t.Fatalf("%+v, %v", e, err)
	}
	if content, err := e.open(keyOf(t, "records"), "records", noParts); err != nil || string(content) != "content" {
		t.Errorf("%q, %v", content, err)
	}
}

func TestUnknownFieldsAtTheEndAreSkippedAndANewerFormatIsRefused(t *testing.T) {
	key := keyOf(t, "records")
	head := appendText([]byte{Format}, append(header().code(), "a field of a later version"...))
	data := append(appendText(append(bytes.Clone(head), inline), key.Seal(head, []byte("content"))), "another field"...)
	e, err := Parse(data)
	if err != nil || e.Header != header() {
		t.Fatalf("%+v, %v", e, err)
	}
	if content, err := e.open(key, "records", noParts); err != nil || string(content) != "content" {
		t.Errorf("%q, %v", content, err)
	}
	data[0] = Format + 1
	if _, err := Parse(data); !errors.Is(err, ErrNewer) {
		t.Errorf("a newer format: %v", err)
	}
}

func TestAModifiedEntryIsNoticed(t *testing.T) {
	key := keyOf(t, "records")
	data, _ := header().seal(key, []byte("content"))
	at := Position{Incarnation: incarnation, Sequence: 300, Hash: Hash{7, 8, 9}, Epoch: 7, Member: "alice"}
	for i := range data {
		bad := bytes.Clone(data)
		bad[i] ^= 1
		e, err := Parse(bad)
		if err == nil {
			_, err = e.After(at, 301)
		}
		if err == nil {
			_, err = e.open(key, "records", noParts)
		}
		if err == nil {
			t.Errorf("byte %d of the entry was modified, and it is read", i)
		}
	}
	for i := range data {
		if _, err := Parse(data[:i]); err == nil {
			t.Errorf("the entry was cut off after %d bytes, and it is read", i)
		}
	}
	e, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.open(keyOf(t, "other"), "records", noParts); !errors.Is(err, ErrEntry) {
		t.Errorf("the key of another store opens it: %v", err)
	}
	if _, err := e.open(key, "other", noParts); !errors.Is(err, ErrEntry) {
		t.Errorf("it is taken for one of another store: %v", err)
	}
	other, err := Key([]byte("a secret of 32 bytes, or any text"), ID{9}, "records")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.open(other, "records", noParts); !errors.Is(err, ErrEntry) {
		t.Errorf("the key of another incarnation opens it: %v", err)
	}
}

func TestAnEntryFollowsOnlyTheOneThatItNames(t *testing.T) {
	at := Position{Incarnation: incarnation, Sequence: 300, Hash: Hash{7, 8, 9}, Epoch: 7, Member: "alice"}
	for claim, c := range map[string]struct {
		change func(h *Header, at *Position)
		refuse bool
	}{
		"the next one": {change: func(*Header, *Position) {}},
		"one that begins the next epoch": {change: func(h *Header, _ *Position) {
			h.Kind, h.Epoch, h.Member = Lead, 8, "bob"
		}},
		"one that begins a later epoch":      {change: func(h *Header, _ *Position) { h.Kind, h.Epoch = Lead, 12 }},
		"the first one":                      {change: func(h *Header, at *Position) { first(h, at) }},
		"one of another incarnation":         {change: func(h *Header, _ *Position) { h.Incarnation[0]++ }, refuse: true},
		"one after another sequence":         {change: func(h *Header, _ *Position) { h.Before-- }, refuse: true},
		"one after another entry":            {change: func(h *Header, _ *Position) { h.BeforeHash[0]++ }, refuse: true},
		"one of an earlier epoch":            {change: func(h *Header, _ *Position) { h.Epoch-- }, refuse: true},
		"one of an epoch that nobody began":  {change: func(h *Header, _ *Position) { h.Epoch++ }, refuse: true},
		"one of another member in the epoch": {change: func(h *Header, _ *Position) { h.Member = "bob" }, refuse: true},
		"one that begins the same epoch":     {change: func(h *Header, _ *Position) { h.Kind = Lead }, refuse: true},
		"one that is stored before": {change: func(h *Header, at *Position) {
			h.Before, at.Sequence = 301, 301
		}, refuse: true},
		"one after the end": {change: func(_ *Header, at *Position) { at.Ended = true }, refuse: true},
		"the first one of another incarnation": {change: func(h *Header, at *Position) {
			first(h, at)
			h.Incarnation[0]++
		}, refuse: true},
		"a first one that does not begin epoch": {change: func(h *Header, at *Position) {
			first(h, at)
			h.Kind = Changes
		}, refuse: true},
	} {
		t.Run(claim, func(t *testing.T) {
			h, at := header(), at
			c.change(&h, &at)
			data, _ := h.seal(keyOf(t, "records"), nil)
			e, err := Parse(data)
			if err != nil {
				t.Fatal(err)
			}
			next, err := e.After(at, 301)
			switch {
			case c.refuse && !errors.Is(err, ErrChain):
				t.Errorf("%v", err)
			case c.refuse && next != at:
				t.Errorf("the position became %+v", next)
			case !c.refuse && (err != nil ||
				next != Position{incarnation, 301, sha256.Sum256(data), h.Epoch, h.Member, false}):
				t.Errorf("%+v, %v", next, err)
			}
		})
	}
}

func first(h *Header, at *Position) {
	*at = Position{Incarnation: at.Incarnation}
	h.Kind, h.Before, h.BeforeHash, h.Epoch = Lead, 0, Hash{}, 1
}

func TestAPositionIsReadAsItWasWritten(t *testing.T) {
	for _, p := range []Position{{}, {incarnation, 1 << 60, Hash{1}, 5, "alice", true}} {
		if got, err := parsePosition(append(p.code(), "a later field"...)); err != nil || got != p {
			t.Errorf("%+v, %v", got, err)
		}
		for i := range p.code() {
			if _, err := parsePosition(p.code()[:i]); err == nil {
				t.Errorf("%d bytes of a position are one", i)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	key := keyOf(f, "records")
	for _, content := range [][]byte{nil, []byte("content"), bytes.Repeat([]byte("x"), MaxInline+1)} {
		data, _ := header().seal(key, content)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := Parse(data)
		if err != nil {
			if !errors.Is(err, ErrEntry) && !errors.Is(err, ErrNewer) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		if _, err := e.open(key, e.Store, noParts); err == nil && e.Header != header() {
			t.Fatalf("an entry that nobody sealed is opened: %+v", e.Header)
		}
		if _, err := e.After(Position{Incarnation: e.Incarnation, Sequence: e.Before}, e.Before+1); err != nil &&
			!errors.Is(err, ErrChain) {
			t.Fatalf("an error of another kind: %v", err)
		}
	})
}
