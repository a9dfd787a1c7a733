package wire_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
)

func TestVariablesAreReadWithTheirKeyInTheirPoolAlone(t *testing.T) {
	conn := mem.New(mem.Options{}).Connect("c")
	defer conn.Close()
	sealer, err := wire.NewSealer(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	packer := wire.Packer{Run: "operation", Sealer: sealer, Blobs: conn, Rand: rand.Reader}
	secret := []string{"AWS_SECRET_ACCESS_KEY=hunter2", "EMPTY="}
	for what, entries := range map[string][]string{
		"short": secret,
		"long":  append(secret, "LONG="+rand.Text()+strings.Repeat("long", 1000)),
	} {
		want := wire.Variables{Whole: true, Entries: entries}
		at, err := packer.PutVariables(t.Context(), "eu", want)
		if err != nil {
			t.Fatal(err)
		}
		if (at.Sealed == "") != (what == "long") || (at.Blob == "") != (what == "short") {
			t.Errorf("%s: the reference is %+v", what, at)
		}
		kept := []byte(at.Sealed)
		if at.Blob != "" {
			kept, err = conn.GetBlob(t.Context(), at.Blob)
		}
		if err != nil || bytes.Contains(kept, []byte("hunter2")) || bytes.Contains(kept, []byte("AWS")) {
			t.Errorf("%s: the stored variables are %q, %v", what, kept, err)
		}
		if got, err := packer.GetVariables(t.Context(), "eu", at); err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: got %+v, %v", what, got, err)
		}
		if _, err := packer.GetVariables(t.Context(), "us", at); !errors.Is(err, wire.ErrNotAuthentic) {
			t.Errorf("%s, in another pool: %v", what, err)
		}
		other := packer
		other.Run = "another"
		if _, err := other.GetVariables(t.Context(), "eu", at); !errors.Is(err, wire.ErrNotAuthentic) {
			t.Errorf("%s, as another operation's: %v", what, err)
		}
		other.Run, other.Sealer = "operation", nil
		if _, err := other.GetVariables(t.Context(), "eu", at); !errors.Is(err, wire.ErrNoKey) {
			t.Errorf("%s, without the key: %v", what, err)
		}
		if err := conn.PurgeRun(t.Context(), "operation", nil); err != nil {
			t.Fatal(err)
		}
		// Short environments are part of the task, so they can be read by everybody who has the key.
		if _, err := packer.GetVariables(t.Context(), "eu", at); errors.Is(err, wire.ErrNotFound) != (what == "long") {
			t.Errorf("%s, after the end of the operation: %v", what, err)
		}
	}
}
