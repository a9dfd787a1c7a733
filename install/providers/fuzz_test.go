package providers

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func FuzzUnpack(f *testing.F) {
	for _, name := range []string{"terraform-provider-test", "doc/LICENSE", "../outside", "/root", "a/../../b"} {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write([]byte("content"))
		}
		if err != nil || z.Close() != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return // unpacking a larger archive takes too long
		}
		root := t.TempDir()
		archive := filepath.Join(root, "archive.zip")
		if err := os.WriteFile(archive, data, 0o600); err != nil {
			t.Fatal(err)
		}
		err := unpack(archive, filepath.Join(root, "in"))
		want := []string{"archive.zip"}
		if err == nil {
			want = append(want, "in")
		}
		entries, readErr := os.ReadDir(root)
		if readErr != nil {
			t.Fatal(readErr)
		}
		var got []string
		for _, e := range entries {
			got = append(got, e.Name())
		}
		if !slices.Equal(got, want) {
			t.Errorf("unpacking (%v) left %v", err, got)
		}
	})
}
