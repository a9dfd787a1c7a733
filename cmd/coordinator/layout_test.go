package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/bolt"
	"github.com/millipede-iac/millipede/state/journal"
)

// One store had all workspaces, so that two of them could not be used at the same time. The first command that writes
// converts a directory with such a store; commands that read find everything before and afterwards.
func TestADirectoryOfAnEarlierVersionKeepsItsWorkspaces(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx := t.Context()
	if err := os.MkdirAll(".millipede", 0o700); err != nil {
		t.Fatal(err)
	}
	former := filepath.Join(".millipede", "state.db")
	store, err := bolt.Open(former, journal.LockInfo{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.CreateWorkspace(ctx, "other"); err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{"default", "other"} {
		for serial, value := range []string{"early", "of " + w} {
			s := state.Empty()
			s.Lineage, s.Serial = "lineage-"+w, uint64(serial+1)
			s.Outputs["x"] = &state.Output{Value: cty.StringVal(value)}
			if err := store.Replace(ctx, w, "", s, journal.Because("test")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(".millipede", "coordinator"), []byte("c-former\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join("terraform.tfstate.d", "other"), 0o755); err != nil { // so the backend has it
		t.Fatal(err)
	}
	run := func(workspace string, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		a := newApp(strings.NewReader(""), &out, io.MultiWriter(&out, t.Output()),
			[]string{"TF_WORKSPACE=" + workspace, "TF_CLI_CONFIG_FILE=" + os.DevNull})
		if code := a.Run(ctx, args); code != 0 {
			t.Errorf("%s in %s: exit status %d", args, workspace, code)
		}
		return strings.TrimSpace(out.String())
	}
	reads := func(when string) {
		t.Helper()
		for _, w := range []string{"default", "other"} {
			if got := run(w, "output", "-raw", "x"); got != "of "+w {
				t.Errorf("%s, the output of %s is %q", when, w, got)
			}
		}
		if got := run("default", "workspace", "list"); !strings.Contains(got, "default") ||
			!strings.Contains(got, "other") {
			t.Errorf("%s, the workspaces are %q", when, got)
		}
	}
	reads("before")
	if _, err := os.Stat(former); err != nil {
		t.Errorf("commands that read have laid the directory out: %v", err)
	}
	run("other", "state", "restore", "1")
	if got := run("other", "output", "-raw", "x"); got != "early" {
		t.Errorf("the earlier version is lost: %q", got)
	}
	run("other", "state", "restore", "2")
	run("default", "state", "restore", "1")
	run("default", "state", "restore", "2")
	reads("afterwards")

	d := layout.At("", "")
	if _, is := d.Former(); is {
		t.Error("the former store still counts")
	}
	for _, w := range []string{"default", "other"} {
		path := map[string]string{"default": "terraform.tfstate", "other": "terraform.tfstate.d/other/terraform.tfstate"}[w]
		home := d.State(layout.Location{Backend: "local", Address: path, Workspace: w})
		if kept, err := os.ReadFile(home.Identity()); err != nil ||
			!strings.HasPrefix(string(kept), "c-former\n") {
			t.Errorf("the runs of %s belong to %q now (%v)", w, kept, err)
		}
	}
	if _, err := os.Stat(filepath.Join(d.Path(), layout.KeptName)); err != nil {
		t.Errorf("the former store is lost: %v", err)
	}
}
