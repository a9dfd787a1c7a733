package system

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// showsEnvironment is a configuration with a provisioner that writes some variables of its environment to a file.
const showsEnvironment = `
resource "terraform_data" "a" {
  provisioner "local-exec" {
    command = "echo \"[$TRAVELS_KEY] [$TRAVELS_TOO] [$STAYS] [$MINE] [$TF_VAR_x] [$MILLIPEDE_NATS]\" > %s/seen"
  }
}
`

const travellingSecret = "sealed-7c1e0f"

// commandOf creates a site whose coordinator has variables in its environment; millipede.hcl names some of them.
func commandOf(t *testing.T) *site.Site {
	s := site.New(t, "")
	s.Write("main.tf", fmt.Sprintf(showsEnvironment, s.Cloud))
	s.Write("millipede.hcl", `environment = ["TRAVELS_*", "MINE"]`+"\n")
	s.Server()
	return s
}

var travelling = []string{"TRAVELS_KEY=" + travellingSecret, "TRAVELS_TOO=2", "STAYS=here",
	"MINE=the coordinator's", "TF_VAR_x=v"}

func TestARemoteWorkerGetsOnlyTheNamedVariablesAndGetsThemEncrypted(t *testing.T) {
	t.Parallel()
	s := commandOf(t)
	w := s.NewWorker("default")
	w.Env = []string{"MINE=the worker's"}
	w.Start()
	s.Env = append(s.Env, travelling...)
	s.Must("init")
	s.Must("apply", "-auto-approve")
	seen, err := os.ReadFile(filepath.Join(s.Cloud, "seen"))
	if want := "[" + travellingSecret + "] [2] [] [the coordinator's] [] []\n"; err != nil || string(seen) != want {
		t.Errorf("the provisioner's environment was %q, not %q: %v", seen, want, err)
	}
	files := 0
	err = filepath.WalkDir(s.Store, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files++
		if bytes.Contains(text, []byte(travellingSecret)) || bytes.Contains(text, []byte("TRAVELS_KEY")) {
			t.Errorf("%s has the secret in plain text", path)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files of streams were searched: %v", files, err)
	}
}

// Without the diagnostic, the operation would wait for ever for a suitable worker, or run with another identity.
func TestAWorkerThatIgnoresTheCoordinatorsEnvironmentIsADiagnostic(t *testing.T) {
	t.Parallel()
	s := commandOf(t)
	w := s.NewWorker("default")
	w.Args = []string{"-environment=own"}
	w.Start()
	s.Must("init")
	s.Env = append(s.Env, travelling...)
	r := s.Run("apply", "-auto-approve", "-no-color")
	if r.Code != 1 {
		t.Errorf("exit status %d", r.Code)
	}
	site.Wants(t, r.Text, "-environment=own", w.ID)
	if _, err := os.Stat(filepath.Join(s.Cloud, "seen")); err == nil {
		t.Error("the provisioner ran")
	}
	s.Write("millipede.hcl", "")
	s.Must("apply", "-auto-approve")
}
