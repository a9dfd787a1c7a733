package graph

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/state"
)

// memory is a file system in memory, in which modules are beside their callers.
type memory struct{ fstest.MapFS }

func (m memory) ReadFile(name string) ([]byte, error) {
	return fs.ReadFile(m.MapFS, filepath.ToSlash(filepath.Clean(name)))
}

func (m memory) ReadDir(name string) ([]fs.DirEntry, error) {
	return fs.ReadDir(m.MapFS, filepath.ToSlash(filepath.Clean(name)))
}

func (m memory) Locate(r config.ModuleRequest) (config.Installed, diag.List) {
	return config.Installed{Source: r.Source.Text, Dir: filepath.Join(r.Parent.SourceDir, r.Source.Text)}, nil
}

// syntax finds references without schemas: in bodies, in every attribute.
type syntax struct{}

func exprs(list ...hcl.Expression) []eval.Reference {
	var out []eval.Reference
	for _, e := range list {
		if e != nil {
			refs, _ := eval.ExprReferences(e)
			out = append(out, refs...)
		}
	}
	return out
}

func attributes(b hcl.Body) []eval.Reference {
	var out []eval.Reference
	attrs, _ := b.JustAttributes()
	for _, name := range sortedKeys(attrs) {
		out = append(out, exprs(attrs[name].Expr)...)
	}
	return out
}

func named(list []hcl.Traversal) []eval.Reference {
	var out []eval.Reference
	for _, t := range list {
		if r, diags := addr.ParseReference(t); !diags.HasErrors() {
			out = append(out, eval.Reference{Reference: r})
		}
	}
	return out
}

func (syntax) References(n *Node) []eval.Reference {
	switch n.Kind {
	case LocalNode:
		return exprs(n.Local.Expr)
	case OutputNode:
		return exprs(n.Output.Expr)
	case CallNode:
		return exprs(n.Call.Count, n.Call.ForEach)
	case ProviderNode:
		return attributes(n.Provider.Config)
	case ResourceNode:
		return append(exprs(n.Resource.Count, n.Resource.ForEach), attributes(n.Resource.Config)...)
	}
	return nil
}

func (syntax) ArgumentReferences(call *config.Node, variable string) []eval.Reference {
	attrs, _ := call.Call.Config.JustAttributes()
	if a := attrs[variable]; a != nil {
		return exprs(a.Expr)
	}
	return nil
}

func (syntax) DependsOn(n *Node) []eval.Reference {
	switch n.Kind {
	case ResourceNode:
		return named(n.Resource.DependsOn)
	case OutputNode:
		return named(n.Output.DependsOn)
	}
	return nil
}

func (syntax) ImportReferences(*Node) []eval.Reference { return nil }

func (syntax) CallDependsOn(call *config.Node) []eval.Reference { return named(call.Call.DependsOn) }

// single answers which instance a reference names literally.
func single(c *plan.Change, n *Node) []InstanceReference {
	var out []InstanceReference
	for _, r := range (syntax{}).References(n) {
		ir := InstanceReference{Reference: r.Reference}
		if rr, ok := r.Subject.(addr.ResourceRef); ok {
			ir.Instance = rr.Resource.Absolute(c.Addr.Module).Instance(rr.Key)
		}
		out = append(out, ir)
	}
	return out
}

func everywhere(int) bool { return true }

// static loads a configuration, a map from directories to texts, and makes its plan graph.
func static(t testing.TB, modules map[string]string, prior *state.State) *Static {
	t.Helper()
	m := memory{fstest.MapFS{}}
	for dir, text := range modules {
		m.MapFS[filepath.ToSlash(filepath.Join(dir, "main.tf"))] = &fstest.MapFile{Data: []byte(text)}
	}
	tree, diags := config.NewLoader(m).LoadTree(config.TreeOptions{Locator: m})
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	s := Build(tree, prior, syntax{})
	if _, acyclic := s.Graph.Order(); !acyclic {
		t.Fatal("the plan graph has a cycle")
	}
	return s
}

