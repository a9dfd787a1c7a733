package main

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/cliconfig"
	"github.com/millipede-iac/millipede/provider/services"
)

// loadCLIConfig reads the CLI configuration, once. What is to be said of it without being an error concerns the machine
// and not the command, so it goes to standard error, whatever form the command's output has.
func (a *app) loadCLIConfig() (*cliconfig.Config, diag.List) {
	if a.cli != nil {
		return a.cli, nil
	}
	cli, diags := cliconfig.Load(a.getenv, a.environ)
	a.cli = cli
	a.services = services.New(services.Options{Config: cli, Version: engineVersion})
	var problems diag.List
	for _, d := range diags {
		if d.Severity == diag.Error {
			problems = append(problems, d)
			continue
		}
		fmt.Fprintf(a.stderr, "\nWarning: %s\n\n%s\n", d.Summary, d.Detail)
	}
	return cli, problems
}

// interruptible returns a context that ends with the first interrupt. stop gives the signals back.
func (a *app) interruptible(ctx context.Context) (out context.Context, stop func()) {
	out, cancel := context.WithCancel(ctx)
	interrupts, end := a.interrupts(a.tell)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-interrupts:
			cancel()
		case <-out.Done():
		}
	}()
	return out, func() {
		cancel()
		<-done
		end()
	}
}
