package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	client "github.com/hashicorp/go-tfe"
	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts of testdata/client use a command line whose states and runs are at a service in this process. In them,
// `workspace NAME MODE` creates a workspace, and `elsewhere VERB NAME [REASON]` acts as another user: lock, unlock,
// share (runs lock objects), approve, discard, await STATUS; `as` changes the user.
func TestTheCommandLineAtAService(t *testing.T) {
	s, token := serveIn(t, t.TempDir(), "")
	t.Cleanup(func() { s.stop() })
	url := s.client.BaseURL()
	host := url.Host
	testscript.Run(t, testscript.Params{
		Dir: "testdata/client",
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			for _, name := range []string{"TF_DATA_DIR", "TF_WORKSPACE", "TF_IN_AUTOMATION", "TF_INPUT", "MILLIPEDE_NATS",
				"XDG_CONFIG_HOME", "XDG_DATA_HOME"} {
				e.Setenv(name, "")
			}
			e.Setenv("SSL_CERT_FILE", s.certificate)
			e.Setenv("HOST", host)
			e.Setenv("TOKEN", token)
			rc := filepath.Join(e.WorkDir, "rc")
			e.Setenv("TF_CLI_CONFIG_FILE", rc)
			return os.WriteFile(rc, []byte("credentials \""+host+"\" { token = \""+token+"\" }\n"), 0o600)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"workspace": func(ts *testscript.TestScript, _ bool, args []string) {
				_, err := s.client.Workspaces.Create(context.Background(), "main", client.WorkspaceCreateOptions{
					Name: &args[0], ExecutionMode: &args[1],
				})
				ts.Check(err)
			},
			// as NAME FILE makes the following commands use the token that was written to a file; as admin, that of the
			// administrator.
			"as": func(ts *testscript.TestScript, _ bool, args []string) {
				used := token
				if len(args) > 1 {
					used = tokenLine.FindString(ts.ReadFile(args[1]))
				}
				ts.Check(os.WriteFile(ts.MkAbs("rc"), []byte("credentials \""+host+"\" { token = \""+used+"\" }\n"), 0o600))
			},
			"elsewhere": func(ts *testscript.TestScript, _ bool, args []string) { ts.Check(s.elsewhere(args)) },
			// fill replaces HOST in files.
			"fill": func(ts *testscript.TestScript, _ bool, args []string) {
				for _, name := range args {
					text := strings.ReplaceAll(ts.ReadFile(name), "$HOST", host)
					ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o600))
				}
			},
		},
	})
}

var tokenLine = regexp.MustCompile(`\w+\.atlasv1\.\w+`)

// elsewhere is an action of another user on the newest run of a workspace, or on the workspace.
func (s *served) elsewhere(args []string) error {
	ctx := context.Background()
	w, err := s.client.Workspaces.Read(ctx, "main", args[1])
	if err != nil {
		return err
	}
	switch args[0] {
	case "lock":
		_, err = s.client.Workspaces.Lock(ctx, w.ID, client.WorkspaceLockOptions{Reason: &args[2]})
		return err
	case "unlock":
		_, err = s.client.Workspaces.Unlock(ctx, w.ID)
		return err
	case "share":
		return s.set(w.ID, "object-locks", true)
	}
	for {
		runs, err := s.client.Runs.List(ctx, w.ID, nil)
		if err != nil {
			return err
		}
		if len(runs.Items) == 0 {
			continue
		}
		r := runs.Items[0]
		switch {
		case args[0] == "await" && string(r.Status) == args[2]:
			return nil
		case args[0] == "approve" && r.Actions.IsConfirmable:
			return s.client.Runs.Apply(ctx, r.ID, client.RunApplyOptions{})
		case args[0] == "discard" && r.Actions.IsDiscardable:
			return s.client.Runs.Discard(ctx, r.ID, client.RunDiscardOptions{})
		}
	}
}
