package unpacking

import (
	"strings"
	"testing"
)

func TestAnArchiveUnpacksToNoMoreThanItsBounds(t *testing.T) {
	b := Bounds{Bytes: 10, Entries: 2}.Budget()
	var out strings.Builder
	for range 2 {
		if err := b.Entry(); err != nil {
			t.Fatal(err)
		}
		if err := b.Copy(&out, strings.NewReader("12345")); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Entry(); err == nil {
		t.Error("a third entry was let through")
	}
	if err := b.Copy(&out, strings.NewReader(strings.Repeat("x", 1000))); err == nil || out.Len() > 11 {
		t.Errorf("%d bytes were written: %v", out.Len(), err)
	}
}