func instance(t testing.TB, text string) addr.Instance {
	t.Helper()
	a, diags := addr.ParseInstance(text)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	return a
}

// change reads "t.a create-delete": an address and an action; "!" behind it means that it is created first.
func change(t testing.TB, text string) *plan.Change {
	t.Helper()
	where, action, _ := strings.Cut(text, " ")
	action, first := strings.CutSuffix(action, "!")
	where, deposed, _ := strings.Cut(where, "~")
	a := instance(t, where)
	return &plan.Change{Addr: a, Previous: a, Deposed: state.DeposedKey(deposed), Action: plan.Action(action),
		Provider:            addr.ProviderInstance{Provider: addr.DefaultProvider(a.Resource.Type)},
		CreateBeforeDestroy: first || plan.Action(action) == plan.CreateThenDelete}
}

// remembered reads "t.a: t.b t.c": an object with what it depends on.
func remembered(t testing.TB, lines ...string) *state.State {
	t.Helper()
	s := state.Empty()
	for _, line := range lines {
		where, on, _ := strings.Cut(line, ":")
		where, first := strings.CutSuffix(where, "!")
		o := &state.Object{Status: state.Ready, Attrs: []byte("{}"), CreateBeforeDestroy: first}
		var list []state.Dependency
		for _, d := range strings.Fields(on) {
			list = append(list, state.DependOn(instance(t, d).Config()))
		}
		o.Dependencies = state.DependenciesOn(list...)
		s.Apply(state.SetObject{Addr: instance(t, where),
			Provider: addr.ProviderInstance{Provider: addr.DefaultProvider("t")}, Object: o})
	}
	return s
}

// steps is an apply graph with a name for each vertex: C(t.a) makes, D(t.a) ends, other vertices have their address.
type steps struct {
	g     *dag.Graph
	names map[string]int
}

func stepsOf(g plan.Graph) steps {
	s := steps{dag.New(len(g.Vertices)), map[string]int{}}
	for i, v := range g.Vertices {
		switch {
		case v.Change >= 0 && v.Kind == plan.DestroyObject:
			s.names["D("+v.Address+")"] = i
		case v.Change >= 0:
			s.names["C("+v.Address+")"] = i
		case v.Kind == plan.CloseObject:
			s.names["close "+v.Address] = i
		case v.Address != "":
			if _, taken := s.names[v.Address]; !taken {
				s.names[v.Address] = i
			}
		}
	}
	for _, e := range g.Edges {
		s.g.Edge(int(e[0]), int(e[1]))
	}
	return s
}

// before reports whether b waits for a.
func (s steps) before(t testing.TB, a, b string) bool {
	t.Helper()
	for _, name := range []string{a, b} {
		if _, ok := s.names[name]; !ok {
			t.Fatalf("there is no %s among %v", name, s.names)
		}
	}
	return slices.Contains(s.g.Ancestors(s.names[b]), s.names[a])
}

func (s steps) acyclic(t testing.TB) {
	t.Helper()
	if cycles := s.g.Cycles(); len(cycles) > 0 {
		var loop []string
		for name, v := range s.names {
			if slices.Contains(cycles[0].Loop, v) {
				loop = append(loop, name)
			}
		}
		slices.Sort(loop)
		t.Fatalf("a cycle of %d, with %v", len(cycles[0].Loop), loop)
	}
}

func block(name, rest string) string { return "resource \"t\" \"" + name + "\" {\n" + rest + "\n}\n" }

const chain = `
resource "t" "a" {}
resource "t" "b" { 
  x = t.a.id 
}
`

const chainThroughNothing = `
resource "t" "a" {}
locals { 
  l = t.a.id 
}
resource "t" "b" {
  x = local.l
}
`

