package bolt

import (
	"encoding/binary"
	"testing"

	"github.com/millipede-iac/millipede/state"
)

// A record was refused if it had a part that this version does not know, although the part was optional: no version
// could have added one.
func TestWhatALaterVersionAddsToARecordIsSkipped(t *testing.T) {
	n := &names{}
	o := &state.Object{Status: state.Ready, SchemaVersion: 3, Attrs: []byte(`{"a":1}`), SkipDestroy: true}
	data, err := n.encodeObject(nil, o)
	if err != nil {
		t.Fatal(err)
	}
	parts, width := binary.Uvarint(data[1:])
	later := binary.AppendUvarint(data[:1:1], parts|laterParts|laterParts<<3)
	later = append(later, data[1+width:]...)
	later = appendBytes(appendBytes(later, "of the next version"), "")
	rec := record{module: "module.a", objects: []encodedObject{{"", later}, {"00000001", data}}}
	got, err := decodeRecord(append(rec.encode(), "more"...))
	if err != nil || len(got.objects) != 2 || got.module != rec.module {
		t.Fatalf("a record with more at its end is read as %+v, %v", got, err)
	}
	for _, e := range got.objects {
		back, err := (&reader{}).decodeObject(e.data)
		if err != nil || string(back.Attrs) != string(o.Attrs) || back.SchemaVersion != 3 || !back.SkipDestroy {
			t.Errorf("%q is read as %+v, %v", e.deposed, back, err)
		}
	}
	if _, err := (&reader{}).decodeObject(later[:len(later)-2]); err == nil {
		t.Error("a part that is cut off is accepted")
	}
}

func FuzzDecodeRecord(f *testing.F) {
	seed := record{module: "module.a", objects: []encodedObject{{"", []byte("RR\x00\x00")},
		{"00000001", []byte{'T', 1, 0, 2, '{', '}'}}}}
	f.Add(seed.encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := decodeRecord(data)
		if err != nil {
			return
		}
		again, err := decodeRecord(rec.encode())
		if err != nil || len(again.objects) != len(rec.objects) || again.key != rec.key || again.module != rec.module {
			t.Errorf("%+v becomes %+v, %v", rec, again, err)
		}
		r := &reader{}
		for _, o := range rec.objects {
			if len(o.data) > 1 && o.data[1]&hasDependencies == 0 {
				_, _ = r.decodeObject(o.data) // must not panic
			}
		}
	})
}
