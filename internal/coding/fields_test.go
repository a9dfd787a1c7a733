package coding_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/millipede-iac/millipede/internal/coding"
)

// tagged is encoded by its tags, and by EncodeFields.
type tagged struct {
	Text   string    `msgpack:"t,omitempty"`
	Always string    `msgpack:"ta"`
	Bytes  []byte    `msgpack:"b,omitempty"`
	All    []byte    `msgpack:"ba"`
	Bool   bool      `msgpack:"o,omitempty"`
	Int    int64     `msgpack:"i,omitempty"`
	AnyInt int64     `msgpack:"ia"`
	Uint   uint64    `msgpack:"u,omitempty"`
	Time   time.Time `msgpack:"at"`
	List   []string  `msgpack:"l,omitempty"`
}

func fields(to *msgpack.Encoder, c *tagged) error {
	return coding.EncodeFields(to, func(f *coding.Fields) {
		f.Text("t", c.Text)
		f.AnyText("ta", c.Always, true)
		f.Bytes("b", c.Bytes)
		f.AnyBytes("ba", c.All, true)
		f.Bool("o", c.Bool)
		f.Int("i", c.Int)
		f.AnyInt("ia", c.AnyInt, true)
		f.Uint("u", c.Uint)
		f.Time("at", c.Time)
		f.Other("l", &c.List, len(c.List) > 0)
	})
}

func TestFieldsAreEncodedAsMsgpackEncodesAStruct(t *testing.T) {
	for name, v := range map[string]tagged{
		"empty": {},
		"full": {"text", "always", []byte{1}, []byte{2}, true, -300, 70_000, 1 << 40,
			time.Date(2026, 11, 25, 16, 0, 0, 7, time.UTC), []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			var want, got bytes.Buffer
			tags := msgpack.NewEncoder(&want)
			tags.UseCompactInts(true)
			if err := tags.Encode(&v); err != nil {
				t.Fatal(err)
			}
			if err := fields(msgpack.NewEncoder(&got), &v); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want.Bytes()) {
				t.Errorf("%x is encoded, msgpack encodes %x", got.Bytes(), want.Bytes())
			}
		})
	}
}

func TestAnEncoderThatFailsEndsTheFields(t *testing.T) {
	if err := fields(msgpack.NewEncoder(full{}), &tagged{Text: "text"}); err == nil {
		t.Error("the error of the writer is lost")
	}
}

// full is a writer without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, bytes.ErrTooLarge }
