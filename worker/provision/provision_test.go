//go:build unix

package provision

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"go.uber.org/goleak"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/provisioner"
	"github.com/millipede-iac/millipede/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// step returns a provisioner of the given type; attributes that are not given are null.
func step(t *testing.T, typeName string, attrs map[string]cty.Value) wire.Provisioner {
	t.Helper()
	vals := map[string]cty.Value{}
	for name, a := range provisioner.Block(typeName).Attributes {
		vals[name] = cty.NullVal(a.Type)
		if v, ok := attrs[name]; ok {
			vals[name] = v
		}
	}
	config, err := coding.EncodeValue(cty.ObjectVal(vals), provisioner.Block(typeName).ImpliedType())
	if err != nil {
		t.Fatal(err)
	}
	return wire.Provisioner{Type: typeName, Config: config}
}

func command(t *testing.T, text string) wire.Provisioner {
	return step(t, "local-exec", map[string]cty.Value{"command": cty.StringVal(text)})
}

// run returns the events as words, and the diagnostics.
func run(t *testing.T, ctx context.Context, r Runner, steps ...wire.Provisioner) ([]string, diag.List) {
	t.Helper()
	return runTask(t, ctx, r, &wire.ProvisionTask{Provisioners: steps})
}

// runIn is run for a coordinator in a directory.
func runIn(t *testing.T, dir string, steps ...wire.Provisioner) ([]string, diag.List) {
	t.Helper()
	return runTask(t, context.Background(), Runner{}, &wire.ProvisionTask{Provisioners: steps, Dir: dir})
}

func runTask(t *testing.T, ctx context.Context, r Runner, task *wire.ProvisionTask) ([]string, diag.List) {
	t.Helper()
	var events []string
	diags := r.Run(ctx, "test_thing.a", task, nil, func(e wire.Event) {
		if e.Address != "test_thing.a" {
			t.Errorf("an event is about %q", e.Address)
		}
		switch e.Kind {
		case "output":
			events = append(events, e.Text)
		case "provision_end":
			events = append(events, fmt.Sprintf("end %s %t", e.Name, e.Failed))
		default:
			events = append(events, "start "+e.Name)
		}
	})
	return events, diags
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("events:\n got %q\nwant %q", got, want)
	}
}

func wantFailure(t *testing.T, diags diag.List, summary string, parts ...string) {
	t.Helper()
	if len(diags) != 1 || diags[0].Summary != summary || diags[0].Address != "test_thing.a" {
		t.Fatalf("got %v, want one error %q about test_thing.a", diags.Err(), summary)
	}
	for _, part := range parts {
		if !strings.Contains(diags[0].Detail, part) {
			t.Errorf("the detail %q does not contain %q", diags[0].Detail, part)
		}
	}
}

func TestACommandsOutputIsReportedLineByLine(t *testing.T) {
	events, diags := run(t, context.Background(), Runner{}, command(t, "echo one; echo two >&2; printf three"))
	if diags != nil {
		t.Fatal(diags.Err())
	}
	want(t, events, "start local-exec", `Executing: ["/bin/sh" "-c" "echo one; echo two >&2; printf three"]`,
		"one", "two", "three", "end local-exec false")
}

func TestArgumentsOfLocalExec(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	events, diags := run(t, context.Background(), Runner{Environment: []string{"A=outer", "B=outer"}},
		step(t, "local-exec", map[string]cty.Value{
			"command": cty.StringVal(`pwd; echo "$A $B"`),
			"interpreter": cty.ListVal([]cty.Value{cty.StringVal("/bin/sh"), cty.NullVal(cty.String),
				cty.StringVal("-c")}),
			"working_dir": cty.StringVal(dir),
			"environment": cty.MapVal(map[string]cty.Value{"A": cty.StringVal("inner"), "B": cty.NullVal(cty.String)}),
			"quiet":       cty.True,
		}))
	if diags != nil {
		t.Fatal(diags.Err())
	}
	want(t, events, "start local-exec", "local-exec: Executing: Suppressed by quiet=true", dir, "inner outer",
		"end local-exec false")
}

