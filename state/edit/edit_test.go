package edit

import (
	"slices"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

var testProvider = addr.ProviderConfig{Provider: addr.DefaultProvider("test")}

func must(t *testing.T, diags diag.List) {
	t.Helper()
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
}

func target(t *testing.T, text string) addr.Target {
	t.Helper()
	at, diags := addr.ParseTarget(text)
	must(t, diags)
	return at
}

func instance(t *testing.T, text string) addr.Instance {
	t.Helper()
	at, diags := addr.ParseInstance(text)
	must(t, diags)
	return at
}

// stateOf returns a state with an object for each address; behind a space, the address has the key of a deposed object.
func stateOf(t *testing.T, addresses ...string) *state.State {
	t.Helper()
	st := state.Empty()
	for _, text := range addresses {
		text, deposed, _ := strings.Cut(text, " ")
		st.Apply(state.SetObject{Addr: instance(t, text), Deposed: state.DeposedKey(deposed),
			Provider: testProvider.Instance(addr.RootInstance, addr.NoKey),
			Object:   &state.Object{Status: state.Ready, Attrs: []byte(`{"id":"` + text + `"}`)}})
	}
	return st
}

// contents returns the objects of a state, as stateOf takes them.
func contents(st *state.State) string {
	var out []string
	for _, at := range st.Addrs() {
		i := st.Instance(at)
		if i.Current != nil {
			out = append(out, at.String())
		}
		for _, key := range i.DeposedKeys() {
			out = append(out, at.String()+" "+string(key))
		}
	}
	return strings.Join(out, ", ")
}

// summary returns the summary and the detail of the first error; empty for none.
func summary(diags diag.List) string {
	for _, d := range diags {
		if d.Severity == diag.Error {
			return d.Summary + ": " + d.Detail
		}
	}
	return ""
}

func TestATaintedObjectIsMarkedAndAnObjectInDoubtCannotBe(t *testing.T) {
	at := addr.Instance{}
	ready := &state.Object{Status: state.Ready, Attrs: []byte(`{}`)}
	tainted, diags := Taint(at, ready)
	must(t, diags)
	if tainted.Status != state.Tainted || string(tainted.Attrs) != `{}` {
		t.Errorf("marked: %+v", tainted)
	}
	if ready.Status != state.Ready {
		t.Error("the object that was given has changed")
	}
	untainted, diags := Untaint(at, tainted)
	must(t, diags)
	if untainted.Status != state.Ready || tainted.Status != state.Tainted {
		t.Errorf("without its mark it is %v, and before it is %v", untainted.Status, tainted.Status)
	}
	if _, diags := Untaint(at, ready); !strings.HasPrefix(summary(diags), "Resource instance is not tainted") {
		t.Errorf("an object without a mark: %v", diags)
	}
	doubtful := &state.Object{Status: state.InDoubt, Doubt: &state.Doubt{}}
	if _, diags := Taint(at, doubtful); !strings.HasPrefix(summary(diags), "Resource instance is in doubt") {
		t.Errorf("an object in doubt: %v", diags)
	}
}

func TestAllResourcesOfAProviderAreReassigned(t *testing.T) {
	st := stateOf(t, "test_a.a[0]", "test_a.a[1]", "module.m.test_b.b")
	other := addr.ProviderConfig{Provider: addr.DefaultProvider("other")}
	st.Apply(state.SetObject{Addr: instance(t, "other_c.c"), Provider: other.Instance(addr.RootInstance, addr.NoKey),
		Object: &state.Object{Status: state.Ready}})
	to := addr.DefaultProvider("new")
	resources, changes := Reassigned(st, testProvider.Provider, to)
	if got := strings.Join(resources, " "); got != "test_a.a module.m.test_b.b" {
		t.Errorf("reassigned: %s", got)
	}
	before := contents(st)
	st.Apply(changes...)
	if got := contents(st); got != before {
		t.Errorf("objects afterwards: %s", got)
	}
	for at, want := range map[string]addr.Provider{"test_a.a[0]": to, "test_a.a[1]": to, "module.m.test_b.b": to,
		"other_c.c": other.Provider} {
		if got := st.ProviderOf(instance(t, at)).Config().Provider; got != want {
			t.Errorf("%s belongs to %s", at, got)
		}
	}
	if resources, changes := Reassigned(st, testProvider.Provider, to); len(resources)+len(changes) > 0 {
		t.Errorf("again: %v, %v", resources, changes)
	}
}

func TestAFileWithoutAStateIsNotPushed(t *testing.T) {
	for text, want := range map[string]string{
		`{"version":4,"serial":3,"lineage":"l","outputs":{},"resources":[]}`: "",
		"":      `Failed to read source state "x.json": The file has no state.`,
		"{nope": `Failed to read source state "x.json": `,
	} {
		st, diags := ParseState("x.json", []byte(text))
		got := summary(diags)
		if want == "" && (got != "" || st.Serial != 3 || st.Lineage != "l") {
			t.Errorf("%s: %v, %+v", text, diags, st)
		}
		if want != "" && (!strings.HasPrefix(got, want) || st != nil) {
			t.Errorf("%q: %s", text, got)
		}
	}
}

func TestAStateReplacesAnotherOneOnlyIfItIsANewerVersionOfIt(t *testing.T) {
	made := func(lineage string, serial uint64, addresses ...string) *state.State {
		st := stateOf(t, addresses...)
		st.Lineage, st.Serial = lineage, serial
		return st
	}
	for sentence, c := range map[string]struct {
		ours, theirs *state.State
		want         string
	}{
		"a newer version replaces an older one": {made("l", 2, "test_a.a"), made("l", 3), ""},
		"anything replaces an empty state":      {made("l", 2), made("m", 1, "test_a.a"), ""},
		"a state without a lineage is from an old version": {
			made("l", 2, "test_a.a"), made("", 1, "test_a.a"), ""},
		"a state that has no lineage yet is replaced": {made("", 2, "test_a.a"), made("m", 3), ""},
		"another lineage is unrelated": {made("l", 2, "test_a.a"), made("m", 3),
			`cannot import state with lineage "m" over unrelated state with lineage "l"`},
		"an older version is refused": {made("l", 2, "test_a.a"), made("l", 1),
			"cannot import state with serial 1 over newer state with serial 2"},
		"another content with the same serial is refused": {made("l", 2, "test_a.a"), made("l", 2),
			"cannot overwrite existing state with serial 2 with a different state that has the same serial"},
	} {
		if got := Refusal(c.ours, c.theirs); got != c.want {
			t.Errorf("%s: %q", sentence, got)
		}
	}
}

func TestTargetsSelectInstances(t *testing.T) {
	st := stateOf(t, "test_a.a[0]", "test_a.a[1]", "test_b.b", "module.m[0].test_a.a", "module.m[1].test_a.a")
	for sentence, c := range map[string]struct{ targets, want, err string }{
		"none is all":             {"", "module.m[0].test_a.a module.m[1].test_a.a test_a.a[0] test_a.a[1] test_b.b", ""},
		"an instance":             {"test_a.a[1]", "test_a.a[1]", ""},
		"a resource":              {"test_a.a", "test_a.a[0] test_a.a[1]", ""},
		"a module":                {"module.m", "module.m[0].test_a.a module.m[1].test_a.a", ""},
		"a module instance":       {"module.m[1]", "module.m[1].test_a.a", ""},
		"each only once":          {"test_a.a test_a.a[0]", "test_a.a[0] test_a.a[1]", ""},
		"a resource not there":    {"test_b.b test_c.c", "test_b.b", "Unknown resource: There is no resource test_c.c"},
		"an instance not there":   {"test_a.a[2]", "", "Unknown resource instance: There is no resource instance "},
		"a module not there":      {"module.n", "", "Unknown module: There is no module module.n"},
		"a module's other number": {"module.m[2]", "", "Unknown module: There is no module module.m[2]"},
	} {
		var targets []addr.Target
		for _, text := range strings.Fields(c.targets) {
			targets = append(targets, target(t, text))
		}
		found, diags := Matching(st, targets)
		var got []string
		for _, at := range found {
			got = append(got, at.String())
		}
		want := strings.Fields(c.want)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v", sentence, got)
		}
		if text := summary(diags); !strings.HasPrefix(text, c.err) || c.err == "" && text != "" {
			t.Errorf("%s: %s", sentence, text)
		}
	}
}

