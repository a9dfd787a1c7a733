package bolt

import "testing"

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
