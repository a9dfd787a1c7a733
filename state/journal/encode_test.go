package journal

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// tags is an event that msgpack encodes by its tags.
type tags Event

func TestEventsAreEncodedAsTheirTagsSay(t *testing.T) {
	full := Event{At: time.Unix(1, 2).UTC(), Permits: []string{"p"}, Waits: []Wait{{WaitPlace, "pool", time.Second}}}
	for v, i := reflect.ValueOf(&full).Elem(), 0; i < v.NumField(); i++ {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("text of " + v.Type().Field(i).Name)
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(1000 + i))
		case reflect.Uint8, reflect.Uint64:
			f.SetUint(uint64(100 + i))
		}
		if v.Field(i).IsZero() {
			t.Fatalf("the test does not fill the field %s", v.Type().Field(i).Name)
		}
	}
	for name, e := range map[string]Event{"full": full, "empty": {}} {
		t.Run(name, func(t *testing.T) {
			var want, got map[string]any
			for v, into := range map[any]*map[string]any{(*tags)(&e): &want, &e: &got} {
				var data bytes.Buffer
				if err := msgpack.NewEncoder(&data).Encode(v); err != nil {
					t.Fatal(err)
				}
				d := msgpack.NewDecoder(&data)
				d.UseLooseInterfaceDecoding(true)
				if err := d.Decode(into); err != nil {
					t.Fatal(err)
				}
			}
			if !reflect.DeepEqual(numbers(got), numbers(want)) {
				t.Errorf("%v is encoded; the tags say %v", got, want)
			}
		})
	}
}

// numbers converts all numbers to int64: the two encodings differ in the width of numbers.
func numbers(m map[string]any) map[string]any {
	for k, v := range m {
		if u, ok := v.(uint64); ok {
			m[k] = int64(u) //nolint:gosec // small
		}
	}
	return m
}
