package graph

import (
	"io/fs"
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

// remembered reads "t.a: t.b t.c": an object with its dependencies.
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
