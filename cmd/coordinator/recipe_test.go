package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/cmd/internal/command"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

const countUsage = `
Usage: coordinator [global options] count [options]

  Counts the resources in the state.

Options:
` + variablesHelp + jsonHelp

// runCount is a command by the recipe of ARCHITECTURE.md. In a program it would be in a separate file.
func runCount(ctx context.Context, a *app, args []string) int {
	var sf viewFlags
	var vars variableFlags
	f := a.NewFlags()
	sf.RegisterJSON(f)
	vars.registerValues(f)
	if code, done := a.Parse(f, countUsage, args); done {
		return code
	}
	s, diags := a.newStreamScreen(sf, nil)
	if diags = diags.Append(noArguments(f)); diags.HasErrors() {
		return s.End(diags)
	}
	return s.ReadState(ctx, vars.Variables, "", func(st *state.State) diag.List {
		s.Say(fmt.Sprintf("%d resources", len(st.Resources)))
		return nil
	})
}

func TestACommandThatOpensAStateNeedsItsFileAndALineOfTheTable(t *testing.T) {
	t.Chdir(t.TempDir())
	before := commands
	t.Cleanup(func() { commands = before })
	commands = append(commands[:len(commands):len(commands)],
		command.Command{Name: "count", Synopsis: "Count the resources in the state", Run: own(runCount),
			Use: estate.Use{LooksOnly: true}})
	run := func(args ...string) (string, int) {
		var out bytes.Buffer
		a := newApp(strings.NewReader(""), &out, &out, []string{"TF_CLI_CONFIG_FILE=" + os.DevNull})
		code := a.Run(t.Context(), args)
		return out.String(), code
	}
	if got, code := run("count"); code != 0 || got != "0 resources\n" {
		t.Errorf("without a state: %q, exit status %d", got, code)
	}
	if got, code := run("count", "-json"); code != 0 || !strings.Contains(got, `"@message":"0 resources"`) {
		t.Errorf("for programs: %q, exit status %d", got, code)
	}
	if got, code := run("count", "more"); code != 1 || !strings.Contains(got, `"more" is not expected`) {
		t.Errorf("with an argument: %q, exit status %d", got, code)
	}
	if got, _ := run("-help"); !strings.Contains(got, "Count the resources in the state") {
		t.Error("the list of commands does not have it")
	}
	if got, code := run("count", "-help"); code != 0 || !strings.Contains(got, "Counts the resources in the state.") {
		t.Errorf("its help is %q, exit status %d", got, code)
	}
}
