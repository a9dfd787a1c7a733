package packages

import (
	"os"
	"path/filepath"
	"testing"
)

func FuzzUnpack(f *testing.F) {
	f.Add(archive(f, file{"terraform-provider-test", "program", 0o755}, file{"doc/LICENSE", "text", 0o644}))
	f.Add(archive(f, file{"../outside", "x", 0o644}))
	f.Add([]byte("PK\x05\x06"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return // unpacking a larger archive takes too long
		}
		root := t.TempDir()
		err := unpack(data, filepath.Join(root, "in"))
		entries, readErr := os.ReadDir(root)
		if readErr != nil {
			t.Fatal(readErr)
		}
		for _, e := range entries {
			if e.Name() != "in" {
				t.Errorf("%s was written outside of the package's directory (%v)", e.Name(), err)
			}
		}
	})
}
