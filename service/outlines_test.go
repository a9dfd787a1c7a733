package service_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/work"
)

// stateOf returns a state with an object for each value.
func stateOf(serial int, values ...string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `{"version":4,"terraform_version":"1.12.6","serial":%d,"lineage":"l","outputs":{},"resources":[`,
		serial)
	for i, v := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"mode":"managed","type":"fleet_vm","name":"o%d",`+
			`"instances":[{"attributes":{"v":%q,"key":"canary"}}]}`,
			i, v)
	}
	return []byte(b.String() + "]}")
}

// put creates a version of a state.
func put(t *testing.T, h *servicetest.Harness, w *service.WorkspaceView, serial int,
	values ...string) *record.StateVersion {
	t.Helper()
	if _, err := h.Workspaces.Lock(h.Admin, w.ID, ""); err != nil {
		t.Fatal(err)
	}
	text := stateOf(serial, values...)
	v, err := h.States.Create(h.Admin, w.ID, service.NewState{Serial: uint64(serial), Lineage: "l", //nolint:gosec // small
		MD5: service.Sum(text), State: text})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Workspaces.Unlock(h.Admin, w.ID); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVersionsOfAStateAreCompared(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	first := put(t, h, w, 1, "a", "b", "c")
	second := put(t, h, w, 2, "a", "x")
	got, err := h.States.Difference(h.Admin, first.ID, second.ID)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, c := range got {
		text += fmt.Sprintf("%s %t %t, ", c.Address, c.Before != nil, c.After != nil)
	}
	if text != "fleet_vm.o1 true true, fleet_vm.o2 true false, " {
		t.Errorf("%s", text)
	}
	other := put(t, h, h.NewWorkspace("two"), 1, "a")
	if _, err := h.States.Difference(h.Admin, first.ID, other.ID); !errors.Is(err, tables.ErrInvalid) {
		t.Errorf("versions of two workspaces: %v", err)
	}
}

func TestWhoChangedAnObjectLastIsKnown(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	first := put(t, h, w, 1, "a", "b")
	second := put(t, h, w, 2, "a", "x")
	third := put(t, h, w, 3, "a", "x", "new")
	o, _, err := h.States.Outline(h.Admin, third.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{first.ID, second.ID, third.ID}
	for i := range o.Objects {
		c, err := h.States.LastChangeOf(h.Admin, o, &o.Objects[i])
		if err != nil {
			t.Fatal(err)
		}
		if c == nil || c.Version.ID != want[i] || c.Who != "root" || c.First != (i == 0) {
			t.Errorf("%s: %+v", o.Objects[i].Address, c)
		}
	}
}

// The outline of each version of a state, up to 200,000 objects, stayed in memory: with many runs, this made the
// service grow in its first hours.
// An earlier version came back into memory if somebody read its file while the outline of the next one was made.
func TestAnOutlineThatWasSupersededStaysOutOfMemory(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	first := put(t, h, w, 1, "a")
	for serial := 2; serial <= 3; serial++ {
		v := put(t, h, w, serial, "a")
		for _, id := range []string{v.ID, first.ID} {
			if _, _, err := h.States.Outline(h.Admin, id); err != nil {
				t.Fatal(err)
			}
		}
		if n := h.OutlinedObjects(); n != 1 {
			t.Errorf("after version %d there are %d objects in memory", serial, n)
		}
	}
}

func TestOnlyTheLatestVersionOfAStateIsOutlinedInMemory(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	var first *record.StateVersion
	for serial := 1; serial <= 5; serial++ {
		v := put(t, h, w, serial, "a", "b", fmt.Sprint(serial))
		if first == nil {
			first = v
		}
		if _, _, err := h.States.Outline(h.Admin, v.ID); err != nil {
			t.Fatal(err)
		}
		if n := h.OutlinedObjects(); n != 3 {
			t.Errorf("after version %d there are %d objects in memory", serial, n)
		}
	}
	if o, _, err := h.States.Outline(h.Admin, first.ID); err != nil || len(o.Objects) != 3 {
		t.Errorf("an earlier version: %v, %v", o, err)
	}
}

func TestValuesOfUnknownTypesAreHidden(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	v := put(t, h, w, 1, "a")
	o, _, err := h.States.Outline(h.Admin, v.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got, known, err := h.States.Object(h.Admin, v.ID, &o.Objects[0]); err != nil || known ||
		strings.Contains(fmt.Sprintf("%v", got), "canary") {
		t.Errorf("%v %v %v", got, known, err)
	}
	h.Engine.PlanFunc = func(_ context.Context, j *work.Job) (*work.PlanResult, error) {
		return &work.PlanResult{HasChanges: true, Plan: []byte("plan of " + j.Run.ID),
			Redacted: []byte(`{"provider_schemas":{"p":{"resource_schemas":{"fleet_vm":{"block":{"attributes":{
				"v":{},"key":{"sensitive":true}}}}}}}}`)}, nil
	}
	h.Await(h.NewRun(w, nil).ID, record.Planned)
	got, known, err := h.States.Object(h.Admin, v.ID, &o.Objects[0])
	if text := fmt.Sprintf("%v", got); err != nil || !known || strings.Contains(text, "canary") ||
		!strings.Contains(text, "v:a") {
		t.Errorf("%v %v %v", got, known, err)
	}
}

func TestAnEarlierStateIsRestored(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	first := put(t, h, w, 1, "a")
	put(t, h, w, 2, "b")
	v, err := h.States.Restore(h.Admin, first.ID)
	if err != nil {
		t.Fatal(err)
	}
	text, current, err := h.StateText(h.Admin, v.ID)
	if err != nil || string(text) != string(stateOf(3, "a")) || current.Serial != 3 || current.MD5 != service.Sum(text) {
		t.Errorf("%s, %+v, %v", text, current, err)
	}
	if now, err := h.States.Current(h.Admin, w.ID); err != nil || now.ID != v.ID {
		t.Errorf("the current version is %+v, %v", now, err)
	}
	if _, err := h.States.Restore(h.Admin, v.ID); !errors.Is(err, tables.ErrConflict) {
		t.Errorf("restoring the current version: %v", err)
	}
	r := h.NewRun(w, nil)
	h.Await(r.ID, record.Planned)
	if _, err := h.States.Restore(h.Admin, first.ID); !errors.Is(err, tables.ErrConflict) {
		t.Errorf("restoring a version while a run has locked the workspace: %v", err)
	}
	lines, err := h.Audit.Latest(h.Admin, 1)
	if err != nil || lines[0].Action != "state.restore" || !strings.HasPrefix(lines[0].Outcome, "refused") {
		t.Errorf("%+v, %v", lines, err)
	}
}

func TestAStateIsRestoredOnlyByWhoMayWriteIt(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	first := put(t, h, w, 1, "a")
	put(t, h, w, 2, "b")
	team, err := h.Teams.Create(h.Admin, record.Team{Organization: "acme", Name: "readers"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.TeamAccess.Create(h.Admin, record.Access{Team: team.ID, On: w.ID, Role: "read"}); err != nil {
		t.Fatal(err)
	}
	token, _, err := h.Tokens.Create(h.Admin, record.TokenTeam, team.ID, "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	reader := h.Actor(token)
	if _, _, err := h.States.Outline(reader, first.ID); err != nil {
		t.Errorf("somebody with the role read reads the state: %v", err)
	}
	if _, err := h.States.Restore(reader, first.ID); !errors.Is(err, tables.ErrForbidden) {
		t.Errorf("somebody with the role read restores a version: %v", err)
	}
}
