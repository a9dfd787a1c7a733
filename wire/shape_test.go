package wire_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/wire"
)

// messages are all messages of the protocol.
var messages = []any{wire.Task{}, wire.Result{}, wire.Claim{}, wire.PermitRequest{}, wire.PermitOffer{},
	wire.Heartbeat{}, wire.Control{}, wire.Event{}, wire.Variables{}, wire.SealedKey{}}

// A field was added to a task without a new version of the protocol. A worker and a coordinator of different builds
// then refused each other's messages with "number of fields in array-encoded struct has changed", in the middle of a
// run, instead of naming the versions.
func TestEachShapeOfTheMessagesHasAVersionOfItsOwn(t *testing.T) {
	var text strings.Builder
	seen := map[reflect.Type]bool{}
	for _, message := range messages {
		describe(&text, reflect.TypeOf(message), seen)
	}
	known, err := os.ReadFile(shapeFile(wire.ProtocolVersion))
	if err != nil || string(known) != text.String() {
		t.Errorf("the messages of version %d do not have the shape that is recorded in %s (%v). If a message has changed "+
			"since a release, raise wire.ProtocolVersion, record the shape, and describe the change in "+
			"docs/format/wire.md. The shape is now:\n%s", wire.ProtocolVersion, shapeFile(wire.ProtocolVersion), err,
			text.String())
	}
}

// A reader takes fields by their position: one that is removed, or put between others, would be read as another.
func TestMessagesOnlyGainFieldsAtTheirEnd(t *testing.T) {
	for version := wire.LowestVersion; version <= wire.ProtocolVersion; version++ {
		older, newer := shape(t, version-1), shape(t, version)
		for name, fields := range older {
			if !strings.HasPrefix(newer[name], fields) {
				t.Errorf("%s was in version %d\n%s\nand is in version %d\n%s", name, version-1, fields, version, newer[name])
			}
		}
	}
}

func shapeFile(version int) string {
	return filepath.Join("testdata", "shapes", fmt.Sprint(version))
}

// shape returns the recorded fields of each message.
func shape(t *testing.T, version int) map[string]string {
	t.Helper()
	data, err := os.ReadFile(shapeFile(version))
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, list, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		fields[name] = list
	}
	return fields
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
