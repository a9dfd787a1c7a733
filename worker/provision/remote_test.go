//go:build unix

package provision

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/provider/provisioner"
	"github.com/millipede-iac/millipede/test/stage/sshd"
	"github.com/millipede-iac/millipede/wire"
)

// over adds a connection to a server to a provisioner. Its scripts are in a separate directory.
func over(t *testing.T, s *sshd.Server, p wire.Provisioner) wire.Provisioner {
	t.Helper()
	vals := map[string]cty.Value{
		"host": cty.StringVal(s.Host), "port": cty.NumberIntVal(int64(s.Port)), "user": cty.StringVal(s.User),
		"private_key": cty.StringVal(s.PrivateKey),
		"timeout":     cty.StringVal("1m"),
		"script_path": cty.StringVal(filepath.Join(t.TempDir(), "script_%RAND%.sh")),
	}
	for name, a := range provisioner.Connection.Attributes {
		if _, ok := vals[name]; !ok {
			vals[name] = cty.NullVal(a.Type)
		}
	}
	var err error
	if p.Connection, err = coding.EncodeValue(cty.ObjectVal(vals), provisioner.Connection.ImpliedType()); err != nil {
		t.Fatal(err)
	}
	return p
}

func words(list ...string) cty.Value {
	var out []cty.Value
	for _, w := range list {
		out = append(out, cty.StringVal(w))
	}
	return cty.ListVal(out)
}

// after returns the events after the one about the connection.
func after(t *testing.T, events []string) []string {
	t.Helper()
	at := slices.Index(events, "Connected!")
	if at != 2 || events[0] != "start remote-exec" ||
		!strings.HasPrefix(events[1], "Connecting to remote host via SSH...\n  Host: 127.0.0.1\n") {
		t.Fatalf("the first events are %q", events)
	}
	return events[at+1:]
}

func TestLinesRunAsOneScriptOnTheOtherMachine(t *testing.T) {
	sshd.Each(t, func(t *testing.T, s *sshd.Server) {
		p := over(t, s, step(t, "remote-exec", map[string]cty.Value{"inline": words("A=1", "echo $A; printf two",
			"echo; exit 3")}))
		events, diags := run(t, context.Background(), Runner{}, p)
		wantFailure(t, diags, "remote-exec provisioner error", "error executing", "Process exited with status 3")
		want(t, after(t, events), "1", "two", "end remote-exec true")
	})
}

