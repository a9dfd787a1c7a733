package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"golang.org/x/term"

	"github.com/millipede-iac/millipede/cmd/internal/command"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view"
)

const consoleUsage = `
Usage: coordinator [global options] console [options]

  Evaluates expressions, with the variables, locals and outputs of the configuration and the objects of the state. Other
  values are shown as (known after apply). Nothing is changed.

  On a terminal it prompts for expressions; an open bracket, or a backslash at the end of a line, continues in
  the next line. Otherwise it reads standard input, and ends at the first expression that fails.

Options:
  -state=FILE           Read this state file, not the state of the workspace.
  -var 'NAME=VALUE'     Set an input variable of the root module. May be given several times.
  -var-file=FILE        Set the variables in a file, beside terraform.tfvars and *.auto.tfvars.
  -input=false          Never ask for anything.
  -json-into=FILE       Write everything as JSON to a file too, a line for each message.
  -lock, -lock-timeout  Without effect: a console reads the last committed version of the state, without a lock.
` + textHelp

const consoleHelp = `Every line is an expression of the language, and its value is shown. It can
use the same references as expressions in the root module: var.NAME, local.NAME,
module.NAME; TYPE.NAME and data.TYPE.NAME for objects of the state. The function
type() shows the type of a value.

To leave the console, type "exit", or press Control-C or Control-D.`

func runConsole(ctx context.Context, a *app, args []string) int {
	var show viewFlags
	var vars variableFlags
	var sf stateFlags
	f := a.NewFlags()
	show.RegisterJSON(f)
	vars.register(f)
	sf.registerLock(f)
	f.StringVar(&sf.File, "state", "", "")
	if code, done := a.Parse(f, consoleUsage, args); done {
		return code
	}
	json := show.JSON
	show.JSON = false // diagnostics are always text
	s, diags := a.newStreamScreen(show, nil)
	s.Printer.Out = a.Stderr // standard output is reserved for values
	if json {
		diags = diags.Append(diag.New(diag.Error, "Output only in json is not allowed", "The console is interactive. To "+
			"write its output as JSON too, give -json-into=FILE.", nil))
	}
	if f.NArg() > 0 {
		diags = diags.Append(diag.New(diag.Error, "Too many command line arguments", fmt.Sprintf("The console command "+
			"takes no arguments, and %q is one.", f.Arg(0)), nil))
	}
	if diags.HasErrors() {
		return s.End(diags)
	}
	return s.End(a.Estate.Inspect(ctx, estate.InspectOptions{Variables: vars.Variables, State: sf.StateOptions,
		Sources: s.From}, func(i *estate.Inspection) diag.List {
		c, diags := operation.Do(ctx, i.Engine.Session, "console",
			func(ctx context.Context, s *operation.Session) (*operation.Console, diag.List) {
				return s.Console(ctx, i.Prior)
			})
		return (&consoleLoop{screen: s, console: c, config: i.Config}).run(diags)
	}))
}

// consoleLoop is an interactive or piped console.
type consoleLoop struct {
	*screen
	console *operation.Console
	config  *estate.Configuration
}

// run shows the diagnostics so far, and evaluates expressions until the input ends. It returns the diagnostics
// that have not been shown.
func (c *consoleLoop) run(diags diag.List) diag.List {
	if c.console == nil {
		return diags
	}
	if diags.HasErrors() {
		diags = diags.Append(diag.New(diag.Warning, "Due to the problems above, some expressions may produce "+
			"unexpected results.", "", nil))
	}
	c.Diagnostics(diags)
	if in, ok := c.App.Stdin.(*os.File); ok && command.Terminal(in) {
		return c.interactive(in)
	}
	return c.piped()
}

// piped evaluates the lines of standard input, up to the first one that fails.
func (c *consoleLoop) piped() diag.List {
	var lines operation.ConsoleLines
	for {
		line, err := c.App.ReadLine()
		if err == nil || line != "" {
			if expression, open := lines.Add(line); open == 0 {
				exit, diags := c.answer(expression)
				if exit || diags.HasErrors() {
					return diags
				}
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, operation.ErrInterrupted):
			return stopped()
		case err != nil:
			return diag.Errors("Failed to read standard input", err.Error()+".", nil)
		}
	}
}

// interactive evaluates expressions from a terminal.
func (c *consoleLoop) interactive(in *os.File) diag.List {
	const prompt = "> "
	editor := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, c.App.Stdout}, prompt)
	var lines operation.ConsoleLines
	for {
		line, err := c.App.EditLine(editor, in)
		switch {
		case errors.Is(err, operation.ErrInterrupted):
			return stopped()
		case errors.Is(err, io.EOF): // Control-C or Control-D
			return nil
		case err != nil:
			return diag.Errors("Failed to use the terminal", err.Error()+".", nil)
		}
		expression, open := lines.Add(line)
		if open > 0 {
			editor.SetPrompt(strings.Repeat(".", open) + " ")
			continue
		}
		editor.SetPrompt(prompt)
		exit, diags := c.answer(expression)
		if exit {
			return nil
		}
		if diags.HasErrors() {
			c.Diagnostics(diags)
		}
	}
}

// stopped returns the error of an interrupted console.
func stopped() diag.List {
	return diag.Errors("Operation interrupted", "The console was interrupted.", nil)
}

// answer evaluates a line and shows the result; exit is true for a request to exit. The caller shows the
// diagnostics.
func (c *consoleLoop) answer(expression string) (exit bool, diags diag.List) {
	text := ""
	switch strings.TrimSpace(expression) {
	case "":
	case "exit":
		return true, nil
	case "help":
		text = consoleHelp
	default:
		c.config.Loader.AddSource(operation.ConsoleSource, []byte(expression))
		var got operation.Answer
		if got, diags = c.console.Eval(expression); diags.HasErrors() {
			return false, diags
		}
		if got.Type != cty.NilType {
			text = view.TypeText(got.Type)
		} else {
			text = view.FormatValue(got.Value)
		}
	}
	c.Print(text + "\n")
	c.Message("", text, nil)
	return false, nil
}
