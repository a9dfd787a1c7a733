package planfile

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/millipede-iac/millipede/lang/addr"
)

// The coded forms, which msgpack encodes by their tags.
type (
	taggedValue    codedValue
	taggedProvider codedProvider
	taggedChange   codedChange
	taggedVertex   codedVertex
)

func TestCodedFormsAreEncodedAsTheirTagsSay(t *testing.T) {
	value, provider, change, vertex := &codedValue{}, &codedProvider{}, &codedChange{}, &codedVertex{}
	for _, c := range []any{value, provider, vertex, change} {
		fill(t, reflect.ValueOf(c).Elem())
	}
	for name, c := range map[string][2]any{
		"value":          {value, (*taggedValue)(value)},
		"provider":       {provider, (*taggedProvider)(provider)},
		"change":         {change, (*taggedChange)(change)},
		"vertex":         {vertex, (*taggedVertex)(vertex)},
		"empty value":    {&codedValue{}, &taggedValue{}},
		"empty provider": {&codedProvider{}, &taggedProvider{}},
		"empty change":   {&codedChange{}, &taggedChange{}},
		"empty vertex":   {&codedVertex{}, &taggedVertex{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, want := decoded(t, c[0]), decoded(t, c[1]); !reflect.DeepEqual(got, want) {
				t.Errorf("%v is encoded; the tags say %v", got, want)
			}
		})
	}
}

// fill sets all fields of a struct.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Interface().(type) {
		case string:
			f.SetString("text of " + v.Type().Field(i).Name)
		case bool:
			f.SetBool(true)
		case int, int64:
			f.SetInt(int64(100 + i))
		case byte:
			f.SetUint(7)
		case []byte:
			f.SetBytes([]byte{1, 2})
		case [][]byte:
			f.Set(reflect.ValueOf([][]byte{{3}}))
		case *codedValue:
			f.Set(reflect.ValueOf(&codedValue{Type: 1, Data: []byte{4}}))
		case *codedImport:
			f.Set(reflect.ValueOf(&codedImport{ID: "i"}))
		case addr.Provider:
			f.Set(reflect.ValueOf(addr.BuiltinTerraform))
		case codedProvider:
			f.Set(reflect.ValueOf(codedProvider{Source: addr.BuiltinTerraform}))
		default:
			t.Fatalf("the test does not fill the field %s", v.Type().Field(i).Name)
		}
	}
}

// decoded returns the content that a reader finds in the encoding of a coded form.
func decoded(t *testing.T, c any) map[string]any {
	t.Helper()
	var data bytes.Buffer
	if err := msgpack.NewEncoder(&data).Encode(c); err != nil {
		t.Fatal(err)
	}
	d := msgpack.NewDecoder(&data)
	d.UseLooseInterfaceDecoding(true)
	var out map[string]any
	if err := d.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return numbers(out)
}

// numbers converts all numbers to int64: the two encodings differ in the width of numbers.
func numbers(m map[string]any) map[string]any {
	for k, v := range m {
		switch v := v.(type) {
		case uint64:
			m[k] = int64(v) //nolint:gosec // small
		case map[string]any:
			m[k] = numbers(v)
		}
	}
	return m
}