func TestScriptsComeAlongOrAreOnTheWorkersMachine(t *testing.T) {
	sshd.Each(t, func(t *testing.T, s *sshd.Server) {
		p := over(t, s, step(t, "remote-exec", map[string]cty.Value{"scripts": words("/not/here/a", "/not/here/b")}))
		p.Files = []wire.File{{Data: []byte("#!/bin/sh\necho a")}, {Data: []byte("echo b")}}
		events, diags := run(t, context.Background(), Runner{}, p)
		if diags != nil {
			t.Fatal(diags.Err())
		}
		want(t, after(t, events), "a", "b", "end remote-exec false")

		name := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(name, []byte("echo mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		events, diags = run(t, context.Background(), Runner{},
			over(t, s, step(t, "remote-exec", map[string]cty.Value{"script": cty.StringVal(name)})))
		if diags != nil {
			t.Fatal(diags.Err())
		}
		want(t, after(t, events), "mine", "end remote-exec false")
		_, diags = run(t, context.Background(), Runner{},
			over(t, s, step(t, "remote-exec", map[string]cty.Value{"script": cty.StringVal("/not/here")})))
		wantFailure(t, diags, "remote-exec provisioner error", "Failed to open script '/not/here'")
	})
}

func TestAFileADirectoryOrItsContentsAreCopied(t *testing.T) {
	sshd.Each(t, func(t *testing.T, s *sshd.Server) {
		there, here := t.TempDir(), filepath.Join(t.TempDir(), "conf")
		if err := os.MkdirAll(filepath.Join(here, "deep"), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"a": "one", "deep/b": "two"} {
			if err := os.WriteFile(filepath.Join(here, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("a", filepath.Join(here, "link")); err != nil {
			t.Fatal(err)
		}
		along := step(t, "file", map[string]cty.Value{"source": cty.StringVal("/not/here/tree"),
			"destination": cty.StringVal(there)})
		along.Files = []wire.File{{Dir: true}, {Path: "a", Data: []byte("three")}, {Path: "deep", Dir: true},
			{Path: "deep/b", Data: []byte("four")}}
		copied := func(source, destination string) wire.Provisioner {
			return step(t, "file", map[string]cty.Value{"source": cty.StringVal(source),
				"destination": cty.StringVal(filepath.Join(there, destination))})
		}
		steps := []wire.Provisioner{
			copied(here, ""), copied(here+"/", ""), copied(filepath.Join(here, "a"), "copy"), along,
			step(t, "file", map[string]cty.Value{"content": cty.StringVal("text"),
				"destination": cty.StringVal(filepath.Join(there, "text"))}),
		}
		for i := range steps {
			steps[i] = over(t, s, steps[i])
		}
		events, diags := run(t, context.Background(), Runner{}, steps...)
		if diags != nil {
			t.Fatal(diags.Err())
		}
		if len(events) != 2*len(steps) || events[1] != "end file false" {
			t.Errorf("copying a file has events: %q", events)
		}
		for name, want := range map[string]string{
			"conf/a": "one", "conf/deep/b": "two", "conf/link": "one", "a": "one", "deep/b": "two", "copy": "one",
			"tree/a": "three", "tree/deep/b": "four", "text": "text",
		} {
			if got, err := os.ReadFile(filepath.Join(there, name)); err != nil || string(got) != want {
				t.Errorf("%s: %q %v", name, got, err)
			}
		}
		_, diags = run(t, context.Background(), Runner{}, over(t, s, copied("/not/here", "x")))
		wantFailure(t, diags, "file provisioner error", "no such file")
		_, diags = run(t, context.Background(), Runner{},
			over(t, s, copied(filepath.Join(here, "a"), "no/such/directory")))
		wantFailure(t, diags, "file provisioner error", "Upload failed")
	})
}

func TestWhatARemoteProvisionerHidesDependsOnItsConfiguration(t *testing.T) {
	s := sshd.Start(t)
	for text, p := range map[string]wire.Provisioner{
		"(output suppressed due to sensitive value in config)": {Sensitive: true},
		"(output suppressed due to ephemeral value in config)": {Ephemeral: true},
	} {
		hidden := over(t, s, step(t, "remote-exec", map[string]cty.Value{"inline": words("echo hunter2")}))
		hidden.Sensitive, hidden.Ephemeral = p.Sensitive, p.Ephemeral
		events, diags := run(t, context.Background(), Runner{}, hidden)
		if diags != nil {
			t.Fatal(diags.Err())
		}
		want(t, events, "start remote-exec", text, text, text, "end remote-exec false")
	}
}

func TestTheEndOfTheContextEndsTheScript(t *testing.T) {
	sshd.Each(t, func(t *testing.T, s *sshd.Server) {
		ctx, cancel := context.WithCancelCause(context.Background())
		p := over(t, s, step(t, "remote-exec", map[string]cty.Value{"inline": words("echo ready", "exec sleep 1000")}))
		diags := Runner{}.Run(ctx, "test_thing.a", &wire.ProvisionTask{Provisioners: []wire.Provisioner{p}}, nil,
			func(e wire.Event) {
				if e.Text == "ready" {
					cancel(errors.New("the run was cancelled"))
				}
			})
		wantFailure(t, diags, "remote-exec provisioner error", "the run was cancelled")
	})
}

func TestWithoutAConnectionNothingIsTried(t *testing.T) {
	_, diags := run(t, context.Background(), Runner{},
		step(t, "remote-exec", map[string]cty.Value{"inline": words("true")}))
	wantFailure(t, diags, "remote-exec provisioner error", "Missing connection configuration for provisioner.")
	_, diags = run(t, context.Background(), Runner{}, step(t, "file", map[string]cty.Value{"content": cty.StringVal(""),
		"destination": cty.StringVal("/x")}))
	wantFailure(t, diags, "file provisioner error", "Missing connection configuration for provisioner.")
}
