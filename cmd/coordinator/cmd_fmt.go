package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
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

func runFmt(ctx context.Context, a *app, args []string) int {
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
		diags, paths = diags.Append(w.stdin(ctx)), nil
	}
	w.write = w.write && !w.check
	for _, path := range paths {
		diags = diags.Append(w.path(ctx, path))
	}
	if diags.HasErrors() {
		if !w.check {
			s.write(a.stdout, w.out.Bytes()) // what became of the other files
		}
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

func (w *formatting) stdin(ctx context.Context) diag.List {
	src, err := bounds.ReadAll(w.app.stdin, "standard input", bounds.Text)
	if err != nil {
		return diag.Errors("Failed to read standard input", err.Error()+".", nil)
	}
	w.list, w.write = false, false
	return w.file(ctx, "<stdin>", src, true)
}

// path formats what an argument names.
func (w *formatting) path(ctx context.Context, path string) diag.List {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return diag.Errors("Invalid file or directory path", fmt.Sprintf("No file or directory at %s.", path), nil)
	case err != nil:
		return diag.Errors("Invalid file or directory path", err.Error()+".", nil)
	case info.IsDir():
		return w.dir(ctx, path)
	case !slices.ContainsFunc(formatted, func(ext string) bool { return strings.HasSuffix(path, ext) }):
		return diag.Errors("Invalid file extension", fmt.Sprintf("The file %s cannot be formatted: its name has to "+
			"end in one of %s.", path, strings.Join(formatted, ", ")), nil)
	}
	return w.named(ctx, path)
}

// dir formats the files in a directory that the engine would load, and with -recursive those below it.
func (w *formatting) dir(ctx context.Context, dir string) diag.List {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return diag.Errors("Failed to read directory", err.Error()+".", nil)
	}
	var diags diag.List
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || strings.HasPrefix(name, "#") &&
			strings.HasSuffix(name, "#") {
			continue
		}
		path := filepath.Join(dir, name)
		switch {
		case e.IsDir() && w.recursive:
			diags = diags.Append(w.dir(ctx, path))
		case e.IsDir():
		case slices.ContainsFunc(formatted, func(ext string) bool { return strings.HasSuffix(name, ext) }):
			diags = diags.Append(w.named(ctx, path))
		}
	}
	return diags
}

func (w *formatting) named(ctx context.Context, path string) diag.List {
	src, err := bounds.ReadFile(path, bounds.Text)
	if err != nil {
		return diag.Errors("Failed to read file", err.Error()+".", nil)
	}
	return w.file(ctx, path, src, false)
}

// file formats one source and says, writes or checks what came of it. What was formatted is shown when there is
// nothing else to do with it.
func (w *formatting) file(ctx context.Context, path string, src []byte, stdin bool) diag.List {
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
			w.out.Write(unified(ctx, path, src, result))
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

// unified returns a difference as `diff -u` writes it: where that program is installed its own answer, since which of
// several equal lines it pairs is its choice, and scripts may compare the text.
func unified(ctx context.Context, path string, old, now []byte) []byte {
	if text, err := installedDiff(ctx, path, old, now); err == nil {
		return text
	}
	text := diff.Diff("old/"+path, old, "new/"+path, now)
	_, text, _ = bytes.Cut(text, []byte("\n")) // the command line
	return text
}

// installedDiff has the program diff compare. Its exit status is 1 where there are differences.
func installedDiff(ctx context.Context, path string, old, now []byte) (text []byte, err error) {
	program, err := exec.LookPath("diff")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "fmt-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	before, after := filepath.Join(dir, "old"), filepath.Join(dir, "new")
	if err := errors.Join(os.WriteFile(before, old, 0o600), os.WriteFile(after, now, 0o600)); err != nil {
		return nil, err
	}
	text, err = exec.CommandContext(ctx, program, "--label=old/"+path, "--label=new/"+path, "-u", before,
		after).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 && len(text) > 0 {
		return text, nil
	}
	return text, err
}
