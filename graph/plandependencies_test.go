package graph

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// root is a configuration of one module.
func root(text string) map[string]string { return map[string]string{".": text} }

// written formats what a plan depends on.
func written(r *plan.Dependencies) string {
	var parts []string
	part := func(name string, list []string) {
		if len(list) > 0 {
			parts = append(parts, name+" "+strings.Join(list, " "))
		}
	}
	part("writes", texts(r.Writes))
	part("outputs", r.Outputs)
	part("reads", texts(r.Reads))
	part("keeps", texts(r.Keeps))
	var found []addr.Instance
	for _, f := range r.Found {
		found = append(found, f.Addr)
	}
	part("found", texts(found))
	return strings.Join(parts, "; ")
}

func texts[T fmt.Stringer](list []T) []string {
	var out []string
	for _, x := range list {
		out = append(out, x.String())
	}
	return out
}

func TestAPlanRestsOnWhatItsChangesWereComputedFrom(t *testing.T) {
	all := root(block("v", "") + block("a", "count = 2\nx = t.v.id") + block("b", "x = t.a[0].id") + block("z", ""))
	for sentence, c := range map[string]struct {
		modules map[string]string
		mode    plan.Mode
		prior   []string
		changes string
		outputs map[string]plan.Action
		want    string
	}{
		"a plan that changes nothing rests on nothing": {
			modules: all, changes: "t.v no-op, t.a[0] no-op, t.a[1] no-op, t.b no-op, t.z no-op", want: "",
		},
		"it reads the instance that is referred to and what that is made of, no others": {
			modules: all, changes: "t.v no-op, t.a[0] no-op, t.a[1] no-op, t.b update, t.z no-op",
			want: "writes t.b; reads t.a[0] t.v",
		},
		"what changes is written, not read": {
			modules: all, changes: "t.v update, t.a[0] no-op, t.a[1] no-op, t.b update, t.z no-op",
			want: "writes t.b t.v; reads t.a[0]",
		},
		"a reference to all instances reads all": {
			modules: root(block("a", "count = 2") + block("b", "x = t.a")),
			changes: "t.a[0] no-op, t.a[1] no-op, t.b update", want: "writes t.b; reads t.a[0] t.a[1]",
		},
		"what decides how many instances there are is read": {
			modules: root(block("n", "") + block("b", "count = t.n.id")),
			changes: "t.n no-op, t.b[0] no-op, t.b[1] create", want: "writes t.b[1]; reads t.n",
		},
		"what decided that an instance has no place is read": {
			modules: root(block("n", "") + block("b", "count = t.n.id")),
			changes: "t.n no-op, t.b[0] no-op, t.b[1] delete", want: "writes t.b[1]; reads t.n; keeps t.b",
		},
		"data that was read is": {
			modules: root("data \"t\" \"d\" {\n}\n" + block("b", "x = data.t.d.id")), prior: []string{"data.t.d"},
			changes: "t.b update", want: "writes t.b; reads data.t.d",
		},
		"what a provider is configured with is read": {
			modules: root(block("v", "") + "provider \"u\" {\nx = t.v.id\n}\nresource \"u\" \"b\" {}\n"),
			changes: "t.v no-op, u.b update", want: "writes u.b; reads t.v",
		},
		"what an object without a block is destroyed with is read": {
			modules: root(block("v", "") + "provider \"u\" {\nx = t.v.id\n}\n"), prior: []string{"u.b"},
			changes: "t.v no-op, u.b delete", want: "writes u.b; reads t.v; keeps u.b",
		},
		"a destroy reads no references": {
			modules: all, mode: plan.Destroy, changes: "t.b delete", want: "writes t.b; keeps t.b",
		},
		"a value flows through locals and modules": {
			modules: map[string]string{
				".": block("v", "") + "locals {\nl = t.v.id\n}\nmodule \"m\" {\nsource = \"./m\"\nx = local.l\n}\n" +
					block("b", "x = module.m.o"),
				"m": "variable \"x\" {}\nresource \"t\" \"i\" {\nx = var.x\n}\noutput \"o\" {\nvalue = t.i.id\n}\n",
			},
			changes: "t.v no-op, module.m.t.i no-op, t.b update", want: "writes t.b; reads t.v module.m.t.i",
		},
		"an output that changes reads what it shows": {
			modules: root(block("a", "") + block("b", "") + "output \"o\" {\nvalue = [t.a.id, t.b.id]\n}\n" +
				"output \"p\" {\nvalue = t.b.id\n}\n"),
			changes: "t.a update, t.b no-op", outputs: map[string]plan.Action{"o": plan.Update, "p": plan.NoOp},
			want: "writes t.a; outputs o; reads t.b",
		},
		"a replacement keeps its resource, and reads what it is made of, not what depends on it": {
			modules: all, changes: "t.v no-op, t.a[0] create-delete, t.a[1] no-op, t.b no-op, t.z no-op",
			prior: []string{"t.a[0]!", "t.b:t.a"}, want: "writes t.a[0]; reads t.v; keeps t.a",
		},
		"what is forgotten keeps nothing": {
			modules: root(""), prior: []string{"t.a"}, changes: "t.a forget", want: "writes t.a",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			p := &plan.Plan{Mode: c.mode, Prior: remembered(t, c.prior...)}
			for text := range strings.SplitSeq(c.changes, ", ") {
				p.Changes = append(p.Changes, change(t, text))
			}
			for name, action := range c.outputs {
				p.Outputs = append(p.Outputs, &plan.OutputChange{Name: name, Action: action})
			}
			s := static(t, c.modules, p.Prior)
			o := ApplyOptions{Covered: everywhere, References: single}
			p.Graph, _ = BuildApply(s, p, o)
			if got := written(PlanDependencies(s, p, p.Prior, o)); got != c.want {
				t.Errorf("it rests on %q, want %q", got, c.want)
			}
		})
	}
}

