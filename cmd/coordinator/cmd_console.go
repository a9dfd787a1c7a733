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

	"github.com/millipede-iac/millipede/cmd/command"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view"
)

const consoleUsage = `
Usage: coordinator [global options] console [options]

  Evaluates expressions, with the variables, locals and outputs of the configuration and the objects of the state. What
  neither says shows as (known after apply). Nothing is changed.

  On a terminal it asks for one expression after the other; an open bracket, or a backslash at the end of a line, goes on in
  the next line. Otherwise it reads standard input, and ends with the first expression that fails.

Options:
  -state=FILE           Read this state file, not the state of the workspace.
  -var 'NAME=VALUE'     Set an input variable of the root module. May be given often.
  -var-file=FILE        Set the variables in a file, beside terraform.tfvars and *.auto.tfvars.
  -input=false          Never ask for anything.
  -json-into=FILE       Write everything as JSON to a file too, a line for each message.
  -lock, -lock-timeout  Without effect: a console reads what was committed last, whoever works on the state, and locks nothing.
` + textHelp

const consoleHelp = `Every line is an expression of the language, and its value is shown. It can
refer to whatever an expression in the root module can: var.NAME, local.NAME,
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
	show.JSON = false // problems are shown as text in any case
	s, diags := a.newStreamScreen(show, nil)
	s.Printer.Out = a.Stderr // standard output is for values
	if json {
		diags = diags.Append(diag.New(diag.Error, "Output only in json is not allowed", "A console is for people. To "+
			"have its output as JSON beside that, give -json-into=FILE.", nil))
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
		return (&consoleSession{screen: s, console: c, config: i.Config}).run(diags)
	}))
}

// consoleSession is a console that talks with somebody.
type consoleSession struct {
	*screen
	console *operation.Console
	config  *estate.Configuration
}

// run shows the problems so far and answers until there are no more questions. It returns the problems that are not
// shown yet.
func (c *consoleSession) run(diags diag.List) diag.List {
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

// piped answers the lines of standard input, up to the first that fails.
func (c *consoleSession) piped() diag.List {
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

// interactive answers somebody at a terminal.
func (c *consoleSession) interactive(in *os.File) diag.List {
	const prompt = "> "
	editor := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, c.App.Stdout}, prompt)
	var lines operation.ConsoleLines
	for {
		line, err := c.editLine(editor, in, command.Width(c.App.Stdout))
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

// stopped is how a console ends that was interrupted.
func stopped() diag.List {
	return diag.Errors("Operation interrupted", "The console was ended.", nil)
}

// editLine reads a line, with the terminal in raw mode only meanwhile. columns is 0 when nothing tells how wide it is.
// A stop ends it with operation.ErrInterrupted; nothing may be read after that.
func (c *consoleSession) editLine(editor *term.Terminal, in *os.File, columns int) (line string, err error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, term.Restore(int(in.Fd()), before)) }()
	if columns > 0 {
		const anyHeight = 24 // the editor looks at the width alone
		if err := editor.SetSize(columns, anyHeight); err != nil {
			return "", err
		}
	}
	type answer struct {
		line string
		err  error
	}
	got := make(chan answer, 1)
	go func() { // ends with the line; after a stop the end of the process ends it
		line, err := editor.ReadLine()
		got <- answer{line, err}
	}()
	select {
	case read := <-got:
		return read.line, read.err
	case <-c.App.Interrupts.Stopping.Done():
		return "", operation.ErrInterrupted
	}
}

// answer shows what a line asks for; exit tells that it asks for the end. Problems are left to the caller.
func (c *consoleSession) answer(expression string) (exit bool, diags diag.List) {
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
