package engine

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/millipede-iac/millipede/internal/unpacking"
)

type entry struct {
	kind       byte
	name, text string
}

func archived(t *testing.T, entries []entry) io.Reader {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, e := range entries {
		h := &tar.Header{Typeflag: e.kind, Name: e.name, Mode: 0o644}
		if e.kind == tar.TypeReg {
			h.Size = int64(len(e.text))
		} else {
			h.Linkname = e.text
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if e.kind == tar.TypeReg {
			if _, err := io.WriteString(w, e.text); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return &b
}

var bounds = unpacking.Bounds{Bytes: 1000, Entries: 10}

func TestAConfigurationIsUnpacked(t *testing.T) {
	dir := t.TempDir()
	err := unpack(archived(t, []entry{
		{tar.TypeDir, "modules/", ""}, {tar.TypeReg, "modules/a.tf", "a"}, {tar.TypeReg, "./main.tf", "m"},
		{tar.TypeSymlink, "link", "modules"},
		{tar.TypeSymlink, "dead", "nosuch"},
	}), dir, bounds)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"main.tf": "m", "link/a.tf": "a"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "dead")); err == nil {
		t.Error("a dangling link was unpacked")
	}
}

func TestNothingLeadsOut(t *testing.T) {
	many := make([]entry, 11)
	for i := range many {
		many[i] = entry{tar.TypeReg, string(rune('a' + i)), ""}
	}
	for what, entries := range map[string][]entry{
		"a parent":             {{tar.TypeReg, "../evil", "x"}},
		"a parent within":      {{tar.TypeReg, "a/../../evil", "x"}},
		"an absolute name":     {{tar.TypeReg, "/tmp/evil", "x"}},
		"an absolute link":     {{tar.TypeSymlink, "l", "/etc"}},
		"a link to the parent": {{tar.TypeSymlink, "l", "../"}},
		"a file through a link": {
			{tar.TypeSymlink, "l", ".."}, {tar.TypeReg, "l/evil", "x"},
		},
		"links upon links": {
			{tar.TypeDir, "a/b", ""}, {tar.TypeSymlink, "a/s", "."}, {tar.TypeSymlink, "e", "a/s/../.."},
		},
		"a device":    {{tar.TypeChar, "dev", ""}},
		"a hard link": {{tar.TypeLink, "h", "/etc/passwd"}},
		"too much":    {{tar.TypeReg, "big", string(make([]byte, 2000))}},
		"too many":    many,
	} {
		dir := filepath.Join(t.TempDir(), "inner")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unpack(archived(t, entries), dir, bounds); err == nil {
			t.Errorf("%s was unpacked", what)
		}
		if _, err := os.Lstat(filepath.Join(dir, "..", "evil")); err == nil {
			t.Errorf("%s: a file was written outside of the directory", what)
		}
	}
}