func TestWhatRefreshingFoundIsStoredWhateverThePlanChanges(t *testing.T) {
	stored, now := remembered(t, "t.a", "t.b", "t.old"), remembered(t, "t.a", "t.new")
	now.Apply(state.SetObject{Addr: instance(t, "t.a"), Provider: stored.ProviderOf(instance(t, "t.a")),
		Object: &state.Object{Status: state.Ready, Attrs: []byte(`{"x":1}`)}})
	s := static(t, root(block("a", "")+block("b", "")+block("new", "")), now)
	moved := change(t, "t.new no-op")
	moved.Previous = instance(t, "t.old")
	for mode, want := range map[plan.Mode]string{
		plan.Normal:      "writes t.new t.old; found t.a t.b t.new t.old",
		plan.RefreshOnly: "writes t.a t.b t.new t.old; found t.a t.b t.new t.old",
	} {
		p := &plan.Plan{Mode: mode, Prior: now}
		o := ApplyOptions{Covered: everywhere, References: single}
		if mode == plan.Normal {
			p.Changes = []*plan.Change{change(t, "t.a no-op"), moved}
			p.Graph, _ = BuildApply(s, p, o)
		}
		r := PlanDependencies(s, p, stored, o)
		if got := written(r); got != want {
			t.Errorf("it rests on %q, want %q", got, want)
		}
		for _, f := range r.Found {
			if f.Stored != stored.Instance(f.Addr).Digest() {
				t.Errorf("%s was stored otherwise", f.Addr)
			}
		}
	}
}

// An output of a plan that only refreshes reads what it shows, though such a plan has no order.
func TestARefreshReadsWhatItsOutputsShow(t *testing.T) {
	prior := remembered(t, "t.a", "t.b")
	s := static(t, root(block("a", "")+block("b", "")+"output \"o\" {\nvalue = t.a.id\n}\n"), prior)
	p := &plan.Plan{Mode: plan.RefreshOnly, Prior: prior, Outputs: []*plan.OutputChange{
		{Name: "o", Action: plan.Update, After: cty.True}}}
	got := written(PlanDependencies(s, p, prior, ApplyOptions{Covered: everywhere, References: single}))
	if want := "outputs o; reads t.a"; got != want {
		t.Errorf("it rests on %q, want %q", got, want)
	}
}
