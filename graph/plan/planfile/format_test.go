package planfile

import (
	"errors"
	"os"
	"testing"
)

func TestTheFormatOfAPlanIsKnownWithoutDecodingIt(t *testing.T) {
	for name, want := range map[string]struct {
		format  int
		applied bool
	}{"testdata/format1.plan": {1, false}, "testdata/format2.plan": {2, true}} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		format, engine, err := Format(data)
		if err != nil || format != want.format || Applies(format) != want.applied || (engine != "") != want.applied {
			t.Errorf("%s has format %d of %q, %v", name, format, engine, err)
		}
	}
	if _, _, err := Format([]byte("{}")); !errors.Is(err, ErrNoPlan) {
		t.Errorf("another file: %v", err)
	}
}
