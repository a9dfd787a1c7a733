package system

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// fleetOf is a configuration of machines whose names begin with the name of a workspace.
func fleetOf(workspace string, count, ms int) string {
	return strings.ReplaceAll(site.Slow(count, ms), `"a-$`, `"`+workspace+`-$`)
}

// writers write to a service until they are stopped, and record which writes it has acknowledged.
type writers struct {
	mu        sync.Mutex // guards the fields below
	variables []string
	serial    int
	stopped   bool
	group     sync.WaitGroup
}

// acknowledged returns the writes that were acknowledged until now.
func (w *writers) acknowledged() (variables []string, serial int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.variables...), w.serial
}

func (w *writers) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped
}

func (w *writers) stop() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.group.Wait()
}

// setVariables creates variables of a workspace, one after the other.
func (w *writers) setVariables(t *testing.T, v *site.Service, space *client.Workspace, prefix string) {
	category := client.CategoryEnv
	for i := 0; !w.over(); i++ {
		name := fmt.Sprintf("%s_%d", prefix, i)
		if _, err := v.Client.Variables.Create(t.Context(), space.ID, client.VariableCreateOptions{Key: &name,
			Value: &name, Category: &category}); err != nil {
			t.Errorf("creating a variable: %v", err)
			return
		}
		w.mu.Lock()
		w.variables = append(w.variables, name)
		w.mu.Unlock()
	}
}

// writeState writes one version of a state after the other, with the protocol of the http backend.
func (w *writers) writeState(t *testing.T, v *site.Service) {
	for serial := 1; !w.over(); serial++ {
		text := fmt.Sprintf(`{"version":4,"serial":%d,"lineage":"l","outputs":{},"resources":[],"pad":%q}`, serial,
			strings.Repeat("x", 100_000))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, v.Address+"/state/main/plain",
			strings.NewReader(text))
		if err != nil {
			t.Error(err)
			return
		}
		r.SetBasicAuth("any", v.Token)
		answer, err := v.HTTP.Do(r)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("writing a state: %v, %v", err, answer)
			return
		}
		answer.Body.Close()
		w.mu.Lock()
		w.serial = serial
		w.mu.Unlock()
	}
}

// The only backup of a service was a copy of its directory after it had stopped. When backups of a running service
// existed, a restored service continued the runs of the backup, although the old service had finished them after the
// backup: all machines of a workspace were created twice.
func TestABackupUnderLoadHasEveryAcknowledgedWriteElsewhere(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	s.Server()
	s.Worker("default")
	v := s.Service()
	names := []string{"north", "east", "south", "west"}
	runs := map[string]*client.Run{}
	spaces := map[string]*client.Workspace{}
	for _, name := range names {
		spaces[name] = v.Workspace(name)
		runs[name] = v.Apply(spaces[name], fleetOf(name, 6, 800))
	}
	v.Workspace("plain")
	load := new(writers)
	for i, name := range names {
		load.group.Go(func() { load.setVariables(t, v, spaces[name], fmt.Sprintf("k%d", i)) })
	}
	load.group.Go(func() { load.writeState(t, v) })
	site.Eventually(t, "the runs and the writers are at work", func() bool {
		variables, serial := load.acknowledged()
		return s.Finished("create") > 2 && len(variables) > 20 && serial > 3
	})
	variables, serial := load.acknowledged()
	file := filepath.Join(t.TempDir(), "backup.tar")
	nats := s.NATS
	s.NATS, s.Env = "", v.Environ()
	s.Must("service", "backup", "-address="+v.Address, "-out="+file)
	load.stop()
	if err := v.Kill(); err != nil {
		t.Fatal(err)
	}

	home := t.TempDir()
	key, data := filepath.Join(v.Home, ".config", "millipede", "service.key"), filepath.Join(home, ".local", "share",
		"millipede")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(t.TempDir(), "part.tar")
	if err := os.WriteFile(part, whole[:len(whole)*2/3], 0o600); err != nil {
		t.Fatal(err)
	}
	restore := []string{"service", "restore", "-data=" + data, "-key-file=" + key}
	if r := s.Run(append(restore, "-in="+part)...); r.Code != 1 || !strings.Contains(r.Text, "its end is missing") {
		t.Errorf("restoring an incomplete backup: exit status %d:\n%s", r.Code, site.Tail(r.Text))
	}
	s.Must(append(restore, "-in="+file)...)
	if r := s.Run(append(restore, "-in="+file)...); r.Code != 1 || !strings.Contains(r.Text, "is not empty") {
		t.Errorf("restoring into a directory that is not empty: exit status %d:\n%s", r.Code, site.Tail(r.Text))
	}
	s.NATS, s.Env = nats, nil
	v.Move(home, "-key-file="+key)

	there := map[string]bool{}
	for _, name := range names {
		for page := 1; page > 0; {
			list, err := v.Client.Variables.List(t.Context(), spaces[name].ID, &client.VariableListOptions{
				ListOptions: client.ListOptions{PageNumber: page, PageSize: 100}})
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range list.Items {
				there[k.Key] = true
			}
			page = list.NextPage
		}
	}
	for _, name := range variables {
		if !there[name] {
			t.Errorf("the variable %s was acknowledged before the backup, but the restored service does not have it", name)
		}
	}
	if got := plainSerial(t, v); got < serial {
		t.Errorf("the restored state has the serial %d, but %d was acknowledged before the backup", got, serial)
	}
	for _, name := range names {
		settle(s, v, spaces[name], runs[name].ID)
	}
	if code, text := v.Ask(http.MethodGet, "halt", nil); code != http.StatusOK || !strings.Contains(text, "restored") {
		t.Errorf("the restored service is not drained: %d: %s", code, text)
	}
	if code, text := v.Ask(http.MethodDelete, "halt", nil); code != http.StatusNoContent {
		t.Errorf("lifting the drain: %d: %s", code, text)
	}
	for _, name := range names {
		// Machines that were created after the backup are imported, as a user does who has looked at the cloud.
		v.Ends(v.Apply(spaces[name], fleetOf(name, 6, 10)+imports(s, name, machines(t, v, spaces[name]))).ID,
			client.RunApplied)
		if got := machines(t, v, spaces[name]); len(got) != 6 {
			t.Errorf("the state of %s has %d machines", name, len(got))
		}
	}
	s.OnceEach("create")
	if n := len(s.Objects()); n != 24 {
		t.Errorf("the cloud has %d machines", n)
	}
}

