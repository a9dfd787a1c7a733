package coding_test

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/internal/coding"
)

// mixed has a field of each kind that a Row knows.
type mixed struct {
	Text  string
	Bytes []byte
	Texts []string
	Lists [][]byte
	Yes   bool
	Int   int64
	At    time.Time
	Next  *mixed
	Rare  map[string]string
}

func (m *mixed) row(r *coding.Row) {
	r.Struct(9)
	r.Text(&m.Text)
	r.Bytes(&m.Bytes)
	r.Texts(&m.Texts)
	r.ByteLists(&m.Lists)
	r.Bool(&m.Yes)
	r.Int(&m.Int)
	r.Time(&m.At)
	if coding.Pointer(r, &m.Next) {
		m.Next.row(r)
	}
	r.Rare(m.Rare == nil)
}

func TestARowHasTheFormOfMarshal(t *testing.T) {
	var all []mixed
	for _, n := range []int{0, 1, 15, 16, 31, 32, 255, 256, 65_535, 65_536} {
		all = append(all, mixed{Text: strings.Repeat("x", n), Bytes: make([]byte, n), Texts: make([]string, n),
			Lists: make([][]byte, n)})
	}
	for _, n := range []int64{0, 127, 128, 255, 256, 65_535, 65_536, math.MaxUint32, math.MaxUint32 + 1, math.MaxInt64, -1,
		-32, -33, -128, -129, -32_768, -32_769, math.MinInt32, math.MinInt32 - 1, math.MinInt64} {
		all = append(all, mixed{Int: n, Yes: n > 0, Next: &mixed{Int: -n}})
	}
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.Unix(1, 1), time.Unix(math.MaxUint32, 0),
		time.Unix(math.MaxUint32+1, 0), time.Unix(1<<34-1, 999_999_999), time.Unix(1<<34, 0), time.Unix(-1, 5)} {
		all = append(all, mixed{At: at})
	}
	for i := range all {
		m := &all[i]
		want := coding.Marshal(m)
		got, ok := coding.MarshalRow(m.row)
		if !ok || !bytes.Equal(got, want) {
			t.Fatalf("%d is coded (%t) %.99x, by Marshal %.99x", i, ok, got, want)
		}
		var back, reflected mixed
		if err := coding.Unmarshal(want, 8, &reflected); err != nil {
			t.Fatal(err)
		}
		if !coding.UnmarshalRow(want, back.row) || !reflect.DeepEqual(back, reflected) {
			t.Fatalf("%d is read as %.99v, by Unmarshal as %.99v", i, back, reflected)
		}
		for end := 0; end < len(want); end += 1 + end/50 {
			if new := new(mixed); coding.UnmarshalRow(want[:end], new.row) {
				t.Fatalf("%d is read although %d of its %d bytes are left", i, end, len(want))
			}
		}
		if coding.UnmarshalRow(append(want, 0), new(mixed).row) {
			t.Fatalf("%d is read although a byte follows", i)
		}
	}
}

func TestARowLeavesWhatIsUnusualToReflection(t *testing.T) {
	m := mixed{Rare: map[string]string{"a": "b"}}
	if _, ok := coding.MarshalRow(m.row); ok {
		t.Error("a rare field is coded")
	}
	if coding.UnmarshalRow(coding.Marshal(&m), new(mixed).row) {
		t.Error("a rare field is read")
	}
}

// A list that claims more elements than the message has bytes must not be allocated.
func TestARowDoesNotBelieveTheLengthOfAList(t *testing.T) {
	data := []byte{0x99, 0xa0, 0xc0, 0xdd, 0x7f, 0xff, 0xff, 0xff, 0xc0}
	if n := testing.AllocsPerRun(10, func() {
		var m mixed
		if coding.UnmarshalRow(data, m.row) || len(m.Texts) > 0 {
			t.Error("it is read")
		}
	}); n > 2 {
		t.Errorf("%v allocations", n)
	}
}