func TestTheOrderOfAnApply(t *testing.T) {
	for sentence, c := range map[string]struct {
		modules map[string]string
		prior   []string
		changes string   // separated by commas
		order   []string // chains "X < Y < Z"; "X | Y" do not wait for each other
		mode    plan.Mode
	}{
		"what is referred to is made first": {
			modules: root(chain), changes: "t.a create, t.b create", order: []string{"C(t.a) < C(t.b)"},
		},
		"what is referred to through a local value is made first": {
			modules: root(chainThroughNothing), changes: "t.a create, t.b create",
			order: []string{"C(t.a) < local.l < C(t.b)"},
		},
		"the order passes through what does not change": {
			modules: root(chain + block("c", "x = t.b.id")), changes: "t.a update, t.c update",
			order: []string{"C(t.a) < C(t.c)"},
		},
		"depends_on is an order": {
			modules: root(block("a", "") + block("b", "depends_on = [t.a]")), changes: "t.a create, t.b create",
			order: []string{"C(t.a) < C(t.b)"},
		},
		"an object ends before what it depends on ends": {
			modules: root(chain), prior: []string{"t.a", "t.b: t.a"}, changes: "t.a delete, t.b delete",
			order: []string{"D(t.b) < D(t.a)"}, mode: plan.Destroy,
		},
		"endings pass through local values": {
			modules: root(chainThroughNothing), changes: "t.a delete, t.b delete", order: []string{"D(t.b) < D(t.a)"},
			mode: plan.Destroy,
		},
		"replacements end from the top and begin from the bottom": {
			modules: root(chain), changes: "t.a delete-create, t.b delete-create",
			order: []string{"D(t.b) < D(t.a) < C(t.a) < C(t.b)"},
		},
		"what is replaced is replaced before its dependent is updated": {
			modules: root(chain), changes: "t.a delete-create, t.b update", order: []string{"D(t.a) < C(t.a) < C(t.b)"},
		},
		"what is created first ends after its dependent is updated": {
			modules: root(chain), changes: "t.a create-delete, t.b update", order: []string{"C(t.a) < C(t.b) < D(t.a)"},
		},
		"both created first end after both are made, from the top": {
			modules: root(chain), changes: "t.a create-delete, t.b create-delete",
			order: []string{"C(t.a) < C(t.b) < D(t.b) < D(t.a)"},
		},
		"what is created first below what is not": {
			modules: root(chain), changes: "t.a create-delete, t.b delete-create",
			order: []string{"C(t.a) < C(t.b) < D(t.a)", "D(t.b) < C(t.b)", "D(t.b) < D(t.a)"},
		},
		"an object is updated after what depended on it has ended": {
			modules: root(chain), changes: "t.a update, t.b delete", order: []string{"D(t.b) < C(t.a)"},
		},
		"a deposed object that was created first ends after what depends on it has changed": {
			modules: root(chain), changes: "t.a~0123abcd delete!, t.b update",
			order: []string{"C(t.b) < D(t.a (deposed object 0123abcd))"},
		},
		"a deposed object ends after what it was deposed for is made": {
			modules: root(chain), changes: "t.b create-delete, t.b~0123abcd delete",
			order: []string{"C(t.b) < D(t.b (deposed object 0123abcd))"},
		},
		"an object that the state says was created first makes what it depends on wait, too": {
			modules: root(block("a", "count = 0") + block("b", "count = 0\nx = t.a[*].id") + block("c",
				"x = t.b[*].id")),
			prior:   []string{"t.a[0]", "t.b[0]!: t.a", "t.c: t.a t.b"},
			changes: "t.a[0] delete, t.b[0] delete!, t.c update",
			order:   []string{"C(t.c) < D(t.b[0]) < D(t.a[0])"},
		},
		"unless that is replaced by ending first, so that no circle closes": {
			modules: root(block("a", "") + block("b", "count = 0\nx = t.a.id") + block("c", "x = t.b[*].id")),
			prior:   []string{"t.a", "t.b[0]!: t.a", "t.c: t.a t.b"},
			changes: "t.a delete-create, t.b[0] delete!, t.c update",
			order:   []string{"D(t.b[0]) < D(t.a) < C(t.a) < C(t.c)"},
		},
		"an orphan that was created first goes before what it depended on is replaced": {
			modules: root(block("a", "")), prior: []string{"t.a", "t.o!: t.a"},
			changes: "t.a delete-create, t.o delete!",
			order:   []string{"D(t.o) < D(t.a) < C(t.a)"},
		},
		"a deposed object makes what it depends on and what goes with it wait, so that no circle closes": {
			modules: root(block("a", "count = 0") + block("b", "x = t.a[*].id") + block("c", "x = t.b.id")),
			changes: "t.a[0] delete, t.b~0123abcd delete, t.c create",
			order:   []string{"C(t.c) < D(t.b (deposed object 0123abcd)) < D(t.a[0])"},
		},
		"an orphan ends before what it depended on changes": {
			modules: root(block("a", "")), prior: []string{"t.a", "t.o: t.a"}, changes: "t.a update, t.o delete",
			order: []string{"D(t.o) < C(t.a)"},
		},
		"an orphan ends before what depended on it changes": {
			modules: root(block("b", "")), prior: []string{"t.o", "t.b: t.o"}, changes: "t.o delete, t.b update",
			order: []string{"D(t.o) < C(t.b)"},
		},
		"an orphan that was created first ends after what depended on it has changed": {
			modules: root(block("b", "")), prior: []string{"t.o!", "t.b: t.o"}, changes: "t.o delete!, t.b update",
			order: []string{"C(t.b) < D(t.o)"},
		},
		"orphans end in the order that the state recorded": {
			modules: root(""), prior: []string{"t.o", "t.p: t.o", "t.q: t.o t.p"},
			changes: "t.o delete, t.p delete, t.q delete",
			order:   []string{"D(t.q) < D(t.p) < D(t.o)"},
		},
		"an orphan ends before a block that it depended on ends": {
			modules: root(block("a", "")), prior: []string{"t.a", "t.o: t.a"}, changes: "t.a delete, t.o delete",
			order: []string{"D(t.o) < D(t.a)"},
		},
		"what recorded an orphan ends before it": {
			modules: root(block("a", "")), prior: []string{"t.a: t.o", "t.o"}, changes: "t.a delete, t.o delete",
			order: []string{"D(t.a) < D(t.o)"},
		},
		// Only resources without a block went by what was recorded, so these ended at once.
		"an object ends before what it was made from, though its block does not refer to that any more": {
			modules: root(block("a", "") + block("b", "")), prior: []string{"t.a", "t.b: t.a"},
			changes: "t.a delete, t.b delete",
			order:   []string{"D(t.b) < D(t.a)"}, mode: plan.Destroy,
		},
		"replacing both, too": {
			modules: root(block("a", "") + block("b", "")), prior: []string{"t.a", "t.b: t.a"},
			changes: "t.a delete-create, t.b delete-create",
			order:   []string{"D(t.b) < D(t.a) < C(t.a)", "D(t.a) < C(t.b)"},
		},
		"what was recorded orders what is created first": {
			modules: root(block("a", "") + block("b", "")), prior: []string{"t.a", "t.b: t.a"},
			changes: "t.a create-delete, t.b create-delete",
			order:   []string{"C(t.b) < D(t.b) < D(t.a)", "C(t.a) < D(t.a)", "C(t.b) | C(t.a)"},
		},
		"what is created first does not wait for what its old object was made from": {
			modules: root(block("a", "") + block("b", "")), prior: []string{"t.a", "t.b: t.a"},
			changes: "t.a delete-create, t.b create-delete",
			order:   []string{"C(t.b) < D(t.b) < D(t.a) < C(t.a)"},
		},
		"what was made from something waits for its end only where nothing else forbids that": {
			modules: root(block("a", "") + block("b", "") + block("c", "x = t.b.id")),
			prior:   []string{"t.a", "t.b: t.a", "t.c: t.a t.b"},
			changes: "t.a delete-create, t.b update, t.c create-delete",
			order:   []string{"C(t.b) < C(t.c) < D(t.c) < D(t.a) < C(t.a)"},
		},
		"what was recorded passes through objects that end between": {
			modules: root(block("a", "") + block("b", "") + block("c", "")), prior: []string{"t.a", "t.b: t.a",
				"t.c: t.a t.b"},
			changes: "t.a delete, t.b delete, t.c delete", order: []string{"D(t.c) < D(t.b) < D(t.a)"},
			mode: plan.Destroy,
		},
		"what was recorded passes over objects that stay": {
			modules: root(block("a", "") + block("b", "") + block("c", "")), prior: []string{"t.a", "t.b: t.a",
				"t.c: t.a t.b"},
			changes: "t.a delete, t.b update, t.c delete", order: []string{"D(t.c) < D(t.a)", "D(t.c) < C(t.b)",
				"D(t.a) < C(t.b)"},
		},
		"what was recorded between other providers counts, unless that closes a circle": {
			modules: root(block("a", "x = u.b.id") + "resource \"u\" \"b\" {}\n"), prior: []string{"t.a", "u.b: t.a"},
			changes: "t.a delete-create, u.b delete-create", order: []string{"D(t.a) < D(u.b) < C(u.b) < C(t.a)"},
		},
		"a reference to one instance waits for that alone": {
			modules: root(block("a", "count = 2") + block("b", "x = t.a[0].id")),
			changes: "t.a[0] create, t.a[1] create, t.b create",
			order:   []string{"C(t.a[0]) < C(t.b)", "C(t.a[1]) | C(t.b)"},
		},
		"a reference to all instances waits for all": {
			modules: root(block("a", "count = 2") + block("b", "x = t.a[*].id")),
			changes: "t.a[0] create, t.a[1] create, t.b create",
			order:   []string{"C(t.a[0]) < C(t.b)", "C(t.a[1]) < C(t.b)"},
		},
		"depends_on waits for all instances, whatever else is referred to": {
			modules: root(block("a", "count = 2") + block("b", "x = t.a[0].id\ndepends_on = [t.a]")),
			changes: "t.a[0] create, t.a[1] create, t.b create",
			order:   []string{"C(t.a[0]) < C(t.b)", "C(t.a[1]) < C(t.b)"},
		},
		"blocks that do not know each other do not wait": {
			modules: root(block("a", "") + block("b", "")), changes: "t.a delete-create, t.b delete-create",
			order: []string{"C(t.a) | C(t.b)", "D(t.a) | D(t.b)", "D(t.a) | C(t.b)"},
		},
		"instances of a block do not wait for each other": {
			modules: root(block("a", "count = 2")), changes: "t.a[0] create, t.a[1] create",
			order: []string{"C(t.a[0]) | C(t.a[1])"},
		},
		"a module's argument and output are an order": {
			modules: map[string]string{
				".": block("a", "") + "module \"m\" {\nsource = \"./m\"\nv = t.a.id\n}\n" +
					block("c", "x = module.m.o"),
				"m": "variable \"v\" {}\n" + block("b", "x = var.v") + "output \"o\" {\nvalue = t.b.id\n}\n",
			},
			changes: "t.a delete-create, module.m.t.b delete-create, t.c delete-create",
			order:   []string{"D(t.c) < D(module.m.t.b) < D(t.a) < C(t.a) < C(module.m.t.b) < C(t.c)"},
		},
		"a module call's depends_on holds up all that is in it": {
			modules: map[string]string{
				".": block("a", "") + "module \"m\" {\nsource = \"./m\"\ndepends_on = [t.a]\n}\n" +
					block("c", "depends_on = [module.m]"),
				"m": block("b", ""),
			},
			changes: "t.a create, module.m.t.b create, t.c create",
			order:   []string{"C(t.a) < C(module.m.t.b) < C(t.c)"},
		},
		// It was taken for depends_on of the whole module.
		"depends_on that names an output of a module waits for what that is made from": {
			modules: map[string]string{
				".": "module \"m\" {\nsource = \"./m\"\n}\n" + block("c", "depends_on = [module.m.o]"),
				"m": block("a", "") + block("b", "") + "output \"o\" {\nvalue = t.a.id\n}\n",
			},
			changes: "module.m.t.a create, module.m.t.b create, t.c create",
			order:   []string{"C(module.m.t.a) < C(t.c)", "C(module.m.t.b) | C(t.c)"},
		},
		"a provider is configured before its resources are made or ended": {
			modules: root(block("a", "") + "provider \"u\" {\nx = t.a.id\n}\nresource \"u\" \"b\" {}\n"),
			changes: "t.a create, u.b create", order: []string{"C(t.a) < C(u.b)"},
		},
		"in a destroy, what a provider is configured with ends after its objects": {
			modules: root(block("a", "") + "locals {\nx = t.a.id\n}\nprovider \"u\" {\nx = local.x\n}\nresource " +
				"\"u\" \"b\" {}\n"),
			mode: plan.Destroy, changes: "t.a delete, u.b delete", order: []string{"D(u.b) < D(t.a)"},
		},
		"in a destroy, an ephemeral object that a provider needs is open while its objects end": {
			modules: root(block("a", "") + "ephemeral \"t\" \"e\" {\nx = t.a.id\n}\nprovider \"u\" {\nx = " +
				"ephemeral.t.e.id\n}\nresource \"u\" \"b\" {}\n"),
			mode: plan.Destroy, changes: "t.a delete, u.b delete",
			order: []string{"ephemeral.t.e < D(u.b) < D(t.a)", "D(u.b) < close ephemeral.t.e"},
		},
		"a provider is configured with what replaced something before its objects end": {
			modules: root(block("a", "") + "provider \"u\" {\nx = t.a.id\n}\n" + "resource \"u\" \"b\" {\nx = " +
				"t.a.id\n}\n"),
			changes: "t.a delete-create, u.b delete", order: []string{"D(t.a) < C(t.a) < D(u.b)"},
		},
		"a provider is configured with what changed before its objects end": {
			modules: root(block("a", "") + "provider \"u\" {\nx = t.a.id\n}\n" + "resource \"u\" \"b\" {}\n"),
			changes: "t.a update, u.b delete", order: []string{"C(t.a) < D(u.b)"},
		},
		"a provider is configured with what was read before its objects end, in their order": {
			modules: root("data \"t\" \"a\" {}\nprovider \"u\" {\nx = data.t.a.id\n}\nresource \"u\" \"b\" " +
				"{}\nresource \"u\" \"c\" {\nx = u.b.id\n}\n"),
			changes: "data.t.a read, u.b delete, u.c delete", order: []string{"C(data.t.a) < D(u.c) < D(u.b)"},
		},
		"a provider is configured with what is left of a resource before its objects end": {
			modules: root(block("a", "count = 1") + "provider \"u\" {\nx = t.a[0].id\n}\n" + "resource \"u\" \"b\" " +
				"{\nx = t.a[0].id\n}\n"),
			changes: "t.a[0] no-op, t.a[1] delete, u.b delete", order: []string{"D(t.a[1]) < D(u.b)"},
		},
		"a data source that was put off is read after what it waits for": {
			modules: root(block("a", "") + "data \"t\" \"d\" {\nx = t.a.id\n}\n" + block("b", "x = data.t.d.id")),
			changes: "t.a create, data.t.d read, t.b create", order: []string{"C(t.a) < C(data.t.d) < C(t.b)"},
		},
		"an output is evaluated after what it shows": {
			modules: root(block("a", "") + "output \"o\" {\nvalue = t.a.id\n}\n"), changes: "t.a create",
			order: []string{"C(t.a) < output.o"},
		},
		"a forgotten object is one that ends": {
			modules: root(chain), changes: "t.a forget, t.b delete", order: []string{"D(t.b) < D(t.a)"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			p := &plan.Plan{Mode: c.mode, Prior: remembered(t, c.prior...)}
			for text := range strings.SplitSeq(c.changes, ", ") {
				p.Changes = append(p.Changes, change(t, text))
			}
			g, _ := BuildApply(static(t, c.modules, p.Prior), p, ApplyOptions{Covered: everywhere, References: single})
			s := stepsOf(g)
			s.acyclic(t)
			for _, line := range c.order {
				if a, b, ok := strings.Cut(line, " | "); ok {
					if s.before(t, a, b) || s.before(t, b, a) {
						t.Errorf("one of %s and %s waits for the other", a, b)
					}
					continue
				}
				names := strings.Split(line, " < ")
				for i := range names[1:] {
					if !s.before(t, names[i], names[i+1]) {
						t.Errorf("%s does not wait for %s", names[i+1], names[i])
					}
				}
			}
		})
	}
}

