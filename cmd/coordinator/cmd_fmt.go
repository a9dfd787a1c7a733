package main

import (
	"context"

	"github.com/hashicorp/hcl/v2"

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
	w := format.Files{Open: a.Path, Sources: map[string]*hcl.File{},
		Difference: format.UnifiedDiff(a.Environ)}
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
