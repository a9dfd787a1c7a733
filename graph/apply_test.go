package graph

import (
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
)

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
		// The data of the check waited for the change of t.a, and t.a, by its depends_on, for the data.
		"depends_on a module is no order after the data in its checks": {
			modules: map[string]string{
				".": "module \"m\" {\nsource = \"./m\"\n}\n" + block("a", "depends_on = [module.m]"),
				"m": block("b", "") + "check \"c\" {\ndata \"t\" \"d\" {}\nassert {\ncondition = " +
					"data.t.d.id != 1\nerror_message = \"e\"\n}\n}\n",
			},
			changes: "t.a create, module.m.t.b create, module.m.data.t.d read",
			order:   []string{"C(module.m.t.b) < C(t.a) < C(module.m.data.t.d)"},
		},
		// An object whose provisioner names it by the address waited for itself.
		"no object waits for itself": {
			modules: root(block("a", "x = t.a.id")), changes: "t.a create", order: []string{},
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
		// Only resources without a block were ordered by the recorded dependencies, so these ended at once.
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