func TestWhatThePlanIsNotAboutIsOrderedAndNotCarriedOut(t *testing.T) {
	s := static(t, map[string]string{".": chain + "output \"o\" {\nvalue = t.b.id\n}\n"}, nil)
	p := &plan.Plan{Changes: []*plan.Change{change(t, "t.a create"), change(t, "t.b create")}}
	g, _ := BuildApply(s, p, ApplyOptions{Covered: func(int) bool { return false }, References: single})
	for _, v := range g.Vertices {
		if v.Change < 0 && (v.Kind != plan.Sync || v.Node != (plan.Node{})) {
			t.Errorf("%s is carried out", v.Address)
		}
	}
}

// randomPlan is a configuration of a few resources that refer to earlier ones, objects (with orphans) that depend on
// each other the same way, and changes as a planning run may choose them: created first is what says so, with all that
// it depends on.
func randomPlan(t testing.TB, chance *rand.Rand) (*Static, *plan.Plan, [][2]int) {
	n := 2 + chance.IntN(7)
	name := func(i int) string { return fmt.Sprintf("t.r%d", i) }
	refers := make([][]int, n)
	var pairs [][2]int // the first depends on the second
	orphan, first := make([]bool, n), make([]bool, n)
	var text strings.Builder
	prior := make([]string, n)
	for i := range n {
		orphan[i], first[i] = chance.IntN(4) == 0, chance.IntN(4) == 0
		for j := range i {
			if chance.IntN(3) == 0 && (orphan[i] || !orphan[j]) { // a block cannot refer to what has none
				refers[i] = append(refers[i], j)
			}
		}
	}
	all := make([][]int, n) // transitively
	for i := range n {
		for _, j := range refers[i] {
			all[i] = append(append(all[i], j), all[j]...)
		}
		slices.Sort(all[i])
		all[i] = slices.Compact(all[i])
		prior[i] = name(i) + ":"
		for _, j := range all[i] {
			prior[i] += " " + name(j)
			pairs = append(pairs, [2]int{i, j})
		}
		if !orphan[i] {
			fmt.Fprintf(&text, "resource \"t\" \"r%d\" {\n", i)
			for _, j := range refers[i] {
				fmt.Fprintf(&text, "x%d = %s.id\n", j, name(j))
			}
			if first[i] {
				text.WriteString("lifecycle {\ncreate_before_destroy = true\n}\n")
			}
			text.WriteString("}\n")
		} else if first[i] {
			prior[i] = strings.Replace(prior[i], ":", "!:", 1)
		}
	}
	p := &plan.Plan{Prior: remembered(t, prior...)}
	s := static(t, map[string]string{".": text.String()}, p.Prior)
	createdFirst := CreatedFirst(s, p.Prior, everywhere)
	for i := range n {
		actions := []plan.Action{plan.NoOp, plan.Create, plan.Update, plan.Delete, plan.DeleteThenCreate, plan.Forget}
		if orphan[i] {
			actions = []plan.Action{plan.Delete, plan.Forget}
		}
		c := change(t, name(i)+" "+string(actions[chance.IntN(len(actions))]))
		c.CreateBeforeDestroy = createdFirst[c.Addr.Config()]
		if c.Action == plan.DeleteThenCreate && c.CreateBeforeDestroy {
			c.Action = plan.CreateThenDelete
		}
		p.Changes = append(p.Changes, c)
		if chance.IntN(5) == 0 {
			d := *change(t, name(i)+"~0123abcd delete")
			d.CreateBeforeDestroy = c.CreateBeforeDestroy
			p.Changes = append(p.Changes, &d)
		}
	}
	return s, p, pairs
}

