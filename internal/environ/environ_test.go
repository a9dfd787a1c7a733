package environ_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/millipede-iac/millipede/internal/environ"
)

func TestOfSeveralEntriesTheLastOneCounts(t *testing.T) {
	env := environ.Variables{"A=1", "B=x", "A=2", "C="}
	if env.Get("A") != "2" || env.Get("none") != "" || env.Expand("$A-${B}-$none") != "2-x-" {
		t.Errorf("got %q, %q, %q", env.Get("A"), env.Get("none"), env.Expand("$A-${B}-$none"))
	}
	if value, set := env.Lookup("C"); value != "" || !set {
		t.Errorf("an empty variable is %q, %t", value, set)
	}
	more := env.With("A=3")
	if env.Get("A") != "2" || more.Get("A") != "3" {
		t.Errorf("got %q before, %q with one more", env.Get("A"), more.Get("A"))
	}
}

func TestADigestDependsOnWhatCountsAlone(t *testing.T) {
	one := environ.Variables{"A=1", "B=2", "A=3", "nonsense"}
	for claim, same := range map[string]environ.Variables{"another order": {"A=3", "B=2"},
		"an old value": {"B=1", "B=2", "A=3"}} {
		if one.Digest() != same.Digest() {
			t.Errorf("%s changes the digest", claim)
		}
	}
	for claim, other := range map[string]environ.Variables{
		"another value": {"A=1", "B=2"}, "a variable less": {"A=3"}, "a boundary": {"A=3B=2"}, "nothing": nil,
	} {
		if one.Digest() == other.Digest() {
			t.Errorf("%s does not change the digest", claim)
		}
	}
}

func TestTheHomeDirectoryIsTheEnvironments(t *testing.T) {
	env := environ.Variables{"HOME=/home/me", "USERPROFILE=/home/me"}
	for path, want := range map[string]string{"~": "/home/me", "~/x": "/home/me/x", "~you/x": "~you/x",
		"a~": "a~", "": ""} {
		if got := env.ExpandHome(path); got != want {
			t.Errorf("%q becomes %q", path, got)
		}
	}
	if _, err := environ.Variables(nil).Home(); err == nil {
		t.Error("an empty environment names a home directory")
	}
}

// Package os/exec looks for programs in the directories of the process's own PATH, whatever environment the program
// gets.
func TestAProgramIsLookedForInThePathOfTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "bin", "tool")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{file: 0o755, file + "-data": 0o644} {
		if err := os.WriteFile(name, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	env := environ.Variables{"PATH=" + dir + string(filepath.ListSeparator) + filepath.Dir(file)}
	for name, want := range map[string]string{"tool": file, "bin/tool": file, file: file, "tool-data": "", "sh": "",
		"./tool": ""} {
		got, err := env.Program(dir, name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s is found at %q, %v", name, got, err)
		}
	}
	t.Chdir(filepath.Dir(file))
	if got, err := (environ.Variables{"PATH=."}).Program("", "tool"); err == nil {
		t.Errorf("a relative entry of PATH leads to %s", got)
	}
}
