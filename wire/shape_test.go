package wire_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/wire"
)

// A field was added to a task without a new version of the protocol. A worker and a coordinator of different builds
// then refused each other's messages with "number of fields in array-encoded struct has changed", in the middle of a
// run, instead of naming the versions.
func TestEachShapeOfTheMessagesHasAVersionOfItsOwn(t *testing.T) {
	const version, known = 5, "26250c3d9c66ce19"
	var text strings.Builder
	seen := map[reflect.Type]bool{}
	for _, message := range []any{wire.Task{}, wire.Result{}, wire.Claim{}, wire.PermitRequest{}, wire.PermitOffer{},
		wire.Heartbeat{}, wire.Control{}, wire.Event{}, wire.Variables{}, wire.SealedKey{}} {
		describe(&text, reflect.TypeOf(message), seen)
	}
	sum := sha256.Sum256([]byte(text.String()))
	if shape := hex.EncodeToString(sum[:8]); shape != known || wire.ProtocolVersion != version {
		t.Errorf("the messages of version %d have the shape %s; known is %s for version %d. If a message has changed, "+
			"raise wire.ProtocolVersion, and record the shape here and the change in docs/format/wire.md:\n%s",
			wire.ProtocolVersion, shape, known, version, text.String())
	}
}

// describe writes the fields of a type and of the types of this package in it, in their order.
func describe(to *strings.Builder, ty reflect.Type, seen map[reflect.Type]bool) {
	for ty.Kind() == reflect.Pointer || ty.Kind() == reflect.Slice || ty.Kind() == reflect.Map {
		ty = ty.Elem()
	}
	if ty.Kind() != reflect.Struct || seen[ty] || ty.PkgPath() != reflect.TypeFor[wire.Task]().PkgPath() {
		return
	}
	seen[ty] = true
	fmt.Fprintf(to, "%s:", ty.Name())
	for i := range ty.NumField() {
		if f := ty.Field(i); f.IsExported() && f.Tag.Get("msgpack") != "-" {
			fmt.Fprintf(to, " %s %s;", f.Name, f.Type)
		}
	}
	to.WriteByte('\n')
	for i := range ty.NumField() {
		describe(to, ty.Field(i).Type, seen)
	}
}
