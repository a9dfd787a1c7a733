package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/suite"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

const validateUsage = `
Usage: coordinator [global options] validate [options] [DIR]

  Checks the configuration in this directory, or in DIR: its syntax, its references, and its arguments against the
  schemas of the providers. It reads neither the state nor real objects.

Options:
  -query                Check the query files (*.tfquery.hcl, *.tofuquery.hcl), too.
  -no-tests             Do not check the test files.
  -test-directory=DIR   The directory of test files besides the working directory. The default is tests.
  -var 'NAME=VALUE', -var-file=FILE
                        Variables that module sources depend on.
` + documentHelp

func runValidate(ctx context.Context, a *app, args []string) int {
	var vars variableFlags
	var sf viewFlags
	f := a.NewFlags()
	vars.registerValues(f)
	sf.RegisterJSON(f)
	query := f.Bool("query", false, "")
	noTests := f.Bool("no-tests", false, "")
	testDir := f.String(testDirFlag, config.DefaultTestDir, "")
	if code, done := a.Parse(f, validateUsage, args); done {
		return code
	}
	s, diags := a.newScreen(sf, nil)
	if diags.HasErrors() {
		return s.End(diags)
	}
	wd, diags := a.Estate.Configuration(vars.Variables)
	s.From(wd.Sources)
	wd.Queries = *query
	if !*noTests {
		wd.TestDir = *testDir
	}
	switch f.NArg() {
	case 0:
	case 1:
		wd.Dir = filepath.Clean(f.Arg(0))
	default:
		diags = diags.Append(diag.New(diag.Error, "Too many command line arguments",
			fmt.Sprintf("The validate command takes one directory, and got %d arguments.", f.NArg()), nil))
	}
	if *query && !wd.HasQueries() {
		diags = diags.Append(diag.New(diag.Warning, "No query files", "The option -query has no effect: the directory has "+
			"no file with a name that ends in .tfquery.hcl, .tofuquery.hcl, .tfquery.json or .tofuquery.json.", nil))
	}
	if !diags.HasErrors() {
		diags = diags.Append(wd.Load())
	}
	if !diags.HasErrors() {
		diags = diags.Append(a.validate(ctx, wd))
	}
	failed := diags.HasErrors()
	diags = s.verdict(diags, document.ValidateJSON(diags, wd.Sources()))
	if code := s.End(diags); code != 0 || failed {
		return 1
	}
	return 0
}

// verdict shows the result of a validation: as a JSON document if requested, and to people as the remaining
// diagnostics with a summary.
func (s *screen) verdict(diags diag.List, document []byte) diag.List {
	problems := s.WriteDocument(document, nil)
	if !s.ForPeople() {
		return problems
	}
	s.Diagnostics(diags)
	if !diags.HasErrors() {
		s.Print(view.ValidText(len(diags) > 0, s.Options()) + "\n")
	}
	return problems
}

// validate checks a loaded configuration.
func (a *app) validate(ctx context.Context, wd *estate.Configuration) diag.List {
	// As in OpenTofu, a configuration is validated with the schemas of the installed providers: other commands
	// check whether their versions match the constraints.
	e, diags := a.Estate.OpenEngine(ctx, estate.EngineOptions{Tree: wd.Tree, Loader: wd.Loader,
		Observer: coordinator.Silent{}, AnyVersion: true})
	if diags.HasErrors() {
		return diags
	}
	_, more := operation.Do(ctx, e.Session, "validate",
		func(ctx context.Context, s *operation.Session) (struct{}, diag.List) {
			return struct{}{}, s.Validate(ctx).Append(suite.Validate(ctx, s, wd.Tree))
		})
	diags = diags.Append(more)
	return diags.Append(e.Close())
}
