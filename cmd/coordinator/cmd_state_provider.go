package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/edit"
)

const replaceProviderUsage = `
Usage: coordinator [global options] state replace-provider [options] FROM TO

  Assigns all objects in the state that belong to the provider FROM to the provider TO. Both are source addresses,
  such as hashicorp/time.

Options:
  -auto-approve         Do not ask.
  -input=false          Do not ask, and fail if -auto-approve is not given.
` + remoteVersionHelp + lockHelp + stateFileHelp + variablesHelp + jsonHelp

func runReplaceProvider(ctx context.Context, a *app, args []string) int {
	var e editFlags
	f := a.NewFlags()
	e.registerFile(a, f)
	approved := f.Bool("auto-approve", false, "")
	input := f.Bool("input", true, "")
	s, code, ok := a.begin(f, replaceProviderUsage, args, &e.view)
	if !ok {
		return code
	}
	switch {
	case f.NArg() != 2:
		return s.WrongUsage("Invalid number of arguments", "The command takes two source addresses of providers.")
	case e.view.JSON && !*approved:
		return s.WrongUsage("Invalid usage", "With -json the command cannot ask for approval, so -auto-approve is required.")
	}
	from, diags := parseProviderArgument("from", f.Arg(0))
	to, more := parseProviderArgument("to", f.Arg(1))
	if diags = diags.Append(more); diags.HasErrors() {
		return s.End(diags)
	}
	s.WholeConfig = true
	const operation = "state-replace-provider"
	e.state.Objects = true
	return s.WithState(ctx, e.vars.Variables, e.state.StateOptions, operation, func(at estate.Changeable) diag.List {
		st, diags := at.Load(ctx)
		if diags.HasErrors() {
			return diags
		}
		if edit.IsNone(st) {
			return noStateFile()
		}
		resources, changes := edit.Reassigned(st, from, to)
		if len(resources) == 0 {
			s.Say("No matching resources found.")
			return diags
		}
		ink := a.Ink(e.view)
		s.Print(fmt.Sprintf("Millipede will perform the following actions:\n\n  ~ Updating provider:\n    - %s\n    "+
			"+ %s\n\n%s %d resources:\n\n  %s\n",
			from, to, ink.Bold("Changing"), len(resources), strings.Join(resources, "\n  ")))
		s.Message("replace_provider", fmt.Sprintf("Millipede will replace provider from %s to %s for %d resources",
			from, to, len(resources)),
			map[string]any{"from": from.String(), "to": to.String(), "resources": resources})
		if !*approved {
			yes, more := s.Confirm("Do you want to make these changes?", "Only 'yes' will be accepted to continue.",
				*input)
			if diags = diags.Append(more); more.HasErrors() {
				return diags
			}
			if !yes {
				s.Say("Cancelled replacing providers.")
				return diags
			}
		}
		if diags = diags.Append(at.Commit(ctx, changes)); !diags.HasErrors() {
			s.Say(fmt.Sprintf("Successfully replaced provider for %d resources.", len(resources)))
		}
		return diags
	})
}

func parseProviderArgument(which, text string) (addr.Provider, diag.List) {
	p, diags := addr.ParseProviderSource(text)
	if diags.HasErrors() {
		return p, diag.Errors(fmt.Sprintf("Invalid %q provider %q", which, text), diags.Err().Error(), nil)
	}
	return p, nil
}
