package moves

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// memory is a file system in memory, in which modules are in the directories of their callers.
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

// load loads a configuration, a map from directories to texts.
func load(t *testing.T, modules map[string]string) *config.Tree {
	t.Helper()
	m := memory{fstest.MapFS{}}
	for dir, text := range modules {
		m.MapFS[filepath.ToSlash(filepath.Join(dir, "main.tf"))] = &fstest.MapFile{Data: []byte(text)}
	}
	tree, diags := config.NewLoader(m).LoadTree(config.TreeOptions{Locator: m})
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	return tree
}

// existing returns a state with objects. Each object stores its first address.
func existing(t *testing.T, addresses ...string) *state.State {
	t.Helper()
	s := state.Empty()
	for _, text := range addresses {
		a, diags := addr.ParseInstance(text)
		if diags.HasErrors() {
			t.Fatal(diags.Err())
		}
		s.Apply(state.SetObject{Addr: a, Provider: addr.ProviderInstance{Provider: addr.DefaultProvider("t")},
			Object: &state.Object{Status: state.Ready, Attrs: []byte(text)}})
	}
	return s
}

// whereabouts lists "first address -> address" for each object that is not where it began.
func whereabouts(s *state.State) []string {
	var out []string
	for _, a := range s.Addrs() {
		if from := string(s.Instance(a).Current.Attrs); from != a.String() {
			out = append(out, from+" -> "+a.String())
		}
	}
	slices.Sort(out)
	return out
}

func moved(from, to string) string { return "moved {\n from = " + from + "\n to = " + to + "\n}\n" }

func call(name, rest string) string {
	return "module \"" + name + "\" {\n source = \"./" + name + "\"\n" + rest + "\n}\n"
}

func block(name, rest string) string { return "resource \"t\" \"" + name + "\" {\n" + rest + "\n}\n" }

