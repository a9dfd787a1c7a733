package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/edit"
	"github.com/millipede-iac/millipede/state/tfstate"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

const stateUsage = `
Usage: coordinator [global options] state <subcommand> [options] [arguments]

  Works on the state. Commands that change it keep the previous version.

Subcommands:
  list                  List what is in the state
  identities            Show the identities of what is in the state
  show                  Show one object of the state
  pull                  Write the state to standard output
  push                  Replace the state with a file
  mv                    Change the address of objects in the state
  rm                    Remove objects from the state without destroying them
  replace-provider      Assign objects to another provider
`

const stateListUsage = `
Usage: coordinator [global options] state list [options] [ADDRESS]...

  Lists the resource instances in the state: all of them, or those of the named resources and modules.

Options:
  -id=ID                List only instances whose attribute "id" has this value.
  -state=FILE           Read this state file, not the state of the workspace.
` + variablesHelp + jsonHelp

func runStateList(ctx context.Context, a *app, args []string) int {
	var e editFlags
	f := a.NewFlags()
	e.register(f)
	id := f.String("id", "", "")
	file := f.String("state", "", "")
	s, code, ok := a.begin(f, stateListUsage, args, &e.view)
	if !ok {
		return code
	}
	if s.ForPeople() {
		s.Printer.Out = a.Stderr // standard output is reserved for the addresses
	}
	targets, malformed := parseTargets(f.Args())
	return s.ReadState(ctx, e.vars.Variables, *file, func(st *state.State) diag.List {
		switch {
		case edit.IsNone(st):
			return noStateFile()
		case malformed.HasErrors():
			return malformed
		}
		found, diags := edit.Matching(st, targets)
		for _, at := range found {
			if *id == "" || edit.ObjectID(st.Object(at, state.CurrentObject)) == *id {
				s.Print(at.String() + "\n")
				s.Message("resource_address", at.String(), nil)
			}
		}
		return diags
	})
}

const stateIdentitiesUsage = `
Usage: coordinator [global options] state identities -json [options] [ADDRESS]...

  Writes the identities of the resource instances in the state as a JSON document, by address: of all of them, or of
  those of the named resources and modules. Instances without an identity are left out.

Options:
  -json                 Required: there is no text form.
  -id=ID                Only instances whose attribute "id" has this value.
  -state=FILE           Read this state file, not the state of the workspace.
` + variablesHelp + textHelp

func runStateIdentities(ctx context.Context, a *app, args []string) int {
	var shown viewFlags
	var vars variableFlags
	f := a.NewFlags()
	shown.RegisterText(f)
	vars.registerValues(f)
	json := f.Bool("json", false, "")
	id := f.String("id", "", "")
	file := f.String("state", "", "")
	if code, done := a.Parse(f, stateIdentitiesUsage, args); done {
		return code
	}
	s, diags := a.newStreamScreen(shown, nil)
	if !*json {
		diags = diags.Append(diag.New(diag.Error, "Output only in json is allowed", "Identities have no text form. Give "+
			"the option -json.", nil))
	}
	targets, malformed := parseTargets(f.Args())
	if diags = diags.Append(malformed); diags.HasErrors() {
		return s.End(diags)
	}
	s.Printer.Out = a.Stderr // standard output is reserved for the document
	return s.ReadState(ctx, vars.Variables, *file, func(st *state.State) diag.List {
		if edit.IsNone(st) {
			return noStateFile()
		}
		found, diags := edit.Matching(st, targets)
		if diags.HasErrors() {
			return diags
		}
		found = slices.DeleteFunc(found, func(at addr.Instance) bool {
			return *id != "" && edit.ObjectID(st.Object(at, state.CurrentObject)) != *id
		})
		text, err := document.IdentitiesJSON(st, found)
		if err != nil {
			return diags.Append(err)
		}
		s.Write(a.Stdout, text)
		return diags
	})
}

const stateShowUsage = `
Usage: coordinator [global options] state show [options] ADDRESS

  Shows the attributes of one resource instance in the state.

Options:
  -show-sensitive       Show sensitive values too. They are always in the JSON form.
  -state=FILE           Read this state file, not the state of the workspace.
` + variablesHelp + documentHelp

func runStateShow(ctx context.Context, a *app, args []string) int {
	var e editFlags
	f := a.NewFlags()
	e.register(f)
	reveal := f.Bool("show-sensitive", false, "")
	file := f.String("state", "", "")
	s, code, ok := a.begin(f, stateShowUsage, args, &e.view)
	if !ok {
		return code
	}
	if f.NArg() != 1 {
		return s.WrongUsage("Invalid number of arguments", "The command takes the address of one resource instance.")
	}
	at, parsed := addr.ParseInstance(f.Arg(0))
	if parsed.HasErrors() {
		return s.End(diag.Errors(fmt.Sprintf("Error parsing instance address %q", f.Arg(0)),
			parsed[0].Detail+"\n\nThe command takes the address of one resource instance. To see the addresses, run: "+
				diag.Program()+" state list", nil))
	}
	s.WholeConfig = true
	return s.ReadState(ctx, e.vars.Variables, *file, func(st *state.State) diag.List {
		if edit.IsNone(st) {
			return noStateFile()
		}
		if st.Object(at, state.CurrentObject) == nil {
			return diag.Errors("No instance found for the given address",
				fmt.Sprintf("There is no resource instance %s in the state. To see the addresses, run: "+diag.Program()+
					" state list", at), nil)
		}
		only := state.Empty()
		only.Lineage, only.EngineVersion = st.Lineage, st.EngineVersion
		only.Apply(state.SetObject{Addr: at, Provider: st.ProviderOf(at), Object: st.Object(at, state.CurrentObject)})
		schemas, diags := a.Estate.Schemas(ctx, nil, nil, only)
		if !diags.HasErrors() {
			diags = diags.Append(document.SameSchemas(only, schemas))
		}
		if diags.HasErrors() {
			return diags
		}
		if s.WantsDocument() {
			text, err := document.StateJSON(only, schemas, engineVersion)
			if s.Stream != nil {
				diags = diags.Append(s.Stream.Settle())
			}
			diags = diags.Append(s.WriteDocument(text, err))
		}
		o := s.Options()
		o.Reveal = *reveal
		s.Printed(func(w io.Writer) error { return view.InstanceText(w, only, at, schemas, o) })
		return diags
	})
}

const statePullUsage = `
Usage: coordinator [global options] state pull [options]

  Writes the state of the workspace to standard output, in OpenTofu's format.

Options:
` + variablesHelp + textHelp

func runStatePull(ctx context.Context, a *app, args []string) int {
	var sf viewFlags
	var vars variableFlags
	f := a.NewFlags()
	sf.RegisterText(f)
	vars.registerValues(f)
	if code, done := a.Parse(f, statePullUsage, args); done {
		return code
	}
	s, diags := a.newScreen(sf, nil)
	s.Printer.Out = a.Stderr // standard output is reserved for the state
	if diags = diags.Append(noArguments(f)); diags.HasErrors() {
		return s.End(diags)
	}
	s.WholeConfig = true
	return s.ReadState(ctx, vars.Variables, "", func(st *state.State) diag.List {
		if edit.IsNone(st) {
			return nil
		}
		var text bytes.Buffer
		if err := tfstate.Write(&text, st, engineVersion, tfstate.Compact); err != nil {
			return diag.List{}.Append(err)
		}
		s.Write(a.Stdout, append(text.Bytes(), '\n'))
		return nil
	})
}