func TestOnlyManagedObjectsAreManaged(t *testing.T) {
	data := stateOf(t, "data.test_a.a")
	if AnyManaged(data) || len(Managed(data)) > 0 {
		t.Error("a data source is managed")
	}
	both := stateOf(t, "data.test_a.a", "test_a.b", "module.m.test_a.a")
	if got := Managed(both); !AnyManaged(both) || len(got) != 2 || got[0].String() == got[1].String() {
		t.Errorf("managed: %v", got)
	}
}

func TestAStateHasContentOrALineage(t *testing.T) {
	removed, lineage := state.Empty(), state.Empty()
	removed.Serial, lineage.Lineage = 1, "l"
	for _, st := range []*state.State{state.Empty(), removed} {
		if !IsNone(st) {
			t.Errorf("%+v is a state", st)
		}
	}
	for _, st := range []*state.State{lineage, stateOf(t, "test_a.a")} {
		if IsNone(st) {
			t.Errorf("%+v is none", st)
		}
	}
}

func TestAnObjectHasAnIDOnlyIfItIsAText(t *testing.T) {
	for want, list := range map[string][]*state.Object{
		"x": {{Attrs: []byte(`{"id":"x"}`)}, {Flatmap: map[string]string{"id": "x"}}},
		"":  {nil, {}, {Attrs: []byte(`{"id":7}`)}, {Attrs: []byte(`{"id":null}`)}, {Attrs: []byte(`{"name":"x"}`)}},
	} {
		for _, o := range list {
			if got := ObjectID(o); got != want {
				t.Errorf("%+v: %q", o, got)
			}
		}
	}
}
