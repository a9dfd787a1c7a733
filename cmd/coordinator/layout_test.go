package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
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

// formerStore makes the store that an earlier version had for the default workspace of any backend.
func formerStore(t *testing.T, value, snapshot string) {
	t.Helper()
	path := layout.At("", "").Workspace("default").Store()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	store, err := bolt.Open(path, journal.LockInfo{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := state.Empty()
	s.Lineage, s.Serial = "lineage of "+value, 3
	s.Outputs["x"] = &state.Output{Value: cty.StringVal(value)}
	err = store.Replace(t.Context(), "default", "", s, journal.Because("test"))
	if snapshot != "" && err == nil {
		err = store.SetMark(t.Context(), "default", journal.SnapshotMark{Where: snapshot, Lineage: s.Lineage, Serial: 3})
	}
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
}

// The store of an earlier version was that of the directory. It goes to the backend that its mark names, and without a
// mark, because its snapshot was never written, to the backend that the directory used until then.
func TestAStoreOfAnEarlierVersionGoesToTheBackendThatHadIt(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("main.tf", []byte("terraform {\n  backend \"local\" {}\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(code int, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		a := newApp(strings.NewReader(""), &out, &out, []string{"TF_CLI_CONFIG_FILE=" + os.DevNull})
		if got := a.Run(t.Context(), args); got != code {
			t.Errorf("%s: exit status %d, not %d\n%s", args, got, code, &out)
		}
		return strings.Join(strings.Fields(out.String()), " ")
	}
	uses := func(path string) string {
		t.Helper()
		return run(0, "init", "-input=false", "-no-color", "-reconfigure", "-backend-config=path="+path)
	}
	shows := func(want string) {
		t.Helper()
		if got := run(0, "state", "pull"); !strings.Contains(got, want) ||
			want == "" && strings.Contains(got, "lineage of") {
			t.Errorf("the state is %q, not that with %q", got, want)
		}
	}
	home := layout.At("", "").Workspace("default")
	formerStore(t, "marked", "b.tfstate")
	uses("a.tfstate")
	shows("")
	uses("b.tfstate")
	shows("marked")
	run(0, "state", "restore", "3")
	if _, err := os.Stat(home.Path()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the home of the earlier version is still there: %v", err)
	}
	shows("marked")

	uses("c.tfstate")
	formerStore(t, "unwritten", "")
	if said := uses("b.tfstate"); !strings.Contains(said, "Another state was not written to its backend") ||
		!strings.Contains(said, "c.tfstate") {
		t.Errorf("init does not say that a state is in the store alone: %s", said)
	}
	shows("marked")
	if said := run(0, "runs", "list", "-no-color"); !strings.Contains(said, "c.tfstate") {
		t.Errorf("runs list does not say that a state is in the store alone: %s", said)
	}
	uses("c.tfstate")
	shows("unwritten")
}