// settle waits for the end of a run, and resolves its operations in doubt, as a user does who has looked at the cloud.
func settle(s *site.Site, v *site.Service, space *client.Workspace, run string) {
	s.T.Helper()
	site.Eventually(s.T, "the run has ended", func() bool {
		r, err := v.Client.Runs.Read(s.T.Context(), run)
		if err != nil {
			s.T.Fatal(err)
		}
		return site.Over(r.Status)
	})
	code, text := v.Ask(http.MethodGet, "workspaces/"+space.ID+"/doubts", nil)
	var left struct {
		Doubts []struct{ Address, Operation string }
	}
	if err := json.Unmarshal([]byte(text), &left); err != nil || code != http.StatusOK {
		s.T.Fatalf("%d: %s: %v", code, text, err)
	}
	ids := map[string]string{}
	for id := range s.Objects() {
		if name := site.NameOf(id); strings.HasPrefix(name, space.Name+"-") {
			ids[site.Machine(name)] = id
		}
	}
	for _, d := range left.Doubts {
		word := map[string]any{"address": d.Address, "not-created": true}
		if id := ids[d.Address]; id != "" {
			word = map[string]any{"address": d.Address, "created": id}
		}
		if code, text := v.Ask(http.MethodPost, "workspaces/"+space.ID+"/doubts", word); code != http.StatusOK {
			s.T.Errorf("%v: %d: %s", word, code, text)
		}
	}
}

// machines returns the names of the machines in the current state of a workspace; none if it has no state.
func machines(t *testing.T, v *site.Service, space *client.Workspace) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	current, err := v.Client.StateVersions.ReadCurrent(t.Context(), space.ID)
	if errors.Is(err, client.ErrResourceNotFound) {
		return out
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := v.Client.StateVersions.Download(t.Context(), current.DownloadURL)
	if err != nil {
		t.Fatal(err)
	}
	var st struct {
		Resources []struct {
			Instances []struct{ Attributes struct{ Name string } }
		}
	}
	if err := json.Unmarshal(text, &st); err != nil {
		t.Fatal(err)
	}
	for _, r := range st.Resources {
		for _, i := range r.Instances {
			out[i.Attributes.Name] = true
		}
	}
	return out
}

// imports returns import blocks for the machines of a workspace that are in the cloud, but not in the state.
func imports(s *site.Site, workspace string, known map[string]bool) string {
	var blocks strings.Builder
	for id := range s.Objects() {
		if name := site.NameOf(id); strings.HasPrefix(name, workspace+"-") && !known[name] {
			fmt.Fprintf(&blocks, "import {\n  to = %s\n  id = %q\n}\n", site.Machine(name), id)
		}
	}
	return blocks.String()
}

// plainSerial returns the serial of the state that writeState writes.
func plainSerial(t *testing.T, v *site.Service) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, v.Address+"/state/main/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("any", v.Token)
	answer, err := v.HTTP.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var st struct{ Serial int }
	if err := json.NewDecoder(answer.Body).Decode(&st); err != nil {
		t.Fatal(err)
	}
	return st.Serial
}
