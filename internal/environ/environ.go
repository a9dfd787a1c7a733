// Package environ holds the directory and the environment variables of an operation, as values.
//
// Several operations run in one process, each in a directory and an environment of its own. So only the commands read
// those of the process (os.Environ, os.Getwd); everything below them receives the values as arguments. This package
// reads nothing from the process.
package environ

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Variables are environment variables in the form of os.Environ: "NAME=value". Of several entries with one name the
// last one counts. Nil is an environment without variables. Variables are not changed once they are in use.
type Variables []string

// Of returns the variables that are set to something.
func Of(values map[string]string) Variables {
	out := make(Variables, 0, len(values))
	for name, value := range values {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out
}

// Lookup returns the value of a variable, and whether it is set.
func (v Variables) Lookup(name string) (string, bool) {
	for i := len(v) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(v[i], name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// Get returns the value of a variable; empty when it is not set.
func (v Variables) Get(name string) string {
	value, _ := v.Lookup(name)
	return value
}

// Expand replaces $NAME and ${NAME} by the values of the variables.
func (v Variables) Expand(text string) string { return os.Expand(text, v.Get) }

// errNoHome tells that no variable names the home directory.
var errNoHome = errors.New("the environment does not name it: $HOME is not set")

// Home returns the home directory of the user whose operation it is.
func (v Variables) Home() (string, error) {
	name := "HOME"
	if runtime.GOOS == "windows" {
		name = "USERPROFILE"
	}
	if dir := v.Get(name); dir != "" {
		return dir, nil
	}
	return "", errNoHome
}

// ExpandHome replaces a ~ at the start of a path, alone or before a separator, by the home directory, if there is one.
func (v Variables) ExpandHome(path string) string {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || rest != "" && rest[0] != '/' && !os.IsPathSeparator(rest[0]) {
		return path
	}
	home, err := v.Home()
	if err != nil {
		return path
	}
	return home + rest
}

// Program returns the file of a program that a name stands for, as a shell finds it: a name with a separator is a path,
// which starts from dir when it is relative; any other is looked for in the directories of PATH. Entries of PATH that
// are relative are left out, as package os/exec does.
func (v Variables) Program(dir, name string) (string, error) {
	if filepath.Base(name) != name {
		return exec.LookPath(Path(dir, name))
	}
	for _, entry := range filepath.SplitList(v.Get("PATH")) {
		if !filepath.IsAbs(entry) {
			continue
		}
		if file, err := exec.LookPath(filepath.Join(entry, name)); err == nil {
			return file, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// TempDir returns the directory for temporary files, by the variables that os.TempDir asks the process for.
func (v Variables) TempDir() string {
	names, otherwise := []string{"TMPDIR"}, "/tmp"
	if runtime.GOOS == "windows" {
		names, otherwise = []string{"TMP", "TEMP", "USERPROFILE"}, `C:\Windows`
	}
	for _, name := range names {
		if dir := v.Get(name); dir != "" {
			return dir
		}
	}
	return otherwise
}

// With returns the variables with more of them; those count where both name one.
func (v Variables) With(more ...string) Variables {
	return append(slices.Clip(slices.Clone(v)), more...)
}

// List returns the variables as package os/exec takes them. It is never nil, which would stand for those of the
// process.
func (v Variables) List() []string {
	if v == nil {
		return []string{}
	}
	return v
}

// Digest identifies the environment: two have the same digest when each variable has the same value in both.
func (v Variables) Digest() string {
	h := sha256.New()
	for _, entry := range v.Settled() {
		h.Write([]byte(entry + "\x00")) // no variable can hold a zero byte
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Settled returns the variables sorted, each once, with the value that counts.
func (v Variables) Settled() Variables {
	seen := make(map[string]bool, len(v))
	out := make(Variables, 0, len(v))
	for i := len(v) - 1; i >= 0; i-- {
		name, _, ok := strings.Cut(v[i], "=")
		if !ok || seen[name] {
			continue
		}
		seen[name] = true
		out = append(out, v[i])
	}
	slices.Sort(out)
	return out
}

// Named returns an error about one file with the name that people know, in the place of the path that it was opened by.
func Named(err error, name string) error {
	var at *fs.PathError
	if !errors.As(err, &at) {
		return err
	}
	return &fs.PathError{Op: at.Op, Path: name, Err: at.Err}
}

// Path resolves the name of a file against a directory: an absolute name stays as it is. An empty directory leaves the
// name to the process's working directory.
func Path(dir, name string) string {
	if dir == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}
