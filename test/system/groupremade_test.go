package system

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// remake executes a command that makes the log of a group from the data of a stopped service.
func remake(t *testing.T, s *site.Site, v *site.Service, args ...string) string {
	t.Helper()
	args = append(args, "-group=prod", "-data="+v.Data, "-key-file="+filepath.Join(v.Home, ".config", "millipede",
		"service.key"))
	p := site.Started(t, "coordinator "+strings.Join(args, " "), s.Command(args...))
	if code := site.Exit(t, p); code != 0 {
		t.Fatalf("the exit status is %d: %s", code, p.Output())
	}
	return p.Output()
}

// A single service could become a group only by beginning anew.
func TestTheDataOfASingleServiceBecomeAGroup(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	s.Server()
	s.Worker("default")
	v := s.Service()
	space := v.Workspace("one")
	run := v.Apply(space, site.Slow(3, 10))
	v.Ends(run.ID, client.RunApplied)
	before := v.Logs(run)
	if err := v.Kill(); err != nil {
		t.Fatal(err)
	}
	site.Wants(t, remake(t, s, v, "group", "adopt"), "The log has 1 stores of workspaces")
	if err := os.RemoveAll(v.Data); err != nil { // everything is in the log
		t.Fatal(err)
	}
	v.Add("-group=prod", "-member=m1")
	v.Start()
	v.Connect()
	if after := v.Logs(run); after != before {
		t.Errorf("the log of the run is %q, and was %q", after, before)
	}
	v.Ends(v.Apply(space, site.Slow(3, 10)).ID, client.RunPlannedAndFinished)
	v.Ends(v.Apply(space, site.Slow(4, 10)).ID, client.RunApplied)
	s.CreatedOnce(4)
}

// When the log of a group was lost, its data were, too, although each member had a copy.
func TestAGroupGoesOnWithTheCopiesOfOneMember(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	server := s.Server()
	s.Worker("default")
	all := members(t, s, 2)
	space := all[0].Workspace("one")
	all[0].Ends(all[0].Apply(space, site.Slow(2, 10)).ID, client.RunApplied)
	run := all[0].Apply(space, site.Slow(8, 1500))
	applies(t, all[0], run.ID)
	site.Eventually(t, "a machine is being created", func() bool { return len(s.Cut("")) > 0 })
	for _, v := range all {
		if err := v.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.Kill(); err != nil { // with everything that it has stored
		t.Fatal(err)
	}
	if err := os.RemoveAll(s.Store); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(site.Waiting(t)); err != nil {
		t.Fatal(err)
	}
	remake(t, s, all[0], "group", "recover", "-auto-approve")
	all[0].Start()
	all[0].Connect()
	if w, err := all[0].Client.Workspaces.ReadByID(t.Context(), space.ID); err != nil || w.Name != "one" {
		t.Errorf("%v, %v", w, err)
	}
	site.Eventually(t, "the run that had not ended is settled", func() bool {
		r, err := all[0].Client.Runs.Read(t.Context(), run.ID)
		return err == nil && site.Over(r.Status)
	})
	if code, text := all[0].Ask(http.MethodGet, "workspaces/"+space.ID+"/doubts", nil); code != http.StatusOK ||
		!strings.Contains(text, `"operation":"create"`) {
		t.Errorf("what was under way is not in doubt: %d: %s", code, text)
	}
	s.OnceEach("create")

	all[1].Begin() // its copy is of before
	if code := site.Exit(t, all[1].Process); code != 1 {
		t.Errorf("the exit status of the other member is %d", code)
	}
	if err := os.RemoveAll(all[1].Data); err != nil {
		t.Fatal(err)
	}
	all[1].Start()
	all[1].Connect()
	if w, err := all[1].Client.Workspaces.ReadByID(t.Context(), space.ID); err != nil || w.Name != "one" {
		t.Errorf("through the other member: %v, %v", w, err)
	}
}
