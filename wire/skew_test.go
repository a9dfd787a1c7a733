package wire_test

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
)

// decoders decode each message, by the name of its type.
var decoders = map[string]func([]byte) (any, error){
	"Task":          func(data []byte) (any, error) { return dereferenced(wire.DecodeTask(data)) },
	"Result":        func(data []byte) (any, error) { return dereferenced(wire.DecodeResult(data)) },
	"Claim":         func(data []byte) (any, error) { return wire.DecodeClaim(data) },
	"PermitRequest": func(data []byte) (any, error) { return wire.DecodePermitRequest(data) },
	"PermitOffer":   func(data []byte) (any, error) { return wire.DecodePermitOffer(data) },
	"Heartbeat":     func(data []byte) (any, error) { return wire.DecodeHeartbeat(data) },
	"Control":       func(data []byte) (any, error) { return wire.DecodeControl(data) },
	"Event":         func(data []byte) (any, error) { return wire.DecodeEvent(data) },
	// These two are read within others, by the same codec.
	"Variables": func(data []byte) (any, error) { return decoded[wire.Variables](data) },
	"SealedKey": func(data []byte) (any, error) { return decoded[wire.SealedKey](data) },
}

func dereferenced[T any](v *T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return *v, nil
}

func decoded[T any](data []byte) (any, error) {
	var v T
	err := coding.Unmarshal(data, 16, &v)
	return v, err
}

// full returns a message with everything in it that one message can have.
func full(message any) any {
	switch message.(type) {
	case wire.Task:
		task := *tasks()["Plan"]
		task.Protocol = wire.ProtocolVersion
		return task
	case wire.Result:
		r := filled(reflect.TypeFor[wire.Result](), 1).Interface().(wire.Result)
		r.Protocol = wire.ProtocolVersion
		return r
	}
	return filled(reflect.TypeOf(message), 1).Interface()
}

// lengthened returns an encoded struct with another field at its end, and at the end of each struct in it: a program
// of the next version sends that.
func lengthened(v reflect.Value) any {
	return reshaped(v, func(f []any) []any { return append(f, "new") })
}

// shortened returns an encoded struct without its last field.
func shortened(v reflect.Value) any {
	fields := reshaped(v, func(f []any) []any { return f }).([]any)
	return fields[:len(fields)-1]
}

// reshaped returns a value as lists, those of structs as change returns them.
func reshaped(v reflect.Value, change func([]any) []any) any {
	switch {
	case v.Kind() == reflect.Pointer && v.IsNil():
		return nil
	case v.Kind() == reflect.Pointer:
		return reshaped(v.Elem(), change)
	case v.Kind() == reflect.Struct && v.Type().PkgPath() == reflect.TypeFor[wire.Task]().PkgPath():
		var fields []any
		for i := range v.NumField() {
			fields = append(fields, reshaped(v.Field(i), change))
		}
		return change(fields)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		list := []any{}
		for i := range v.Len() {
			list = append(list, reshaped(v.Index(i), change))
		}
		return list
	}
	return v.Interface()
}

// Every message was refused that had another number of fields than this program knows: so programs of neighbouring
// versions could not work together at all.
func TestEveryMessageMayHaveAnotherNumberOfFields(t *testing.T) {
	for _, message := range messages {
		ty := reflect.TypeOf(message)
		t.Run(ty.Name(), func(t *testing.T) {
			want := full(message)
			v := reflect.ValueOf(want)
			got, err := decoders[ty.Name()](positional(t, lengthened(v)))
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("with another field at each end it is read as\n%+v, %v\ninstead of\n%+v", got, err, want)
			}
			less := reflect.New(ty).Elem()
			less.Set(v)
			less.Field(ty.NumField() - 1).SetZero()
			got, err = decoders[ty.Name()](positional(t, shortened(v)))
			if err != nil || !reflect.DeepEqual(got, less.Interface()) {
				t.Errorf("without its last field it is read as\n%+v, %v\ninstead of\n%+v", got, err, less)
			}
		})
	}
}

// The reader of schemas counted the elements of each array.
func TestSchemasMayHaveAnotherNumberOfFields(t *testing.T) {
	want := everything()
	var whole any
	if err := msgpack.NewDecoder(bytes.NewReader(wire.EncodeSchemas(want))).Decode(&whole); err != nil {
		t.Fatal(err)
	}
	got, err := wire.DecodeSchemas(positional(t, longer(whole, true)))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("with another field at each end they are read as\n%+v, %v\ninstead of\n%+v", got, err, want)
	}
	without := *want
	without.Actions = nil
	fields := whole.([]any)
	got, err = wire.DecodeSchemas(positional(t, fields[:len(fields)-1]))
	if err != nil || !reflect.DeepEqual(got, &without) {
		t.Errorf("without actions they are read as\n%+v, %v\ninstead of\n%+v", got, err, without)
	}
	var none provider.Schemas
	if got, err := wire.DecodeSchemas(positional(t, []any{1})); err != nil || !reflect.DeepEqual(*got, none) {
		t.Errorf("a format alone is read as %+v, %v", got, err)
	}
}

// longer appends to each list of a decoded value, apart from lists of lists, which are no structs.
func longer(v any, structure bool) any {
	switch v := v.(type) {
	case []any:
		list := make([]any, 0, len(v)+1)
		for _, e := range v {
			_, nested := e.([]any)
			list = append(list, longer(e, !nested || !allLists(e.([]any))))
		}
		if structure {
			list = append(list, map[string]any{"new": true})
		}
		return list
	case map[string]any:
		m := map[string]any{}
		for name, e := range v {
			m[name] = longer(e, true)
		}
		return m
	}
	return v
}

// allLists reports whether a value is a list of structs.
func allLists(v []any) bool {
	for _, e := range v {
		if _, is := e.([]any); !is {
			return false
		}
	}
	return true
}

// A message of a neighbouring version with other fields is decoded twice, and by reflection.
func BenchmarkDecodingATaskOfAnotherVersion(b *testing.B) {
	task := full(wire.Task{}).(wire.Task)
	for name, data := range map[string][]byte{
		"same fields":  wire.EncodeTask(&task),
		"other fields": coding.Marshal(lengthened(reflect.ValueOf(task))),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := wire.DecodeTask(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
