package oss

import (
	"maps"
	"testing"
)

func FuzzARowThatIsBrokenIsAnErrorAndOneThatIsWholeComesBack(f *testing.F) {
	f.Add("key", "name", "value", []byte{0x75, 0, 0, 0, 1, 3, 4, 255, 255, 255, 255})
	f.Add("", "", "", plainRow("k", nil, true))
	f.Fuzz(func(t *testing.T, key, name, value string, broken []byte) {
		_, _, _ = readPlainRow(broken) // no panic, and no more memory than it has
		row := plainRow(key, map[string]string{name: value}, false)
		k, columns, err := readPlainRow(row)
		if err != nil || k != key || !maps.Equal(columns, map[string]string{name: value}) {
			t.Errorf("read %q %q: %v", k, columns, err)
		}
		for i := range row {
			if _, _, err := readPlainRow(row[:i]); err == nil && i > 0 {
				t.Errorf("a row without its last %d bytes is read", len(row)-i)
			}
		}
	})
}
