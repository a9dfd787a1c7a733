package main

import (
	"context"
	"encoding/json"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/funcs"
)

const metadataUsage = `
Usage: coordinator [global options] metadata <subcommand> [options]

  Shows facts about the engine.

Subcommands:
  functions             The functions of the language
`

const metadataFunctionsUsage = `
Usage: coordinator [global options] metadata functions -json

  Shows the functions of the language, with the types of their arguments and results.

Options:
  -json                 Required: there is no text form.
` + textHelp

func runMetadataFunctions(_ context.Context, a *app, args []string) int {
	var sf viewFlags
	f := a.NewFlags()
	sf.RegisterText(f)
	f.BoolVar(&sf.JSON, "json", false, "")
	if code, done := a.Parse(f, metadataFunctionsUsage, args); done {
		return code
	}
	s, diags := a.newScreen(sf, nil)
	diags = diags.Append(noArguments(f))
	if !sf.JSON && !diags.HasErrors() {
		diags = diags.Append(diag.New(diag.Error, "The -json flag is required", "The signatures of functions have no "+
			"text form. Give the option -json.", nil))
	}
	if diags.HasErrors() {
		return s.End(diags)
	}
	signatures := funcs.Describe()
	for _, name := range funcs.Names() {
		signatures["core::"+name] = signatures[name]
	}
	text, err := json.Marshal(struct {
		Format     string                     `json:"format_version"`
		Signatures map[string]funcs.Signature `json:"function_signatures"`
	}{"1.0", signatures})
	return s.End(s.WriteDocument(append(text, '\n'), err))
}
