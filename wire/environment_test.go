package wire_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"reflect"
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
	secret := wire.Variables{Whole: true, Entries: []string{"AWS_SECRET_ACCESS_KEY=hunter2", "EMPTY="}}
	at, err := packer.PutVariables(t.Context(), "eu", secret)
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := conn.GetBlob(t.Context(), at.Blob); err != nil || bytes.Contains(kept, []byte("hunter2")) ||
		bytes.Contains(kept, []byte("AWS")) {
		t.Errorf("what is kept is %q, %v", kept, err)
	}
	if got, err := packer.GetVariables(t.Context(), "eu", at); err != nil || !reflect.DeepEqual(*got, secret) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := packer.GetVariables(t.Context(), "us", at); !errors.Is(err, wire.ErrNotAuthentic) {
		t.Errorf("in another pool: %v", err)
	}
	other := packer
	other.Run = "another"
	if _, err := other.GetVariables(t.Context(), "eu", at); !errors.Is(err, wire.ErrNotAuthentic) {
		t.Errorf("as another operation's: %v", err)
	}
	if other.Run, other.Sealer, err = "operation", nil, nil; err != nil {
		t.Fatal(err)
	}
	if _, err := other.GetVariables(t.Context(), "eu", at); !errors.Is(err, wire.ErrNoKey) {
		t.Errorf("without the key: %v", err)
	}
	if err := conn.PurgeRun(t.Context(), "operation"); err != nil {
		t.Fatal(err)
	}
	if _, err := packer.GetVariables(t.Context(), "eu", at); !errors.Is(err, wire.ErrNotFound) {
		t.Errorf("after the end of the operation: %v", err)
	}
}
