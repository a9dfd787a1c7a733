package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/rogpeppe/go-internal/diff"

	"github.com/millipede-iac/millipede/bounds"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/format"
)

const fmtUsage = `
Usage: coordinator [global options] fmt [options] [FILE | DIR | -]...

  Rewrites configuration files (.tf, .tofu), files of variables (.tfvars) and of tests (.tftest.hcl, .tofutest.hcl)
  in their usual form: those that are named, and those in directories that are named. Without an argument, those in
  this directory. With "-", standard input is written to standard output. JSON is left alone.

Options:
  -check                Change nothing, and exit with 3 when a file is not in its usual form.
  -diff                 Show what changes.
  -list=false           Do not show the names of the files that change.
  -write=false          Do not write files.
  -recursive            Descend into directories.
` + textHelp

// Exit codes of fmt beside 0 and 1.
const (
	fmtFailed      = 2
	fmtUnformatted = 3
)

// formatted are how the names of files end that fmt works on.
var formatted = []string{".tf", ".tofu", ".tfvars", ".tftest.hcl", ".tofutest.hcl"}

func runFmt(_ context.Context, a *app, args []string) int {
	var sf showFlags
	w := formatting{app: a, sources: map[string]*hcl.File{}}
	f := a.newFlags()
	sf.registerText(f)
	f.BoolVar(&w.check, "check", false, "")
	f.BoolVar(&w.diff, "diff", false, "")
	f.BoolVar(&w.list, "list", true, "")
	f.BoolVar(&w.write, "write", true, "")
	f.BoolVar(&w.recursive, "recursive", false, "")
	if code, done := a.parse(f, fmtUsage, args); done {
		return code
	}
	s, diags := a.newScreen(sf, func() map[string]*hcl.File { return w.sources })
	paths := f.Args()
	switch {
	case len(paths) == 0:
		paths = []string{"."}
	case len(paths) == 1 && paths[0] == "-":
		diags, paths = diags.Append(w.stdin()), nil
	}
	w.write = w.write && !w.check
	for _, path := range paths {
		diags = diags.Append(w.path(path))
	}
	if diags.HasErrors() {
		s.end(diags)
		return fmtFailed
	}
	s.write(a.stdout, w.out.Bytes())
	if s.end(diags); w.check && w.found {
		return fmtUnformatted
	}
	return 0
}

// formatting is one run of fmt.
type formatting struct {
	app                                 *app
	check, diff, list, write, recursive bool

	sources map[string]*hcl.File
	out     bytes.Buffer
	found   bool // something was not in its usual form
}

func (w *formatting) stdin() diag.List {
	src, err := bounds.ReadAll(w.app.stdin, "standard input", bounds.Text)
	if err != nil {
		return diag.Errors("Failed to read standard input", err.Error()+".", nil)
	}
	w.list, w.write = false, false
	return w.file("<stdin>", src, true)
}

// path formats what an argument names.
func (w *formatting) path(path string) diag.List {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return diag.Errors("Invalid file or directory path", fmt.Sprintf("No file or directory at %s.", path), nil)
	case err != nil:
		return diag.Errors("Invalid file or directory path", err.Error()+".", nil)
	case info.IsDir():
		return w.dir(path)
	case !slices.ContainsFunc(formatted, func(ext string) bool { return strings.HasSuffix(path, ext) }):
		return diag.Errors("Invalid file extension", fmt.Sprintf("The file %s cannot be formatted: its name has to end in one of %s.", path, strings.Join(formatted, ", ")), nil)
	}
	return w.named(path)
}

// dir formats the files in a directory that the engine would load, and with -recursive those below it.
func (w *formatting) dir(dir string) diag.List {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return diag.Errors("Failed to read directory", err.Error()+".", nil)
	}
	var diags diag.List
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#") {
			continue
		}
		path := filepath.Join(dir, name)
		switch {
		case e.IsDir() && w.recursive:
			diags = diags.Append(w.dir(path))
		case e.IsDir():
		case slices.ContainsFunc(formatted, func(ext string) bool { return strings.HasSuffix(name, ext) }):
			diags = diags.Append(w.named(path))
		}
	}
	return diags
}

func (w *formatting) named(path string) diag.List {
	src, err := bounds.ReadFile(path, bounds.Text)
	if err != nil {
		return diag.Errors("Failed to read file", err.Error()+".", nil)
	}
	return w.file(path, src, false)
}

// file formats one source and says, writes or checks what came of it. What was formatted is shown when there is
// nothing else to do with it.
func (w *formatting) file(path string, src []byte, stdin bool) diag.List {
	w.sources[path] = &hcl.File{Bytes: src}
	result, diags := format.Source(path, src)
	if diags.HasErrors() {
		return diags
	}
	if changed := !bytes.Equal(src, result); changed {
		w.found = true
		if w.list {
			fmt.Fprintln(&w.out, path)
		}
		if w.diff {
			w.out.Write(unified(path, src, result))
		}
		if w.write {
			if err := rewrite(path, result); err != nil {
				return diags.Append(diag.New(diag.Error, "Failed to write file", err.Error()+".", nil))
			}
		}
	}
	if !w.list && !w.write && !w.check && !w.diff || stdin && !w.check && !w.diff {
		w.out.Write(result)
	}
	return diags
}

// rewrite puts new content into a file, which keeps its mode.
func rewrite(path string, content []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, info.Mode().Perm())
}

// unified returns a difference as `diff -u` writes it.
func unified(path string, old, now []byte) []byte {
	text := diff.Diff("old/"+path, old, "new/"+path, now)
	_, text, _ = bytes.Cut(text, []byte("\n")) // the command line
	return text
}