func TestWhereObjectsMove(t *testing.T) {
	for sentence, c := range map[string]struct {
		modules map[string]string
		prior   []string
		want    []string // the result of whereabouts
		warning string   // part of the warning's detail; none if empty
	}{
		"a resource is renamed": {
			map[string]string{".": block("b", "") + moved("t.a", "t.b")},
			[]string{"t.a"}, []string{"t.a -> t.b"}, "",
		},
		"a resource is renamed with all its instances": {
			map[string]string{".": block("b", "count = 2") + moved("t.a", "t.b")},
			[]string{"t.a[0]", "t.a[1]"}, []string{"t.a[0] -> t.b[0]", "t.a[1] -> t.b[1]"}, "",
		},
		"what is moved out of a module is not moved with it": {
			map[string]string{".": call("n", "") + block("z", "") + moved("module.m", "module.n") +
				moved("module.m.t.a", "t.z"), "n": block("a", "") + block("b", "")},
			[]string{"module.m.t.a", "module.m.t.b"},
			[]string{"module.m.t.a -> t.z", "module.m.t.b -> module.n.t.b"}, "",
		},
		"a chain leads to its end from its beginning": {
			map[string]string{".": block("c", "") + moved("t.b", "t.c") + moved("t.a", "t.b")},
			[]string{"t.a"}, []string{"t.a -> t.c"}, "",
		},
		"a chain leads to its end from its middle": {
			map[string]string{".": block("c", "") + moved("t.b", "t.c") + moved("t.a", "t.b")},
			[]string{"t.b"}, []string{"t.b -> t.c"}, "",
		},
		"a chain of instances leads to its end, whatever the order of the blocks": {
			map[string]string{".": block("c", "count = 1") + moved("t.b[0]", "t.c[0]") + moved("t.a[0]", "t.b[0]")},
			[]string{"t.a[0]"}, []string{"t.a[0] -> t.c[0]"}, "",
		},
		"a chain makes room from its end": {
			map[string]string{".": block("b", "") + block("c", "") + moved("t.b", "t.c")},
			[]string{"t.b"}, []string{"t.b -> t.c"}, "",
		},
		"an instance gets another key": {
			map[string]string{".": block("a", "for_each = toset([\"x\"])") + moved("t.a[0]", "t.a[\"x\"]")},
			[]string{"t.a[0]", "t.a[1]"}, []string{`t.a[0] -> t.a["x"]`}, "",
		},
		"an instance gets its first key": {
			map[string]string{".": block("a", "for_each = toset([\"x\"])") + moved("t.a", "t.a[\"x\"]")},
			[]string{"t.a"}, []string{`t.a -> t.a["x"]`}, "",
		},
		"a key's instance becomes another resource": {
			map[string]string{".": block("a", "count = 1") + block("b", "") + moved("t.a[1]", "t.b")},
			[]string{"t.a[0]", "t.a[1]"}, []string{"t.a[1] -> t.b"}, "",
		},
		"adding count moves the one instance to the first": {
			map[string]string{".": block("a", "count = 2")},
			[]string{"t.a"}, []string{"t.a -> t.a[0]"}, "",
		},
		"removing count moves the first instance to the only one": {
			map[string]string{".": block("a", "")},
			[]string{"t.a[0]", "t.a[1]"}, []string{"t.a[0] -> t.a"}, "",
		},
		"adding for_each moves nothing by itself": {
			map[string]string{".": block("a", "for_each = toset([\"x\"])")},
			[]string{"t.a"}, nil, "",
		},
		// There was no warning about it, as if the object at the old address were to be destroyed for no reason.
		"an implied move to a place that is taken is none, with a warning": {
			map[string]string{".": block("a", "count = 2")},
			[]string{"t.a", "t.a[0]"}, nil, "\n  - t.a could not move to t.a[0]",
		},
		"an explicit move is preferred to an implied one": {
			map[string]string{".": block("a", "count = 2") + moved("t.a", "t.a[1]")},
			[]string{"t.a"}, []string{"t.a -> t.a[1]"}, "",
		},
		"adding count to a module call moves what is in it": {
			map[string]string{".": call("m", "count = 1"), "m": block("a", "")},
			[]string{"module.m.t.a"}, []string{"module.m.t.a -> module.m[0].t.a"}, "",
		},
		"removing count from a module call moves what is in it": {
			map[string]string{".": call("m", ""), "m": block("a", "")},
			[]string{"module.m[0].t.a"}, []string{"module.m[0].t.a -> module.m.t.a"}, "",
		},
		"a module is renamed with all below it": {
			map[string]string{".": call("m", "") + moved("module.old", "module.m"), "m": block("a", "") + call("n", ""),
				"m/n": block("b", "")},
			[]string{"module.old.t.a", "module.old.module.n.t.b"},
			[]string{"module.old.module.n.t.b -> module.m.module.n.t.b", "module.old.t.a -> module.m.t.a"}, "",
		},
		"a block in a module counts in each of its instances": {
			map[string]string{".": call("m", "count = 2"), "m": block("b", "") + moved("t.a", "t.b")},
			[]string{"module.m[0].t.a", "module.m[1].t.a"},
			[]string{"module.m[0].t.a -> module.m[0].t.b", "module.m[1].t.a -> module.m[1].t.b"}, "",
		},
		"a module moves before what is in it": {
			map[string]string{".": call("m", "") + moved("module.old", "module.m"),
				"m": block("b", "") + moved("t.a", "t.b")},
			[]string{"module.old.t.a"}, []string{"module.old.t.a -> module.m.t.b"}, "",
		},
		"a resource goes into a module": {
			map[string]string{".": call("m", "") + moved("t.a", "module.m.t.b"), "m": block("b", "")},
			[]string{"t.a"}, []string{"t.a -> module.m.t.b"}, "",
		},
		"a resource comes out of a module": {
			map[string]string{".": block("a", "") + moved("module.m.t.b", "t.a")},
			[]string{"module.m.t.b"}, []string{"module.m.t.b -> t.a"}, "",
		},
		"a module instance gets a key": {
			map[string]string{".": call("m", "for_each = toset([\"x\"])") + moved("module.m", "module.m[\"x\"]"),
				"m": block("a", "")},
			[]string{"module.m.t.a"}, []string{`module.m.t.a -> module.m["x"].t.a`}, "",
		},
		"what would move to a place that is taken stays, with a warning": {
			map[string]string{".": block("b", "") + moved("t.a", "t.b")},
			[]string{"t.a", "t.b"}, nil, "\n  - t.a could not move to t.b",
		},
		"of several instances only those stay whose place is taken": {
			map[string]string{".": block("b", "count = 2") + moved("t.a", "t.b")},
			[]string{"t.a[0]", "t.a[1]", "t.b[1]"}, []string{"t.a[0] -> t.b[0]"},
			"\n  - t.a[1] could not move to t.b[1]",
		},
		"a block about nothing that exists does nothing": {
			map[string]string{".": block("b", "") + moved("t.a", "t.b")},
			[]string{"t.b"}, nil, "",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			prior := existing(t, c.prior...)
			r, diags := Apply(load(t, c.modules), prior)
			if diags.HasErrors() {
				t.Fatal(diags.Err())
			}
			if got := whereabouts(r.State); !slices.Equal(got, c.want) {
				t.Errorf("%q instead of %q", got, c.want)
			}
			if len(whereabouts(prior)) > 0 {
				t.Error("the state before was changed")
			}
			var previous []string
			for to, from := range r.Previous {
				previous = append(previous, from.String()+" -> "+to.String())
			}
			slices.Sort(previous)
			if !slices.Equal(previous, c.want) {
				t.Errorf("it says that %q moved", previous)
			}
			switch {
			case c.warning == "" && len(diags) > 0:
				t.Errorf("a warning: %v", diags)
			case c.warning != "" && (len(diags) != 1 || !strings.Contains(diags[0].Detail, c.warning)):
				t.Errorf("the warning is %v", diags)
			}
		})
	}
}

