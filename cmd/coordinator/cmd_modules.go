package main

import (
	"context"
	"flag"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

const modulesUsage = `
Usage: coordinator [global options] modules [options]

  Shows the modules that the configuration calls, with their sources and versions.

Options:
  -json                 Write a JSON document.
  -var 'NAME=VALUE', -var-file=FILE
                        Variables that module sources depend on. May be given several times.
` + textHelp

func runModules(_ context.Context, a *app, args []string) int {
	json := false
	c := treeCommand{usage: modulesUsage, show: (*viewFlags).RegisterText}
	c.register = func(f *flag.FlagSet) { f.BoolVar(&json, "json", false, "") }
	c.check = func(args []string) diag.List {
		if len(args) > 0 {
			return unexpected(args[0])
		}
		return nil
	}
	return a.withTree(args, c, func(s *screen, wd *estate.Configuration, _ []string) diag.List {
		if json {
			s.Printer.Out = a.Stderr // standard output is reserved for the document
			text, err := document.ModulesJSON(wd.Tree)
			if err != nil {
				return diag.List{}.Append(err)
			}
			s.Write(a.Stdout, text)
			return nil
		}
		tree := view.ModulesText(wd.Tree)
		if tree == "" {
			s.Print("The configuration calls no modules.\n")
			return nil
		}
		s.Print("Modules declared by configuration:\n.\n" + tree)
		return nil
	})
}