func TestNoPlanHasACycleAndEndingsAreBackwards(t *testing.T) {
	for seed := range uint64(400) {
		s, p, pairs := randomPlan(t, rand.New(rand.NewPCG(seed, 7)))
		g, _ := BuildApply(s, p, ApplyOptions{Covered: everywhere, References: single})
		steps := stepsOf(g)
		if cycles := steps.g.Cycles(); len(cycles) > 0 {
			for _, c := range p.Changes {
				t.Logf("%s %s first=%v", c.Addr, c.Action, c.CreateBeforeDestroy)
			}
			t.Logf("pairs %v", pairs)
			t.Logf("seed %d", seed)
			steps.acyclic(t)
		}
		for _, pair := range pairs {
			above, below := fmt.Sprintf("t.r%d", pair[0]), fmt.Sprintf("t.r%d", pair[1])
			for _, kind := range [][2]string{{"D(" + above + ")", "D(" + below + ")"},
				{"C(" + below + ")", "C(" + above + ")"}} {
				_, one := steps.names[kind[0]]
				_, two := steps.names[kind[1]]
				if one && two && !steps.before(t, kind[0], kind[1]) {
					t.Errorf("seed %d: %s does not wait for %s", seed, kind[1], kind[0])
				}
			}
		}
	}
}