func TestOnlyMovesOfBlocksAreExplicit(t *testing.T) {
	tree := load(t, map[string]string{".": block("a", "count = 1") + block("c", "") + moved("t.b", "t.c")})
	r, diags := Apply(tree, existing(t, "t.a", "t.b"))
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	var explicit []string
	for a := range maps.Keys(r.Explicit) {
		explicit = append(explicit, a.String())
	}
	if len(r.Previous) != 2 || !slices.Equal(explicit, []string{"t.c"}) {
		t.Errorf("%v moved, %v of them explicitly", r.Previous, explicit)
	}
}

func TestACycleOfMovesIsAnErrorThatNamesThem(t *testing.T) {
	for sentence, c := range map[string]struct{ text, where string }{
		"of two resources": {moved("t.a", "t.b") + moved("t.b", "t.a"), "t.a[*] → t.b[*]"},
		"of three":         {moved("t.a", "t.b") + moved("t.b", "t.c") + moved("t.c", "t.a"), "t.c[*] → t.a[*]"},
		"of two instances": {moved("t.a[0]", "t.a[1]") + moved("t.a[1]", "t.a[0]"), "t.a[0] → t.a[1]"},
		"of a module and what it has, into the same module": {
			moved("module.a", "module.b") + moved("module.a.t.x[1]", "module.b.t.x[3]"),
			"module.a[*] → module.b[*]"},
		// The call moved first, and the instance to the key that it did not have.
		"of a call and an instance of it": {moved("module.a", "module.b") + moved("module.a[0]", "module.b[1]"),
			"module.a[0] → module.b[1]"},
		"of two modules": {moved("module.a", "module.b") + moved("module.b", "module.a"),
			"module.a[*] → module.b[*]"},
	} {
		for state, prior := range map[string]*state.State{"with objects": existing(t, "t.a"),
			"without objects": state.Empty(), "without a state": nil} {
			t.Run(sentence+" "+state, func(t *testing.T) {
				_, diags := Apply(load(t, map[string]string{".": c.text}), prior)
				if !diags.HasErrors() || diags[0].Summary != "Cyclic dependency in move statements" ||
					!strings.Contains(diags[0].Detail, c.where) {
					t.Errorf("%v", diags)
				}
			})
		}
	}
}

func TestWithoutAStateNothingMoves(t *testing.T) {
	tree := load(t, map[string]string{".": block("b", "") + moved("t.a", "t.b")})
	if r, diags := Apply(tree, nil); r.State != nil || len(r.Previous) > 0 || len(diags) > 0 {
		t.Errorf("%v, %v", r, diags)
	}
}

// Each block was compared with each other one, and each looked at all instances: 20,000 blocks took minutes.
func TestManyMovesTakeTimeWithTheirNumber(t *testing.T) {
	for _, c := range []struct{ name, from, to string }{
		{"a chain of resources", "t.r%d", "t.r%d"}, {"a chain of instances", "t.r[%d]", "t.r[%d]"},
		{"a chain of modules", "module.m[%d]", "module.m[%d]"}, {"into a module", "t.r%d", "module.m.t.r%d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			took := func(n int) time.Duration {
				tree, s := &config.Tree{Modules: map[addr.Module]*config.Node{"": {Module: &config.Module{}}}}, state.Empty()
				for i := range n {
					from, to := fmt.Sprintf(c.from, i), fmt.Sprintf(c.to, i)
					if strings.HasPrefix(c.name, "a chain") {
						to = fmt.Sprintf(c.to, i+1)
					}
					tree.Modules[""].Module.Moved = append(tree.Modules[""].Module.Moved, movedBlock(t, from, to))
				}
				at, first := strings.Replace(fmt.Sprintf(c.from, 0), "module.m[0]", "module.m[0].t.x", 1), n
				for i := range n {
					a, _ := addr.ParseInstance(fmt.Sprintf("t.other[%d]", i))
					if i == 0 {
						a, _ = addr.ParseInstance(at)
					}
					s.Apply(state.SetObject{Addr: a, Provider: addr.ProviderInstance{Provider: addr.DefaultProvider("t")},
						Object: &state.Object{Status: state.Ready}})
				}
				began := time.Now()
				r, diags := Apply(tree, s)
				if diags.HasErrors() || len(r.Previous) != 1 || len(r.State.Addrs()) != first {
					t.Fatal(len(r.Previous), diags.Err())
				}
				return time.Since(began)
			}
			few := took(1000)
			if many := took(10_000); many > 50*few+time.Second { // 100 times, when it was the square
				t.Errorf("1,000 blocks take %s, 10,000 take %s", few, many)
			}
		})
	}
}

func movedBlock(t *testing.T, from, to string) *config.Moved {
	t.Helper()
	end := func(text string) *addr.MoveEndpoint {
		trav, diags := hclsyntax.ParseTraversalAbs([]byte(text), "", hcl.InitialPos)
		e, more := addr.ParseMoveEndpoint(trav)
		if diags.HasErrors() || more.HasErrors() {
			t.Fatal(diags, more.Err())
		}
		return e
	}
	return &config.Moved{From: end(from), To: end(to)}
}
