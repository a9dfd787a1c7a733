package service_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/accounts"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/work"
)

// member creates a user with a token, in a team with a role on a workspace or a project.
func member(t *testing.T, h *servicetest.Harness, name, role, on string) *rights.Actor {
	t.Helper()
	u, err := h.Users.Create(h.Admin, name, "", false)
	if err != nil {
		t.Fatal(err)
	}
	team, err := h.Teams.Create(h.Admin, record.Team{Organization: "acme", Name: "team-" + name})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Teams.ChangeMembers(h.Admin, team.ID, []string{name}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := h.TeamAccess.Create(h.Admin, record.Access{Team: team.ID, On: on, Role: role}); err != nil {
		t.Fatal(err)
	}
	token, _, err := h.Tokens.Create(h.Admin, record.TokenUser, u.ID, "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return h.Actor(token)
}

func TestNobodySeesWhatIsNotTheirs(t *testing.T) {
	h := servicetest.New(t)
	mine, other := h.NewWorkspace("mine"), h.NewWorkspace("other")
	a := member(t, h, "ann", "write", mine.ID)
	for what, try := range map[string]func() error{
		"the workspace": func() error { _, err := h.Workspaces.Find(a, other.ID); return err },
		"by its name":   func() error { _, err := h.Workspaces.Named(a, "acme", "other"); return err },
		"its variables": func() error { _, err := h.Variables.List(a, other.ID); return err },
		"its runs":      func() error { _, err := h.Runs.List(a, other.ID, 1); return err },
		"its state":     func() error { _, err := h.States.Current(a, other.ID); return err },
		"its lock":      func() error { _, err := h.Workspaces.Lock(a, other.ID, ""); return err },
		"a run":         func() error { _, err := h.Runs.Create(a, other.ID, record.Run{}); return err },
		"its deletion":  func() error { return h.Workspaces.Delete(a, other.ID, false) },
	} {
		if err := try(); !errors.Is(err, tables.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	all, err := h.Workspaces.List(a, "acme", service.WorkspaceFilter{})
	if err != nil || len(all) != 1 || all[0].ID != mine.ID {
		t.Errorf("the list has %d, %v", len(all), err)
	}
	if _, err := h.Workspaces.Create(a, "acme", service.WorkspaceSettings{Name: servicetest.Ptr("new")}); !errors.Is(err,
		tables.ErrForbidden) {
		t.Errorf("a new workspace: %v", err)
	}
	if _, err := h.Organizations.Find(a, "nosuch"); !errors.Is(err, tables.ErrNotFound) {
		t.Errorf("another organization: %v", err)
	}
}

func TestARoleAllowsWhatItSaysAndNoMore(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	r := h.NewRun(w, nil)
	h.Await(r.ID, record.Planned)
	reader, planner, writer := member(t, h, "reader", "read", w.ID), member(t, h, "planner", "plan", w.ID),
		member(t, h, "writer", "write", w.ID)
	attempts := []struct {
		what  string
		try   func(*rights.Actor) error
		needs string
	}{
		{"read a run", func(a *rights.Actor) error { _, err := h.Runs.Find(a, r.ID); return err }, "read"},
		{"read variables", func(a *rights.Actor) error { _, err := h.Variables.List(a, w.ID); return err }, "read"},
		{"queue a run", func(a *rights.Actor) error {
			_,
				err := h.Runs.Create(a, w.ID, record.Run{Refresh: true})
			return err
		}, "plan"},
		{"queue one that applies by itself", func(a *rights.Actor) error {
			_, err := h.Runs.Create(a, w.ID, record.Run{Refresh: true, AutoApply: true})
			return err
		}, "write"},
		{"set a variable", func(a *rights.Actor) error {
			_, err := h.Variables.Put(a, w.ID, "", service.VariableSettings{Key: servicetest.Ptr("k" + a.User.Name)})
			return err
		}, "write"},
		{"delete the workspace", func(a *rights.Actor) error { return h.Workspaces.Delete(a, w.ID, true) }, "admin"},
		{"change settings", func(a *rights.Actor) error {
			_, err := h.Workspaces.Change(a, w.ID, service.WorkspaceSettings{AutoApply: servicetest.Ptr(true)})
			return err
		}, "admin"},
		{"grant access", func(a *rights.Actor) error {
			_, err := h.TeamAccess.Create(a, record.Access{Team: "team-x", On: w.ID, Role: "admin"})
			return err
		}, "admin"},
		{"confirm", func(a *rights.Actor) error { return h.Runs.Confirm(a, r.ID, "") }, "write"},
	}
	rank := map[string]int{"read": 0, "plan": 1, "write": 2, "admin": 3}
	for role, a := range map[string]*rights.Actor{"read": reader, "plan": planner, "write": writer} {
		for _, try := range attempts {
			err := try.try(a)
			if allowed := rank[role] >= rank[try.needs]; allowed == errors.Is(err, tables.ErrForbidden) {
				t.Errorf("%s may %s: %v", role, try.what, err)
			}
		}
	}
}

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

func TestWhatWasChangedAndRefusedIsInTheAuditLog(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	a := member(t, h, "ann", "read", w.ID)
	_ = h.Workspaces.Delete(a, w.ID, false)
	lines, err := h.Audit.Latest(h.Admin, 1)
	if err != nil || len(lines) != 1 || lines[0].Actor != "ann" || lines[0].Action != "workspace.delete" ||
		!strings.HasPrefix(lines[0].Outcome, "refused") || lines[0].From != "test" {
		t.Errorf("%+v, %v", lines, err)
	}
	if _, err := h.Audit.Latest(a, 1); !errors.Is(err, tables.ErrForbidden) {
		t.Error(err)
	}
}

func TestSensitiveVariablesAreNeverReadBack(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	v, err := h.Variables.Put(h.Admin, w.ID, "", service.VariableSettings{Key: servicetest.Ptr("secret"),
		Value: servicetest.Ptr("canary"), Sensitive: servicetest.Ptr(true)})
	if err != nil || v.Value != "" {
		t.Fatalf("%+v, %v", v, err)
	}
	if v, err = h.Variables.Put(h.Admin, w.ID, v.ID,
		service.VariableSettings{Description: servicetest.Ptr("d")}); err != nil || v.Value != "" {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := h.Variables.Put(h.Admin, w.ID, v.ID,
		service.VariableSettings{Sensitive: servicetest.Ptr(false)}); !errors.Is(err, tables.ErrInvalid) {
		t.Errorf("making a sensitive variable readable: %v", err)
	}
	var got []work.Value
	done := make(chan struct{})
	h.Engine.PlanFunc = nil
	h.Engine.ApplyFunc = nil
	h.Engine.PlanFunc = servicetest.PlanThen(func(j *work.Job) { got = j.Variables; close(done) })
	h.NewRun(w, nil)
	<-done
	if len(got) != 1 || got[0].Text != "canary" || !got[0].Sensitive {
		t.Errorf("the run got %+v", got)
	}
}

func TestTheLastVariableWins(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	set := func(parent, value, category string) {
		t.Helper()
		for _, key := range []string{"all", parent[:4]} {
			if _, err := h.Variables.Put(h.Admin, parent, "", service.VariableSettings{Key: &key, Value: &value,
				Category: &category}); err != nil {
				t.Fatal(err)
			}
		}
	}
	global, err := h.VariableSets.Create(h.Admin, record.VariableSet{Organization: "acme", Name: "global", Global: true})
	if err != nil {
		t.Fatal(err)
	}
	own, err := h.VariableSets.Create(h.Admin, record.VariableSet{Organization: "acme", Name: "own"})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.VariableSets.Assign(h.Admin, own.ID, []string{w.ID}, nil, false); err != nil {
		t.Fatal(err)
	}
	results := make(chan *work.Job, 1)
	h.Engine.PlanFunc = servicetest.PlanThen(func(j *work.Job) { results <- j })
	check := func(who, all, env string, change func(*record.Run)) {
		t.Helper()
		r := h.NewRun(w, change)
		j := <-results
		text := ""
		for _, v := range j.Variables {
			if v.Name == "all" {
				text = v.Text
			}
		}
		if text != all || !strings.Contains(strings.Join(j.Environment, " "), env) {
			t.Errorf("%s: %q, %v", who, text, j.Environment)
		}
		h.Await(r.ID, record.Planned)
		if err := h.Runs.Discard(h.Admin, r.ID, ""); err != nil {
			t.Fatal(err)
		}
	}
	set(global.ID, "from global", "terraform")
	set(global.ID, "from global", "env")
	check("a global set", "from global", "all=from global", nil)
	set(own.ID, "from own", "terraform")
	check("a set of the workspace", "from own", "all=from global", nil)
	set(w.ID, "from workspace", "terraform")
	set(w.ID, "from workspace", "env")
	check("the workspace", "from workspace", "all=from workspace", nil)
	check("the run", `"from run"`, "",
		func(r *record.Run) { r.Variables = []record.Argument{{Key: "all", Value: `"from run"`}} })
	if _, err := h.VariableSets.Change(h.Admin, global.ID, func(v *record.VariableSet) error {
		v.Priority = true
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	check("a set with priority", "from global", "all=from global", func(r *record.Run) {
		r.Variables = []record.Argument{{Key: "all", Value: `"from run"`}}
	})
}

func TestAStateFollowsTheCurrentOne(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	state := func(serial int, lineage, more string) []byte {
		return []byte(strings.NewReplacer("SERIAL", string(rune('0'+serial)), "LINEAGE", lineage, "MORE", more).Replace(
			`{"version":4,"serial":SERIAL,"lineage":"LINEAGE","outputs":{"s":{"value":"x","type":"string","sensitive":true}},` +
				`"resources":[{"mode":"managed","instances":[{},{}]}],"more":"MORE"}`))
	}
	push := func(serial int, lineage, more string, force bool) error {
		data := state(serial, lineage, more)
		_, err := h.States.Create(h.Admin, w.ID, service.NewState{
			Serial: uint64(serial), Lineage: lineage, MD5: service.Sum(data), State: data, Force: force, //nolint:gosec // small
		})
		return err
	}
	if err := push(1, "l", "", false); !errors.Is(err, tables.ErrConflict) {
		t.Errorf("without a lock: %v", err)
	}
	if _, err := h.Workspaces.Lock(h.Admin, w.ID, ""); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what   string
		err    error
		refuse bool
	}{
		{"the first", push(2, "l", "", false), false},
		{"the same again", push(2, "l", "", false), false},
		{"another with its serial", push(2, "l", "other", false), true},
		{"a lower serial", push(1, "l", "", false), true},
		{"another lineage", push(3, "other", "", false), true},
		{"a gap", push(7, "l", "", false), false},
		{"forced", push(3, "other", "", true), false},
	} {
		if errors.Is(c.err, tables.ErrConflict) != c.refuse || !c.refuse && c.err != nil {
			t.Errorf("%s: %v", c.what, c.err)
		}
	}
	data := state(9, "other", "")
	v, err := h.States.Create(h.Admin, w.ID, service.NewState{Serial: 9, Lineage: "other", MD5: service.Sum(data)})
	if err != nil {
		t.Fatal(err)
	}
	if now, err := h.States.Current(h.Admin, w.ID); err != nil || now.Serial != 3 {
		t.Errorf("before the content was uploaded: %+v, %v", now, err)
	}
	if err := h.States.Upload(v.Secret, strings.NewReader("something else"), -1); !errors.Is(err, tables.ErrInvalid) {
		t.Errorf("uploading another content: %v", err)
	}
	if err := h.States.Upload(v.Secret, bytes.NewReader(data), -1); !errors.Is(err, tables.ErrConflict) {
		t.Errorf("uploading the content of a discarded version: %v", err)
	}
	now, err := h.States.Current(h.Admin, w.ID)
	if err != nil || now.Serial != 3 || now.Resources != 2 || !now.Outputs[0].Sensitive {
		t.Errorf("%+v, %v", now, err)
	}
	if got, _, err := h.StateText(h.Admin, now.ID); err != nil || !bytes.Equal(got, state(3, "other", "")) {
		t.Errorf("%q, %v", got, err)
	}
	if err := h.Workspaces.Delete(h.Admin, w.ID, true); !errors.Is(err, tables.ErrConflict) ||
		!strings.Contains(err.Error(), "locked") {
		t.Errorf("deleting a locked workspace: %v", err)
	}
}

func TestArchivesAreBounded(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	for what, data := range map[string][]byte{"no archive": []byte("hello"),
		"too large": bytes.Repeat([]byte("x"), 1<<20+1)} {
		c, err := h.Configurations.Create(h.Admin, w.ID, record.Configuration{Source: what})
		if err != nil {
			t.Fatal(err)
		}
		err = h.Configurations.Upload(c.Secret, bytes.NewReader(data), -1)
		if !errors.Is(err, tables.ErrInvalid) && !errors.Is(err, tables.ErrTooLarge) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := h.Runs.Create(h.Admin, w.ID, record.Run{Configuration: c.ID}); !errors.Is(err, tables.ErrInvalid) {
			t.Errorf("a run of %s: %v", what, err)
		}
	}
}

// Every member of an organization could read all of its variable sets, projects and teams: a token for one workspace
// could read the variables of others, and the members of a secret team.
func TestWhoHasOneWorkspaceReadsNothingThatBelongsToOthers(t *testing.T) {
	h := servicetest.New(t)
	other := must(h.Projects.Create(h.Admin, record.Project{Organization: "acme", Name: "other"}))
	theirs := must(h.Workspaces.Create(h.Admin, "acme", service.WorkspaceSettings{
		Name: servicetest.Ptr("theirs"), Project: &other.ID,
	}))
	mine := h.NewWorkspace("mine")
	a := member(t, h, "ann", "write", mine.ID)
	set := func(name string, workspaces, projects []string, global bool) *record.VariableSet {
		return must(h.VariableSets.Create(h.Admin, record.VariableSet{
			Organization: "acme", Name: name, Workspaces: workspaces, Projects: projects, Global: global,
		}))
	}
	for set, reads := range map[*record.VariableSet]bool{
		set("of theirs", []string{theirs.ID}, nil, false):       false,
		set("of their project", nil, []string{other.ID}, false): false,
		set("of nobody", nil, nil, false):                       false,
		set("of mine", []string{mine.ID}, nil, false):           true,
		set("of everybody", nil, nil, true):                     true,
	} {
		_, err := h.Variables.List(a, set.ID)
		_, err2 := h.VariableSets.Find(a, set.ID)
		if errors.Is(err, tables.ErrNotFound) == reads || errors.Is(err2, tables.ErrNotFound) == reads {
			t.Errorf("the set %s: %v, %v", set.Name, err, err2)
		}
	}
	if all := must(h.VariableSets.List(a, "acme", "")); len(all) != 2 {
		t.Errorf("%d sets are listed", len(all))
	}
	if all := must(h.Projects.List(a, "acme")); len(all) != 1 || all[0].ID == other.ID {
		t.Errorf("%d projects are listed", len(all))
	}
	if _, err := h.Projects.Find(a, other.ID); !errors.Is(err, tables.ErrNotFound) {
		t.Errorf("reading the project of others: %v", err)
	}
	secret := must(h.Teams.Create(h.Admin, record.Team{Organization: "acme", Name: "secret"}))
	if _, err := h.Teams.Find(a, secret.ID); !errors.Is(err, tables.ErrNotFound) {
		t.Errorf("reading a secret team: %v", err)
	}
	if all := must(h.Teams.List(a, "acme")); len(all) != 2 { // her own, and the owners
		t.Errorf("%d teams are listed", len(all))
	}
}

// must returns a value of a call that cannot fail in a test.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
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
