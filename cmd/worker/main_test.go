package main

import (
	"path/filepath"
	"testing"
)

// A worker that was started with -cache=FOLDER, a relative path, refused each task: "the file … of the plugin is not
// named absolutely".
func TestARelativeCacheDirectoryIsMadeAbsolute(t *testing.T) {
	at := t.TempDir()
	t.Chdir(at)
	got, err := directory("cache")
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(at, "cache")
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	t.Setenv("XDG_CACHE_HOME", at)
	t.Setenv("HOME", at)
	if got, err = directory(""); err != nil || !filepath.IsAbs(got) {
		t.Errorf("the default is %q, %v", got, err)
	}
}
