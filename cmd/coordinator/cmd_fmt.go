package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/hashicorp/hcl/v2"
	"github.com/rogpeppe/go-internal/diff"

	"github.com/millipede-iac/millipede/lang/format"
)

const fmtUsage = `
Usage: coordinator [global options] fmt [options] [FILE | DIR | -]...

  Rewrites configuration files (.tf, .tofu), files of variables (.tfvars) and of tests (.tftest.hcl, .tofutest.hcl)
  in canonical form: the named files, and those in the named directories. Without an argument, the files in
  this directory. With "-", formats standard input to standard output. JSON files are not changed.

Options:
  -check                Change nothing, and exit with 3 if a file is not in canonical form.
  -diff                 Show the changes.
  -list=false           Do not list the changed files.
  -write=false          Do not write files.
  -recursive            Descend into directories.
` + textHelp

// Exit codes of fmt other than 0 and 1.
const (
	fmtFailed      = 2
	fmtUnformatted = 3
)

func runFmt(ctx context.Context, a *app, args []string) int {
	var sf viewFlags
	w := format.Files{Open: a.Path, Sources: map[string]*hcl.File{}, Difference: unified}
	f := a.NewFlags()
	sf.RegisterText(f)
	f.BoolVar(&w.Check, "check", false, "")
	f.BoolVar(&w.Diff, "diff", false, "")
	f.BoolVar(&w.List, "list", true, "")
	f.BoolVar(&w.Write, "write", true, "")
	f.BoolVar(&w.Recursive, "recursive", false, "")
	if code, done := a.Parse(f, fmtUsage, args); done {
		return code
	}
	s, diags := a.newScreen(sf, func() map[string]*hcl.File { return w.Sources })
	paths := f.Args()
	switch {
	case len(paths) == 0:
		paths = []string{"."}
	case len(paths) == 1 && paths[0] == "-":
		diags, paths = diags.Append(w.Stdin(ctx, a.Stdin)), nil
	}
	w.Write = w.Write && !w.Check
	for _, path := range paths {
		diags = diags.Append(w.Path(ctx, path))
	}
	if diags.HasErrors() {
		if !w.Check {
			s.Write(a.Stdout, w.Out.Bytes()) // the results of the other files
		}
		s.End(diags)
		return fmtFailed
	}
	s.Write(a.Stdout, w.Out.Bytes())
	if s.End(diags); w.Check && w.Found {
		return fmtUnformatted
	}
	return 0
}

// unified returns a difference in the format of `diff -u`: the output of that program if it is installed,
// because programs differ in which of several equal lines they match, and scripts may compare the text.
func unified(ctx context.Context, path string, old, now []byte) []byte {
	if text, err := installedDiff(ctx, path, old, now); err == nil {
		return text
	}
	text := diff.Diff("old/"+path, old, "new/"+path, now)
	_, text, _ = bytes.Cut(text, []byte("\n")) // the command line
	return text
}

// installedDiff runs the program diff. Its exit status is 1 if there are differences.
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
