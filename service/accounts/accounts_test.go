package accounts_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/accounts"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/work"
)

func TestATokenThatIsUnknownExpiredOrRevokedOpensNothing(t *testing.T) {
	h := servicetest.New(t)
	for _, token := range []string{"", "nosuch", h.Token + "x"} {
		if _, err := h.Tokens.Authenticate(token, ""); !errors.Is(err, tables.ErrUnauthorized) {
			t.Errorf("%q: %v", token, err)
		}
	}
	token, kept, err := h.Tokens.Create(h.Admin, record.TokenOrganization, "acme", "", time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	org := h.Actor(token)
	if _, err := h.Workspaces.Create(org, "acme", service.WorkspaceSettings{Name: servicetest.Ptr("new")}); err != nil {
		t.Errorf("an organization's token: %v", err)
	}
	if err := h.Tokens.Delete(org, kept.ID); !errors.Is(err, tables.ErrNotFound) {
		t.Errorf("the token revokes itself: %v", err)
	}
	if err := h.Tokens.Delete(h.Admin, kept.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Tokens.Authenticate(token, ""); !errors.Is(err, tables.ErrUnauthorized) {
		t.Errorf("revoked: %v", err)
	}
	if _, _, err := h.Tokens.Create(h.Admin, record.TokenOrganization, "acme", "",
		time.Now().Add(-time.Hour)); !errors.Is(err, tables.ErrInvalid) {
		t.Errorf("an expired token: %v", err)
	}
}

func TestAnInvitationBecomesAMembershipWhenThereIsTheUser(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	team := must(h.Teams.Create(h.Admin, record.Team{Organization: "acme", Name: "devs"}))
	must(h.TeamAccess.Create(h.Admin, record.Access{Team: team.ID, On: w.ID, Role: "read"}))
	m := must(h.Memberships.Invite(h.Admin, "acme", "bob@example.com", []string{team.ID}))
	if m.Person != nil {
		t.Errorf("%+v", m)
	}
	if _, err := h.Memberships.Invite(h.Admin, "acme", "Bob@example.com", nil); !errors.Is(err, tables.ErrInvalid) {
		t.Errorf("a second invitation: %v", err)
	}
	bob := must(h.Users.Create(h.Admin, "bob", "bob@example.com", false))
	token, _, err := h.Tokens.Create(h.Admin, record.TokenUser, bob.ID, "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Workspaces.Find(h.Actor(token), w.ID); err != nil {
		t.Errorf("the invited user is not in the team: %v", err)
	}
	// Teams and invitations name people by their addresses: users must not be able to set their own.
	if _, err := h.Users.ChangeMe(h.Actor(token), nil, servicetest.Ptr("boss@example.com")); !errors.Is(err,
		tables.ErrForbidden) {
		t.Errorf("a user sets their own address: %v", err)
	}
	if err := h.Memberships.Expel(h.Admin, m.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Organizations.Find(h.Actor(token), "acme"); !errors.Is(err, tables.ErrNotFound) {
		t.Errorf("the removed user still sees the organization: %v", err)
	}
	owner := must(h.Memberships.List(h.Admin, "acme"))
	if err := h.Memberships.Expel(h.Admin, owner[0].ID); !errors.Is(err, tables.ErrInvalid) {
		t.Errorf("removing the last owner: %v", err)
	}
}

// The service had a kind of tokens for runs, but created none: a run could read other states of the service only if a
// person's token was among its variables.
func TestTheTokenOfARunReadsWhatItsWorkspaceMayReadAndEndsWithIt(t *testing.T) {
	h := servicetest.New(t)
	mine, shared, other := h.NewWorkspace("mine"), h.NewWorkspace("shared"), h.NewWorkspace("other")
	for _, w := range []*service.WorkspaceView{mine, shared, other} { // each has a state
		r := h.NewRun(w, func(r *record.Run) { r.AutoApply = true })
		h.Await(r.ID, record.Applied)
	}
	consumers := func([]string) []string { return []string{mine.ID} }
	if err := h.Workspaces.ChangeConsumers(h.Admin, shared.ID, consumers); err != nil {
		t.Fatal(err)
	}
	environ := make(chan []string, 1)
	resume := make(chan struct{})
	h.Engine.PlanFunc = servicetest.PlanThen(func(j *work.Job) {
		environ <- j.Environment
		<-resume
		_, _ = io.WriteString(j.Log, strings.Join(j.Environment, " "))
	})
	r := h.NewRun(mine, nil)
	token := ""
	for _, entry := range <-environ {
		if value, ok := strings.CutPrefix(entry, "ATLAS_TOKEN="); ok {
			token = value
		}
	}
	a := h.Actor(token)
	for w, reads := range map[string]bool{mine.ID: true, shared.ID: true, other.ID: false} {
		if _, err := h.States.Current(a, w); errors.Is(err, tables.ErrNotFound) == reads {
			t.Errorf("the state of %s: %v", w, err)
		}
	}
	for what, err := range map[string]error{
		"a lock":      second(h.Workspaces.Lock(a, mine.ID, "")),
		"a variable":  second(h.Variables.List(a, mine.ID)),
		"a run":       second(h.Runs.Create(a, mine.ID, record.Run{Refresh: true})),
		"its own run": second(h.Runs.Find(a, r.ID)),
		"a state":     h.States.MayCreate(a, mine.ID),
		"its own end": h.Runs.Confirm(a, r.ID, ""),
	} {
		if err == nil {
			t.Errorf("the token of the run permits more: %s", what)
		}
	}
	close(resume)
	v := h.Await(r.ID, record.Planned)
	log, err := h.Logs.Read(t.Context(), h.Logs.Address(&v.Plan), 0, 10_000)
	if err != nil || strings.Contains(string(log), token) {
		t.Errorf("the log shows the token: %q, %v", log, err)
	}
	if _, err := h.Tokens.Authenticate(token, ""); !errors.Is(err, tables.ErrUnauthorized) {
		t.Errorf("the token is valid after the phase: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestTheVariableOfATokenIsNamedAfterItsHost(t *testing.T) {
	for host, want := range map[string]string{
		"app.example-1.com": "TF_TOKEN_app_example__1_com", "localhost:8443": "TF_TOKEN_localhost:8443",
	} {
		if got := accounts.TokenVariable(host); got != want {
			t.Errorf("%s: %s", host, got)
		}
	}
}

// must returns a value of a call that cannot fail in a test.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