func TestWhatIsCreatedFirstMakesWhatItDependsOnSo(t *testing.T) {
	const first = "lifecycle {\ncreate_before_destroy = true\n}\n"
	for sentence, c := range map[string]struct {
		text  string
		prior []string
		want  string
	}{
		"nothing by itself": {chain, nil, ""},
		"itself":            {block("a", first), nil, "t.a"},
		"what it refers to, transitively": {block("a", "") + block("b", "x = t.a.id") + block("c",
			"x = t.b.id\n"+first), nil, "t.a t.b t.c"},
		"through a local value": {block("a", "") + "locals {\nl = t.a.id\n}\n" +
			block("b", "x = local.l\n"+first), nil, "t.a t.b"},
		"not what refers to it": {block("a", first) + block("b", "x = t.a.id"), nil, "t.a"},
		"over an explicit false": {block("a", strings.Replace(first, "true", "false", 1)) + block("b",
			"x = t.a.id\n"+first), nil, "t.a t.b"},
		"not by what the state says of an orphan": {block("a", "") + block("b", ""), []string{"t.o!: t.a"}, "t.o"},
		"not by what an orphan does not say":      {block("a", ""), []string{"t.o: t.a"}, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			prior := remembered(t, c.prior...)
			var got []string
			for r := range CreatedFirst(static(t, map[string]string{".": c.text}, prior), prior, everywhere) {
				got = append(got, r.String())
			}
			slices.Sort(got)
			if strings.Join(got, " ") != c.want {
				t.Errorf("%v", got)
			}
		})
	}
}

func TestTheClosureOfAConfigurationIsTransitive(t *testing.T) {
	for seed := range uint64(100) {
		s, _, _ := randomPlan(t, rand.New(rand.NewPCG(seed, 8)))
		c := NewClosure(s)
		for v := range s.Nodes {
			list := c.Resources(v)
			for r := range list.All() {
				begin, _ := s.ResourceVertex(r.Value())
				for further := range c.Resources(begin).All() {
					if !list.Has(further) {
						t.Fatalf("seed %d: %s waits for %s, and that for %s", seed, s.Nodes[v].Address(), r.Value(),
							further.Value())
					}
				}
			}
		}
	}
}