func TestACommandRunsInTheCoordinatorsDirectory(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	in := func(named cty.Value) wire.Provisioner {
		return step(t, "local-exec", map[string]cty.Value{"command": cty.StringVal("pwd; ls"), "quiet": cty.True,
			"working_dir": named})
	}
	none := cty.NullVal(cty.String)
	events, diags := runIn(t, dir, in(none), in(cty.StringVal("sub")))
	if diags != nil {
		t.Fatal(diags.Err())
	}
	quiet := "local-exec: Executing: Suppressed by quiet=true"
	want(t, events, "start local-exec", quiet, dir, "sub", "end local-exec false",
		"start local-exec", quiet, filepath.Join(dir, "sub"), "end local-exec false")

	// A machine that does not have the directory.
	events, diags = runIn(t, filepath.Join(dir, "elsewhere"), in(none))
	if diags != nil || len(events) != 4 || strings.HasPrefix(events[2], dir) {
		t.Errorf("without the coordinator's directory: %v, %q", diags.Err(), events)
	}
	if _, err := os.Stat(events[2]); err == nil {
		t.Errorf("the file %s was not removed", events[2])
	}
	_, diags = runIn(t, filepath.Join(dir, "elsewhere"), in(cty.StringVal("sub")))
	wantFailure(t, diags, "local-exec provisioner error", filepath.Join(dir, "elsewhere", "sub"))
}

func TestAFailureEndsTheListAndTellsTheEndOfTheOutput(t *testing.T) {
	events, diags := run(t, context.Background(), Runner{}, command(t, "echo no; exit 3"), command(t, "echo never"))
	wantFailure(t, diags, "local-exec provisioner error", "echo no; exit 3", "exit status 3", "Output: no")
	want(t, events, "start local-exec", `Executing: ["/bin/sh" "-c" "echo no; exit 3"]`, "no", "end local-exec true")
}

func TestAFailureThatMayContinueIsNotTold(t *testing.T) {
	first := command(t, "exit 1")
	first.Continue = true
	events, diags := run(t, context.Background(), Runner{}, first, command(t, "true"))
	if diags != nil {
		t.Fatal(diags.Err())
	}
	want(t, events, "start local-exec", `Executing: ["/bin/sh" "-c" "exit 1"]`, "end local-exec true",
		"start local-exec", `Executing: ["/bin/sh" "-c" "true"]`, "end local-exec false")
}

func TestNothingOfASensitiveProvisionerIsShown(t *testing.T) {
	p := command(t, "echo hunter2; exit 1")
	p.Sensitive = true
	events, diags := run(t, context.Background(), Runner{}, p)
	wantFailure(t, diags, "local-exec provisioner error", "exit status 1")
	if all := strings.Join(events, " ") + diags[0].Detail; strings.Contains(all, "hunter2") {
		t.Errorf("a secret is shown: %s", all)
	}
}

// A killed shell can leave a child behind that keeps the output open; the end of the context must end both.
func TestTheEndOfTheContextEndsTheCommandAndItsChildren(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	p := command(t, "sleep 1000 & echo ready; wait")
	diags := Runner{}.Run(ctx, "test_thing.a", &wire.ProvisionTask{Provisioners: []wire.Provisioner{p}}, nil,
		func(e wire.Event) {
			if e.Text == "ready" {
				cancel(errors.New("the run was cancelled"))
			}
		})
	wantFailure(t, diags, "local-exec provisioner error", "the run was cancelled")
}

func TestWhatCannotRunSaysSo(t *testing.T) {
	_, diags := run(t, context.Background(), Runner{}, command(t, ""))
	wantFailure(t, diags, "Invalid local-exec provisioner command")
	_, diags = run(t, context.Background(), Runner{}, wire.Provisioner{Type: "chef"})
	wantFailure(t, diags, "Unknown provisioner type", `"chef"`)
	_, diags = run(t, context.Background(), Runner{}, wire.Provisioner{Type: "local-exec", Config: []byte{0xc1}})
	wantFailure(t, diags, "local-exec provisioner error", "cannot be read")
	_, diags = run(t, context.Background(), Runner{}, step(t, "local-exec", map[string]cty.Value{
		"command": cty.StringVal("x"), "interpreter": cty.ListVal([]cty.Value{cty.StringVal("/no/such/shell")}),
	}))
	wantFailure(t, diags, "local-exec provisioner error", "/no/such/shell")
}

func TestLongOutputIsBounded(t *testing.T) {
	var said []string
	l := &lines{say: func(s string) { said = append(said, s) }}
	chunk := []byte(strings.Repeat("x", 10_000))
	for range 20 {
		if n, err := l.Write(chunk); n != len(chunk) || err != nil {
			t.Fatal(n, err)
		}
	}
	l.end()
	if len(said) != 4 || len(said[0]) != maxLine || len(l.tail) != maxTail {
		t.Errorf("%d lines, the first of %d bytes; a tail of %d bytes", len(said), len(said[0]), len(l.tail))
	}
}
