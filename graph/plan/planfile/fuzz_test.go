package planfile

import (
	"testing"
	"time"
)

// FuzzDecode reads whole files: the bytes between the entries, and the entries themselves as long as their checksums
// are right.
func FuzzDecode(f *testing.F) {
	f.Add(mustEncode(f, everything(f)))
	f.Add([]byte("PK"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Decode(data)
		if err != nil {
			return
		}
		if _, err := Encode(s); err != nil {
			t.Errorf("what was read cannot be written: %v", err)
		}
	})
}

// FuzzDecodePlan reads changed entries whose checksums were adapted.
func FuzzDecodePlan(f *testing.F) {
	plan, err := encodePlan(everything(f).Plan, time.Time{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(plan)
	f.Fuzz(func(t *testing.T, data []byte) {
		p, _, err := decodePlan(data)
		if err != nil {
			return
		}
		again, err := encodePlan(p, time.Time{})
		if err != nil {
			return // a value of a type that has no such value
		}
		if _, _, err := decodePlan(again); err != nil {
			t.Errorf("what was written cannot be read: %v", err)
		}
	})
}
