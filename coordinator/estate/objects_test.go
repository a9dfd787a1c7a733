package estate

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/locks"
)

// testProvider is the provider of the objects of these tests.
var testProvider = addr.ProviderConfig{Provider: addr.DefaultProvider("test")}

func object(t *testing.T, at string, n int) state.Change {
	t.Helper()
	parsed, diags := addr.ParseInstance("terraform_data." + at)
	must(t, diags)
	return state.SetObject{Addr: parsed, Provider: testProvider.Instance(addr.RootInstance, addr.NoKey),
		Object: &state.Object{Status: state.Ready, Attrs: fmt.Appendf(nil, `{"n":%d}`, n)}}
}

// edited is a state that a person changes while runs have it open.
type edited struct {
	*testing.T
	*Estate
	shared SharedStores
}

// editing opens a state with the objects a and b.
func editing(t *testing.T) *edited {
	t.Helper()
	x := &edited{T: t, Estate: testEstate(t, t.TempDir())}
	first := shares(t, x.Estate, &x.shared, "first")
	must(t, x.change(first, locks.Set{locks.All: locks.Write}, object(t, "a", 1), object(t, "b", 1)))
	must(t, first.Close(t.Context()))
	return x
}

// change locks, and commits a version.
func (x *edited) change(at *Opened, set locks.Set, changes ...state.Change) diag.List {
	x.Helper()
	if err := at.ask(x.Context(), set); err != nil {
		x.Fatal(err)
	}
	at.LockID = at.sharing.Request
	return at.Commit(x.Context(), changes)
}

// now returns the current state: "a=1 b=1".
func (x *edited) now(at *Opened) string {
	x.Helper()
	st, diags := at.Load(x.Context())
	must(x.T, diags)
	var out []string
	for _, i := range st.Addrs() {
		o := st.Object(i, state.CurrentObject)
		text := strings.TrimPrefix(i.String(), "terraform_data.") + "=" + strings.Trim(string(o.Attrs), `{"n: }`)
		if o.Status == state.Tainted {
			text += " tainted"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// asked returns the change that a person requests, based on the current state.
func (x *edited) asked(at *Opened, changes ...state.Change) backend.ObjectChange {
	x.Helper()
	prior, diags := at.Load(x.Context())
	must(x.T, diags)
	next := prior.Clone()
	next.Apply(changes...)
	c, err := objectChange(prior, next, x.EngineVersion)
	if err != nil {
		x.Fatal(err)
	}
	c.Operation = "test"
	return c
}

func (x *edited) refuses(diags diag.List, want string) {
	x.Helper()
	refused := RefusedIn(diags)
	if refused == nil || !strings.Contains(refused.Reason, want) {
		x.Errorf("%v, not %q", diags.Err(), want)
	}
}

func over() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestAPersonChangesOtherObjectsThanARun(t *testing.T) {
	x, ctx := editing(t), t.Context()
	run := shares(t, x.Estate, &x.shared, "run")
	set := locks.Set{locks.Instance("terraform_data.a"): locks.Write, locks.Resource("terraform_data.a"): locks.Read}
	if err := run.ask(ctx, set); err != nil {
		t.Fatal(err)
	}
	run.LockID = "run"
	person := shares(t, x.Estate, &x.shared, "person")

	a := object(t, "a", 1).(state.SetObject)
	taint := *a.Object
	taint.Status = state.Tainted
	a.Object = &taint
	x.refuses(person.ChangeObjects(ctx, over(), x.asked(person, a)), "terraform_data.a, which ")
	must(t, person.unlock(ctx))

	b := object(t, "b", 1).(state.SetObject)
	removed := x.asked(person, state.SetObject{Addr: b.Addr}, object(t, "c", 3))
	must(t, person.ChangeObjects(ctx, over(), removed))
	must(t, person.unlock(ctx))
	if got := x.now(run); got != "a=1, c=3" {
		t.Errorf("the run reads %s", got)
	}
	serial := func() uint64 {
		t.Helper()
		st, diags := run.Load(ctx)
		must(t, diags)
		return st.Serial
	}
	before := serial()
	// The same request again, whose response was lost.
	must(t, person.ChangeObjects(ctx, over(), removed))
	must(t, person.unlock(ctx))
	if serial() != before {
		t.Error("a repeated request has created a version")
	}
	// An object in place: its resource is not removed in between, which other runs may have locked.
	c := object(t, "c", 3).(state.SetObject)
	c.Object = &taint
	must(t, person.ChangeObjects(ctx, over(), x.asked(person, c)))
	must(t, person.unlock(ctx))
	must(t, run.Commit(ctx, []state.Change{object(t, "a", 2)}))
	if got := x.now(run); got != "a=2, c=1 tainted" {
		t.Errorf("at the end the state is %s", got)
	}
	must(t, person.Close(ctx))
	must(t, run.Close(ctx))
}

// Without the comparison, a change that has waited for a run would undo what the run has changed.
func TestAPersonDoesNotUndoWhatARunHasChangedMeanwhile(t *testing.T) {
	x, ctx := editing(t), t.Context()
	run := shares(t, x.Estate, &x.shared, "run")
	if err := run.ask(ctx, locks.Set{locks.Instance("terraform_data.a"): locks.Write,
		locks.Resource("terraform_data.a"): locks.Read}); err != nil {
		t.Fatal(err)
	}
	run.LockID = "run"
	person := shares(t, x.Estate, &x.shared, "person")
	a := object(t, "a", 7)
	change := x.asked(person, a)
	ended := make(chan diag.List)
	go func() { ended <- person.ChangeObjects(ctx, ctx, change) }()
	for waits := false; !waits; { // its request is in the table
		list, err := run.store.LockRequests(ctx, run.Workspace)
		if err != nil {
			t.Fatal(err)
		}
		waits = len(list) == 2
	}
	must(t, run.Commit(ctx, []state.Change{object(t, "a", 2)}))
	if err := run.store.LeaveLocks(ctx, run.Workspace, "run"); err != nil {
		t.Fatal(err)
	}
	x.refuses(<-ended, "terraform_data.a has been changed by ")
	if got := x.now(run); got != "a=2, b=1" {
		t.Errorf("at the end the state is %s", got)
	}
	must(t, person.Close(ctx))
	must(t, run.Close(ctx))
}

func TestAnObjectInDoubtIsNotChanged(t *testing.T) {
	x, ctx := editing(t), t.Context()
	first := shares(t, x.Estate, &x.shared, "first")
	doubtful := object(t, "b", 1).(state.SetObject)
	doubtful.Object.Status, doubtful.Object.Doubt = state.InDoubt, &state.Doubt{Operation: "update"}
	must(t, x.change(first, locks.Set{locks.All: locks.Write}, doubtful))
	must(t, first.unlock(ctx))
	x.refuses(first.ChangeObjects(ctx, over(), x.asked(first, state.SetObject{Addr: doubtful.Addr})),
		"an operation on terraform_data.b is in doubt")
	must(t, first.Close(ctx))
}
