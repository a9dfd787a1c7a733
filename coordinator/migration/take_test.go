package migration

import (
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

func TestAServiceGetsTheStatesThatItsBlockSelects(t *testing.T) {
	tagged, cloud := service{&place{cloud: true}}, service{&place{cloud: true, name: "x"}}
	block := service{&place{name: "x"}}
	for sentence, c := range map[string]struct {
		to             Service
		held, selected string
		carried        string
		targets, err   string
		warns          bool
	}{
		"tags, all":                     {to: tagged, held: "a b", selected: "a", carried: "a b", targets: "a b"},
		"tags, the default one":         {to: tagged, held: "default", selected: "default", carried: "default", targets: "?"},
		"a name, one":                   {to: cloud, held: "a", selected: "b", carried: "a", targets: "x"},
		"a name, the selected one":      {to: cloud, held: "a b c", selected: "b", carried: "b", targets: "x", warns: true},
		"a name, the selected has none": {to: cloud, held: "a b", selected: "c", err: "Several workspaces have states"},
		"a backend block with a name":   {to: block, held: "a", selected: "a", carried: "a", targets: "default"},
		"nothing":                       {to: cloud, selected: "a"},
	} {
		carried, diags := carriedTo(c.to, strings.Fields(c.held), c.selected)
		fails(t, diags, c.err)
		if got := strings.Join(carried, " "); got != c.carried {
			t.Errorf("%s: carried %s", sentence, got)
		}
		if warns := len(diags) > 0 && !diags.HasErrors(); warns != c.warns {
			t.Errorf("%s: warnings: %t", sentence, warns)
		}
		var targets []string
		for _, name := range carried {
			target := targetAt(c.to, name)
			if target == "" {
				target = "?"
			}
			targets = append(targets, target)
		}
		if got := strings.Join(targets, " "); got != c.targets {
			t.Errorf("%s: targets %s", sentence, got)
		}
	}
}

func TestInitCopiesStatesToAService(t *testing.T) {
	d := newDirectory(t)
	d.add("local", "default", "b")
	d.places["cloud"] = service{&place{directory: d, kind: "cloud", all: map[string][]byte{}, cloud: true}}
	d.wanted = recordOf("cloud", `{}`, 1)
	_, diags := Prepare(t.Context(), d, d.options(true, true))
	fails(t, diags, "")
	d.has(`ask Do you want to copy the state of the workspace "b" to cloud/b?`, "lock cloud/b", "create cloud/b",
		"write cloud/b serial 1", "unlock cloud/b", "write local/b nothing",
		"ask The service has no default workspace.",
		`ask Do you want to copy the state of the workspace "default" to cloud/named?`, "lock cloud/named",
		"create cloud/named", "write cloud/named serial 1", "unlock cloud/named", "write local/default nothing",
		"select named", "record cloud")
}

func TestTheServiceLacksTheVersionsAfterItsOwn(t *testing.T) {
	st := stateOf("l", 7)
	empty := state.Empty()
	empty.Lineage, empty.Serial = "new", 1
	other := stateOf("l", 7)
	other.Resources = nil
	for sentence, c := range map[string]struct {
		there   *state.State
		begin   uint64
		refused string
	}{
		"there is no state":                     {nil, 0, ""},
		"the workspace is new":                  {empty, 0, ""},
		"it has an earlier version":             {stateOf("l", 3), 3, ""},
		"it has the state":                      {stateOf("l", 7), 7, ""},
		"it has a state of another lineage":     {stateOf("m", 3), 0, "its lineage is m"},
		"it has a newer version":                {stateOf("l", 8), 0, "its serial is 8"},
		"it has another one of the same serial": {other, 0, "it has the same serial, but different content."},
	} {
		begin, refused := beginning(c.there, st)
		if begin != c.begin || !strings.HasPrefix(refused, c.refused) || c.refused == "" && refused != "" {
			t.Errorf("%s: %d, %q", sentence, begin, refused)
		}
	}
	for _, c := range []struct {
		lineage       string
		serial, begin uint64
		want          bool
	}{
		{"l", 0, 0, true}, {"l", 3, 0, true}, {"l", 3, 2, true}, {"l", 3, 3, false}, {"l", 7, 2, false}, {"m", 3, 0, false},
	} {
		v := journal.VersionInfo{Lineage: c.lineage, Serial: c.serial}
		if lacks(v, st, c.begin) != c.want {
			t.Errorf("of lineage %s, serial %d after %d: %t", c.lineage, c.serial, c.begin, !c.want)
		}
	}
}

// takes returns a directory with the versions 1 (twice, as after a push), 2 (deleted) and 3 of the default workspace,
// and with the workspace b.
func takes(t *testing.T) (*directory, *place, TakeOptions) {
	t.Helper()
	d := newDirectory(t)
	local := d.add("local", "b")
	d.set(local, "default", 3)
	deleted := state.Empty()
	deleted.Lineage, deleted.Serial = "default", 2
	d.versions = map[string][]*state.State{"default": {stateOf("default", 3), deleted, stateOf("default", 1),
		stateOf("default", 1), stateOf("former", 9)}}
	to := &place{directory: d, kind: "service", all: map[string][]byte{}}
	d.places["service"] = service{to}
	return d, to, TakeOptions{Name: "app", Each: func(w TakenWorkspace) {
		d.note("taken %s as %s: %d", w.Workspace, w.Target, w.Written)
	}}
}

func TestTakingWritesTheVersionsUnderBothLocks(t *testing.T) {
	d, _, o := takes(t)
	taken, diags := Take(t.Context(), d, o)
	fails(t, diags, "")
	done := []string{
		"lock local/b", "plan local/b as b", "plan local/b as app-b", "create service/app-b", "lock service/app-b",
		"write service/app-b serial 1", "unlock service/app-b", "plan service/app-b as app-b", "unlock local/b",
		"taken b as app-b: 1",
		"lock local/default", "plan local/default as default", "plan local/default as app", "create service/app",
		"lock service/app", "write service/app serial 1", "write service/app serial 3", "unlock service/app",
		"plan service/app as app", "unlock local/default", "taken default as app: 2",
	}
	d.has(done...)
	if taken.Tag != "app" || taken.Selected != "default" || !taken.Local || taken.Record != "recorded" ||
		len(taken.Workspaces) != 2 {
		t.Errorf("the result is %+v", taken)
	}
	d.log = nil
	o.SkipPlan = true
	_, diags = Take(t.Context(), d, o)
	fails(t, diags, "")
	d.has("lock local/b", "lock service/app-b", "unlock service/app-b", "unlock local/b", "taken b as app-b: 0",
		"lock local/default", "lock service/app", "unlock service/app", "unlock local/default", "taken default as app: 0")
}

func TestTakingGoesOnWhereItWasInterrupted(t *testing.T) {
	d, to, o := takes(t)
	o.SkipPlan = true
	writes := 0
	d.fails = func(*place, string) bool { writes++; return writes == 3 }
	taken, diags := Take(t.Context(), d, o)
	fails(t, diags, "Failed to save state")
	if len(taken.Workspaces) != 1 {
		t.Errorf("taken before the error: %+v", taken.Workspaces)
	}
	d.log, d.fails = nil, nil
	_, diags = Take(t.Context(), d, o)
	fails(t, diags, "")
	d.has("lock local/b", "lock service/app-b", "unlock service/app-b", "unlock local/b", "taken b as app-b: 0",
		"lock local/default", "lock service/app", "write service/app serial 3", "unlock service/app",
		"unlock local/default", "taken default as app: 1")
	if st, _ := d.Snapshot(t.Context(), to, "app"); st == nil || st.Serial != 3 {
		t.Errorf("the service has %+v", st)
	}
}

func TestNothingIsTakenThatCouldBeLost(t *testing.T) {
	change := func(where, as string) func(string, string) *plan.Plan {
		return func(w, a string) *plan.Plan {
			p := &plan.Plan{}
			if w == where && a == as {
				at, _ := addr.ParseInstance("terraform_data.a")
				p.Changes = []*plan.Change{{Addr: at, Action: plan.Update}}
			}
			return p
		}
	}
	for sentence, c := range map[string]struct {
		with    func(d *directory, to *place)
		err     string
		detail  string
		written bool
	}{
		"a run was cut off": {func(d *directory, _ *place) { d.runs = []string{"r1"} }, "A run was cut off", "r1", false},
		"there is no state": {func(d *directory, _ *place) { d.add("local") }, "There is no state to migrate", "", false},
		"the plan has changes": {func(d *directory, _ *place) { d.planned = change("local/b", "b") },
			"The plan has changes", "The first change: terraform_data.a (", false},
		"the plan has changes under the new name": {func(d *directory, _ *place) { d.planned = change("local/b", "app-b") },
			"The plan has changes under the new name", `"app-b"`, false},
		"the plan at the service has changes": {func(d *directory, _ *place) { d.planned = change("service/app-b", "app-b") },
			"The plan has changes", "A plan for service/app-b", true},
		"the service has another state": {func(d *directory, to *place) { d.set(to, "app-b", 5) },
			"The service has a different state under this name", "its lineage is app-b", false},
		"the service keeps another state than was written": {func(_ *directory, to *place) { to.loses = true },
			"The service returned a different state than was written", "the serial 1", true},
	} {
		d, to, o := takes(t)
		c.with(d, to)
		_, diags := Take(t.Context(), d, o)
		fails(t, diags, c.err)
		if !diags.HasErrors() || !strings.Contains(diags[0].Detail, c.detail) {
			t.Errorf("%s: %v", sentence, diags)
		}
		written := strings.Contains(strings.Join(d.log, "\n"), "write ")
		if written != c.written {
			t.Errorf("%s: written: %t", sentence, written)
		}
	}
}

func TestAStateWithOperationsInDoubtStays(t *testing.T) {
	d, _, o := takes(t)
	d.current = stateOf("b", 1)
	at, _ := addr.ParseInstance("terraform_data.a")
	d.current.Apply(state.SetObject{Addr: at, Provider: d.current.ProviderOf(at),
		Object: &state.Object{Status: state.InDoubt, Doubt: &state.Doubt{Operation: "update"}}})
	_, diags := Take(t.Context(), d, o)
	fails(t, diags, "Some operations are in doubt")
	d.has()
}
