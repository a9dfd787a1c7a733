package system

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// members starts the members of a group: the first one leads.
func members(t *testing.T, s *site.Site, n int) []*site.Service {
	t.Helper()
	all := []*site.Service{s.Service("-group=prod", "-member=m1")}
	for i := 1; i < n; i++ {
		v := s.NewService("-group=prod", "-member=m"+string(rune('1'+i)))
		site.ShareKey(t, all[0], v)
		v.Begin()
		line, err := v.Await(site.Waiting(t), "tofu login ")
		if err != nil {
			t.Fatal(err)
		}
		v.Address, v.Token = "https://"+strings.TrimPrefix(strings.TrimSpace(line), "tofu login "), all[0].Token
		v.Connect()
		all = append(all, v)
	}
	return all
}

// applies waits until a run applies.
func applies(t *testing.T, v *site.Service, id string) {
	t.Helper()
	site.Eventually(t, "the run applies", func() bool {
		r, err := v.Client.Runs.Read(t.Context(), id)
		return err == nil && r.Status == client.RunApplying
	})
}

// If the machine of a service was lost, every workspace waited for a restored backup.
func TestAMemberTakesOverWhenTheLeaderDies(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	s.Server()
	s.Worker("default")
	all := members(t, s, 3)
	space := all[1].Workspace("one") // through a member that does not lead
	run := all[2].Apply(space, site.Slow(12, 700))
	applies(t, all[1], run.ID)
	began := time.Now()
	if err := all[0].Kill(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(all[0].Data); err != nil { // the machine is lost with its disk
		t.Fatal(err)
	}
	if _, err := all[1].Client.Workspaces.ReadByID(t.Context(), space.ID); err != nil {
		t.Errorf("a request while nobody leads: %v", err)
	}
	t.Logf("answered again after %v", time.Since(began))
	all[2].Ends(run.ID, client.RunApplied)
	s.CreatedOnce(12)
	if code, text := all[1].Ask(http.MethodGet, "workspaces/"+space.ID+"/doubts", nil); code != http.StatusOK ||
		!strings.Contains(text, `"doubts":[]`) {
		t.Errorf("%d: %s", code, text)
	}
	// the lost member comes back with an empty disk, and follows
	all[0].Env = nil
	site.ShareKey(t, all[1], all[0])
	all[0].Start()
	all[0].Connect()
	all[0].Ends(all[0].Apply(space, site.Slow(14, 10)).ID, client.RunApplied)
	s.CreatedOnce(14)
}

// A paused process that went on had two services write the same records.
func TestALeaderThatWasFrozenFollows(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	s.Server()
	s.Worker("default")
	all := members(t, s, 2)
	space := all[1].Workspace("one")
	run := all[1].Apply(space, site.Slow(8, 700))
	applies(t, all[1], run.ID)
	if err := all[0].Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	all[1].Ends(run.ID, client.RunApplied)
	s.CreatedOnce(8)
	if err := all[0].Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if w, err := all[0].Client.Workspaces.ReadByID(t.Context(), space.ID); err != nil || w.Name != "one" {
		t.Errorf("the former leader answers %v, %v", w, err)
	}
	category, name := client.CategoryEnv, "later"
	if _, err := all[0].Client.Variables.Create(t.Context(), space.ID, client.VariableCreateOptions{Key: &name,
		Value: &name, Category: &category}); err != nil {
		t.Errorf("a change through the former leader: %v", err)
	}
	select {
	case <-all[0].Done():
		t.Error("the former leader has ended")
	default:
	}
}

// An upgrade was a pause.
func TestALeaderThatEndsHandsTheLeadOver(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	s.Server()
	s.Worker("default")
	all := members(t, s, 2)
	space := all[1].Workspace("one")
	run := all[1].Apply(space, site.Slow(8, 500))
	applies(t, all[1], run.ID)
	began := time.Now()
	if err := all[0].Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	site.Eventually(t, "the other member leads", func() bool {
		return strings.Contains(all[1].Output(), "this member leads the group")
	})
	t.Logf("handed over after %v", time.Since(began))
	if _, err := all[1].Client.Workspaces.ReadByID(t.Context(), space.ID); err != nil {
		t.Error(err)
	}
	if code := site.Exit(t, all[0].Process); code != 0 {
		t.Errorf("the exit status is %d", code)
	}
	all[1].Ends(run.ID, client.RunApplied)
	s.CreatedOnce(8)
	if _, err := os.Stat(filepath.Join(all[1].Data, "workspaces", space.ID)); err != nil {
		t.Error(err)
	}
}
