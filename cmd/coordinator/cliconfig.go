package main

import (
	"fmt"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/cliconfig"
	"github.com/millipede-iac/millipede/provider/services"
)

// loadCLIConfig reads the CLI configuration, once. What is wrong with it concerns the machine and not the command: it is
// told on standard error, whatever form the command's output has, and the command goes on with what can be read.
func (a *app) loadCLIConfig() *cliconfig.Config {
	if a.cli != nil {
		return a.cli
	}
	cli, diags := cliconfig.Load(a.getenv, a.environ)
	a.cli = cli
	a.services = services.New(services.Options{Config: cli, Version: engineVersion})
	for _, d := range diags {
		word := "Warning"
		if d.Severity == diag.Error {
			word = "Error"
		}
		fmt.Fprintf(a.stderr, "\n%s: %s\n\n%s\n", word, d.Summary, d.Detail)
	}
	if diags.HasErrors() {
		fmt.Fprint(a.stderr, "\nThe command goes on without what could not be read of the CLI configuration, and may not do what you expect.\n\n")
	}
	return cli
}
