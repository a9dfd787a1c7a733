package wire

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/internal/coding"
)

// coded are the parts of messages that have a row function, apart from those that are no pointers.
var coded = map[reflect.Type]bool{
	reflect.TypeFor[*PlanTask](): true, reflect.TypeFor[*ReadDataTask](): true, reflect.TypeFor[*ApplyTask](): true,
	reflect.TypeFor[*StoredObject](): true, reflect.TypeFor[*Environment](): true,
	reflect.TypeFor[*PlanResult](): true, reflect.TypeFor[*ApplyResult](): true,
}

// usual returns a value of the type that has everything that row functions code, or, if it is empty, only structs.
// Fields that they leave to reflection are nil.
func usual(t reflect.Type, empty bool) reflect.Value {
	v := reflect.New(t).Elem()
	switch {
	case t == reflect.TypeFor[time.Time]():
		if !empty {
			v.Set(reflect.ValueOf(time.Unix(1_800_000_000, 7)))
		}
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			v.Field(i).Set(usual(t.Field(i).Type, empty))
		}
		if p := v.FieldByName("Protocol"); p.IsValid() {
			p.SetInt(ProtocolVersion)
		}
	case coded[t]:
		v.Set(reflect.New(t.Elem()))
		v.Elem().Set(usual(t.Elem(), empty))
	case empty:
	case t.Kind() == reflect.Slice && t.Elem() != reflect.TypeFor[Diagnostic]():
		v.Set(reflect.MakeSlice(t, 2, 2))
		v.Index(0).Set(usual(t.Elem(), false))
	case t.Kind() == reflect.String:
		v.SetString("text ü")
	case t.Kind() == reflect.Bool:
		v.SetBool(true)
	case t.Kind() == reflect.Uint8:
		v.SetUint(200)
	case t.Kind() == reflect.Int64:
		v.SetInt(-70_000)
	}
	return v
}

// usuals returns messages with and without the parts that row functions code.
func usuals[T any]() []T {
	var nothing T
	ty := reflect.TypeFor[T]()
	return []T{usual(ty, false).Interface().(T), usual(ty, true).Interface().(T), nothing}
}

// A row function that has forgotten a field, or has it in another place, fails here.
func TestRowsHaveTheFormOfReflection(t *testing.T) {
	agree(t, usuals[Task](), (*Task).row)
	agree(t, usuals[Result](), (*Result).row)
}

func agree[T any](t *testing.T, messages []T, row func(*T, *coding.Row)) {
	t.Helper()
	for i := range messages {
		m := &messages[i]
		reflect.ValueOf(m).Elem().FieldByName("Protocol").SetInt(ProtocolVersion)
		want := marshal(m)
		got, ok := coding.MarshalRow(func(r *coding.Row) { row(m, r) })
		if !ok || !bytes.Equal(got, want) {
			t.Fatalf("%T %d is coded (%t)\n%x\nby reflection\n%x", m, i, ok, got, want)
		}
		back := new(T)
		if !coding.UnmarshalRow(want, func(r *coding.Row) { row(back, r) }) || !reflect.DeepEqual(back, m) {
			t.Fatalf("%T %d is read as\n%+v\ninstead of\n%+v", m, i, back, m)
		}
	}
}

// Messages come from workers, which may be hostile: a message that a row accepts must be accepted by reflection within
// its bounds, with the same result.
func TestRowsReadNothingThatReflectionReadsDifferently(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	read := 0
	for _, m := range usuals[Result]() {
		read += corrupt(t, chance, EncodeResult(&m), (*Result).row)
	}
	for _, m := range usuals[Task]() {
		m.Protocol = ProtocolVersion
		read += corrupt(t, chance, marshal(&m), (*Task).row)
	}
	if read == 0 {
		t.Error("no corrupted message was read")
	}
}

func corrupt[T any](t *testing.T, chance *rand.Rand, valid []byte, row func(*T, *coding.Row)) (read int) {
	t.Helper()
	codes := []byte{0x00, 0x7f, 0x80, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xcc, 0xcf, 0xd3,
		0xd6, 0xd7, 0xd9, 0xdb, 0xdc, 0xdd, 0xde, 0xff}
	for range 20_000 {
		data := bytes.Clone(valid)
		for range 1 + chance.IntN(3) {
			data[chance.IntN(len(data))] = codes[chance.IntN(len(codes))]
		}
		if chance.IntN(4) == 0 {
			data = data[:chance.IntN(len(data))]
		}
		if sameAsReflection(t, data, row) {
			read++
		}
	}
	return read
}

// sameAsReflection reports whether a row function reads the data. It must not read anything else than reflection does.
func sameAsReflection[T any](t *testing.T, data []byte, row func(*T, *coding.Row)) bool {
	t.Helper()
	got, want := new(T), new(T)
	if !coding.UnmarshalRow(data, func(r *coding.Row) { row(got, r) }) {
		return false
	}
	if err := coding.Unmarshal(data, messageDepth, want); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%x is read as\n%+v\nby reflection (%v)\n%+v", data, got, err, want)
	}
	return true
}

func FuzzRowsReadNothingThatReflectionReadsDifferently(f *testing.F) {
	for _, m := range usuals[Result]() {
		f.Add(EncodeResult(&m))
	}
	for _, m := range usuals[Task]() {
		f.Add(marshal(&m))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		sameAsReflection(t, data, (*Task).row)
		sameAsReflection(t, data, (*Result).row)
	})
}
