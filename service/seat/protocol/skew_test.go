package protocol_test

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service/seat/protocol"
)

// messages are all messages of the protocol.
var messages = []any{protocol.Hello{}, protocol.Welcome{}, protocol.ToEngine{}, protocol.ToService{},
	protocol.Failure{}}

// filled returns a value in which every field is set, some levels deep.
func filled(t reflect.Type, depth int) reflect.Value {
	v := reflect.New(t).Elem()
	switch {
	case t == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(1_800_000_000, 7)))
	case depth > 8:
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		v.Elem().Set(filled(t.Elem(), depth+1))
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				v.Field(i).Set(filled(t.Field(i).Type, depth+1))
			}
		}
	case t.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(t, 1, 1))
		v.Index(0).Set(filled(t.Elem(), depth+1))
	case t.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(filled(t.Key(), depth+1), filled(t.Elem(), depth+1))
	case t.Kind() == reflect.String:
		v.SetString("text")
	case t.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(7)
	case v.CanUint():
		v.SetUint(7)
	case v.CanFloat():
		v.SetFloat(0.5)
	}
	return v
}

// positions returns a value as lists of its fields, with change made to the list of each struct.
func positions(v reflect.Value, change func([]any) []any) any {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		return v.Interface()
	case v.Kind() == reflect.Pointer && v.IsNil():
		return nil
	case v.Kind() == reflect.Pointer:
		return positions(v.Elem(), change)
	case v.Kind() == reflect.Struct:
		var fields []any
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fields = append(fields, positions(v.Field(i), change))
			}
		}
		return change(fields)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		list := []any{}
		for i := range v.Len() {
			list = append(list, positions(v.Index(i), change))
		}
		return list
	}
	return v.Interface()
}

// The package promised that, and refused every message with another number of fields.
func TestEveryMessageMayHaveAnotherNumberOfFields(t *testing.T) {
	for _, message := range messages {
		ty := reflect.TypeOf(message)
		t.Run(ty.Name(), func(t *testing.T) {
			want := filled(ty, 0)
			read := func(sent any) (reflect.Value, error) {
				var frame bytes.Buffer
				if err := protocol.Write(&frame, sent); err != nil {
					t.Fatal(err)
				}
				got := reflect.New(ty)
				err := protocol.Read(&frame, got.Interface(), protocol.MaxMessage)
				return got.Elem(), err
			}
			got, err := read(positions(want, func(f []any) []any { return append(f, "new") }))
			if err != nil || !reflect.DeepEqual(got.Interface(), want.Interface()) {
				t.Errorf("with another field at each end it is read as\n%+v, %v\ninstead of\n%+v", got, err, want)
			}
			all := positions(want, func(f []any) []any { return f }).([]any)
			want.Field(ty.NumField() - 1).SetZero()
			got, err = read(all[:len(all)-1])
			if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) && !reflect.DeepEqual(got.Interface(),
				want.Interface()) {
				t.Errorf("without its last field it is read as\n%+v, %v\ninstead of\n%+v", got, err, want)
			}
		})
	}
}
