package system

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// The data of a service were gone with its disk: there was nothing but the last backup.
func TestAServiceOfAGroupComesBackFromTheLogWithoutItsData(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	s.Server()
	s.Worker("default")
	v := s.Service("-group=prod")
	space := v.Workspace("one")
	v.Ends(v.Apply(space, site.Slow(3, 10)).ID, client.RunApplied)

	w := &writers{}
	for _, prefix := range []string{"a", "b"} {
		w.group.Go(func() { w.setUntilKilled(t, v, space, prefix) })
	}
	site.Eventually(t, "changes are acknowledged", func() bool {
		variables, _ := w.acknowledged()
		return len(variables) >= 40
	})
	if err := v.Kill(); err != nil {
		t.Fatal(err)
	}
	w.stop()
	variables, _ := w.acknowledged()
	if err := os.RemoveAll(v.Data); err != nil {
		t.Fatal(err)
	}
	v.Start()
	v.Connect() // the token is in the records; the authority of certificates is a new one

	list, err := v.Client.Variables.List(t.Context(), space.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, one := range list.Items {
		there[one.Key] = true
	}
	for _, name := range variables {
		if !there[name] {
			t.Errorf("the variable %s was acknowledged, and is gone", name)
		}
	}
	// the state of the workspace is in its store: nothing is created a second time
	v.Ends(v.Apply(space, site.Slow(3, 10)).ID, client.RunPlannedAndFinished)
	v.Ends(v.Apply(space, site.Slow(5, 10)).ID, client.RunApplied)
	s.CreatedOnce(5)
	if code, text := v.Ask(http.MethodGet, "workspaces/"+space.ID+"/doubts", nil); code != http.StatusOK ||
		!strings.Contains(text, `"doubts":[]`) {
		t.Errorf("%d: %s", code, text)
	}
}

// setUntilKilled creates variables until the service is gone.
func (w *writers) setUntilKilled(t *testing.T, v *site.Service, space *client.Workspace, prefix string) {
	category := client.CategoryEnv
	for i := 0; !w.over(); i++ {
		name := fmt.Sprintf("%s_%d", prefix, i)
		if _, err := v.Client.Variables.Create(t.Context(), space.ID, client.VariableCreateOptions{Key: &name,
			Value: &name, Category: &category}); err != nil {
			return
		}
		w.mu.Lock()
		w.variables = append(w.variables, name)
		w.mu.Unlock()
	}
}

// A copy was taken for the data of a single service, which a member of a group would have removed.
func TestTheDataOfASingleServiceAreNotTakenForACopyOfAGroup(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	s.Server()
	v := s.Service()
	if err := v.Kill(); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(filepath.Join(v.Data, "service.db"))
	if err != nil {
		t.Fatal(err)
	}
	c := s.Command("serve", "-listen=127.0.0.1:0", "-group=prod", "-data="+v.Data)
	c.Env = append(c.Env, "HOME="+v.Home)
	p := site.Started(t, "a member", c)
	if code := site.Exit(t, p); code != 1 {
		t.Errorf("the exit status is %d", code)
	}
	site.Wants(t, p.Output(), "has the data of a service without a group")
	if after, err := os.Stat(filepath.Join(v.Data, "service.db")); err != nil || after.Size() != before.Size() {
		t.Errorf("%v, %v", after, err)
	}
}

// A member with another key would have made a copy of nothing, and a service without records.
func TestAMemberNeedsTheKeyOfItsGroup(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	s.Server()
	v := s.Service("-group=prod", "-member=m1")
	stranger := s.NewService("-group=prod", "-member=m2")
	stranger.Begin()
	if code := site.Exit(t, stranger.Process); code != 1 {
		t.Errorf("the exit status without the key is %d", code)
	}
	site.Wants(t, strings.Join(strings.Fields(stranger.Output()), " "), "give the key file of the group with -key-file")
	v.Workspace("one") // it still answers
}

// Two processes with one name would each have taken what was handed over to that member.
func TestTwoProcessesAreNotTheSameMember(t *testing.T) {
	t.Parallel()
	s := site.New(t, "")
	s.Server()
	v := s.Service("-group=prod", "-member=m1")
	other := s.NewService("-group=prod", "-member=m1")
	site.ShareKey(t, v, other)
	other.Begin()
	if code := site.Exit(t, other.Process); code != 1 {
		t.Errorf("the exit status is %d", code)
	}
	site.Wants(t, strings.Join(strings.Fields(other.Output()), " "), "another process is this member of the group",
		"Give each process a name of its own (-member)")
	v.Workspace("one")
}
