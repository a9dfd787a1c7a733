package main

import (
	"context"

	"github.com/millipede-iac/millipede/lang/config"
)

const getUsage = `
Usage: coordinator [global options] get [options]

  Installs the modules that the configuration calls. The command init does so, too.

Options:
  -update               Install all modules again.
  -test-directory=DIR   The directory of test files, whose modules are installed too. The default is tests.
  -input=false          Never ask for anything.
  -var 'NAME=VALUE', -var-file=FILE
                        Variables that module sources depend on. May be given several times.
` + jsonHelp

func runGet(ctx context.Context, a *app, args []string) int {
	var sf viewFlags
	var vars variableFlags
	f := a.NewFlags()
	sf.RegisterJSON(f)
	vars.register(f)
	update := f.Bool("update", false, "")
	testDir := f.String(testDirFlag, config.DefaultTestDir, "")
	if code, done := a.Parse(f, getUsage, args); done {
		return code
	}
	s, diags := a.newStreamScreen(sf, nil)
	if diags = diags.Append(noArguments(f)); diags.HasErrors() {
		return s.End(diags)
	}
	wd, diags := a.Estate.Configuration(vars.Variables)
	wd.TestDir = *testDir
	s.From(wd.Sources)
	if diags.HasErrors() || !wd.HasFiles() {
		return s.End(diags)
	}
	return s.End(diags.Append(wd.Install(ctx, *update, s.fetching())))
}
