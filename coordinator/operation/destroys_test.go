package operation_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

var (
	destroysFrom = flag.Uint64("destroys-from", 0, "first seed of the random changes")
	destroys     = flag.Int("destroys", 60, "number of seeds of the random changes")
)

// A random graph is applied, changed, and planned with random options. An oracle computes from the records of the state
// and from the two configurations which objects may be destroyed, and in which order. Finally everything is destroyed.
func TestNothingIsDestroyedThatTheOracleForbids(t *testing.T) {
	for seed := *destroysFrom; seed < *destroysFrom+uint64(*destroys); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, 29))
			e := newEstate(t)
			before := randomWorld(chance)
			e.apply(before.text(), before.child())
			after := before.changed(chance)
			e.configure(after.text(), after.child())
			o := after.options(chance, e.state())
			e.judge(o, after)
			for i := range 2 { // the second destroy ends what a prevented or partial one left
				e.judge(plan.Options{Mode: plan.Destroy, SkipRefresh: i == 0 && chance.IntN(2) == 0}, after)
			}
			if left := existing(e.state()); len(left) > 0 {
				t.Errorf("a destroy leaves %v", left)
			}
		})
	}
}

// judge plans and applies, and compares the destroyed objects with those that the oracle allows.
func (e *estate) judge(o plan.Options, w *world) {
	e.t.Helper()
	stored := e.state()
	names := map[addr.Instance]string{}
	for _, a := range stored.Addrs() {
		if stored.Instance(a).Current != nil {
			names[a] = fmt.Sprint(e.attribute(a.String(), "name"))
		}
	}
	what := fmt.Sprintf("mode %d -target %v -exclude %v -replace %v, refreshing: %v", o.Mode, o.Targets, o.Excludes,
		o.Replace, !o.SkipRefresh)
	p, diags := e.tryPlan(o)
	if diags.HasErrors() {
		e.t.Fatalf("%s: %v\n%s", what, diags.Err(), w.text())
	}
	oracle := &oracle{stored: stored, o: o, world: w}
	for _, c := range p.Changes {
		if !ends(c) || c.Deposed != state.CurrentObject {
			continue
		}
		if why := oracle.forbids(c); why != "" {
			e.t.Errorf("%s: %s %s: %s\n%s", what, c.Action, c.Addr, why, w.text())
		}
	}
	_, diags = e.tryApply(p)
	if leavesGap(p, stored) && says(diags, "is applied, but its value at") {
		return // as in OpenTofu: the value of the resource has a gap that nothing fills
	}
	e.clean(diags)
	place := map[string]int{}
	for i, line := range e.cloud.done() {
		place[line] = i + 1
	}
	for x, name := range names {
		for y, on := range names {
			first, second := place["delete "+name], place["delete "+on]
			if x != y && dependsOn(stored, x, y) && !mutual(stored, x, y) && first > 0 && second > 0 && first > second {
				e.t.Errorf("%s: %s was destroyed before %s, which was made from it\n%s", what, y, x, w.text())
			}
		}
	}
}

func ends(c *plan.Change) bool {
	return slices.Contains([]plan.Action{plan.Delete, plan.DeleteThenCreate, plan.CreateThenDelete}, c.Action)
}

// dependsOn reports whether an object was made from another one, as the state recorded it.
func dependsOn(st *state.State, x, y addr.Instance) bool {
	if x.Module != y.Module && x.Module.Module() == y.Module.Module() {
		return false
	}
	return st.Instance(x).Depends(state.DependOn(y.Config()))
}

// mutual reports whether two objects depend on each other over any number of steps, by the records that were made for
// objects of their resources at different times. Nobody can destroy such a circle in the recorded order.
func mutual(st *state.State, x, y addr.Instance) bool {
	seen := map[addr.Instance]bool{}
	var open []addr.Instance
	for _, a := range st.Addrs() {
		if a.Config() == y.Config() {
			open, seen[a] = append(open, a), true
		}
	}
	for ; len(open) > 0; open = open[1:] {
		for _, on := range st.Addrs() {
			switch {
			case seen[on] || !dependsOn(st, open[0], on):
			case on.Config() == x.Config():
				return true
			default:
				open, seen[on] = append(open, on), true
			}
		}
	}
	return false
}

// leavesGap reports whether a plan destroys an instance of a counted resource, and leaves another one with a higher
// index.
func leavesGap(p *plan.Plan, st *state.State) bool {
	ended := map[addr.Instance]bool{}
	for _, c := range p.Changes {
		ended[c.Addr] = c.Action == plan.Delete
	}
	for a := range ended {
		index, counted := a.Key.Int()
		for _, other := range st.Addrs() {
			higher, ok := other.Key.Int()
			if ended[a] && counted && ok && other.Module == a.Module && other.Resource == a.Resource && higher > index &&
				!ended[other] {
				return true
			}
		}
	}
	return false
}

// oracle computes the objects that a plan may destroy. Addresses in it are those in the state, before moves.
type oracle struct {
	stored *state.State
	o      plan.Options
	world  *world // the changed configuration
}

// forbids returns why a change must not destroy its object; empty if it may.
func (j *oracle) forbids(c *plan.Change) string {
	at := c.Previous
	if j.o.Mode == plan.Destroy {
		switch {
		case len(j.o.Targets) > 0 && !j.reaches(at, j.o.Targets, j.follows):
			return "no target has it, or something that it was made from and that does not depend on it now"
		case len(j.o.Excludes) > 0 && j.reaches(at, j.o.Excludes, func(st *state.State, x, y addr.Instance) bool {
			return dependsOn(st, y, x)
		}):
			return "it is excluded, or something excluded was made from it"
		}
		return ""
	}
	b := j.world.find(c.Addr)
	orphan := b == nil || !j.world.placed(c.Addr)
	asked := slices.Contains(j.o.Replace, c.Addr) || b != nil && b.generation > 0
	switch {
	case !orphan && !asked:
		return "its block is as it was"
	case !j.covers(c.Addr):
		return "the plan does not cover it"
	case orphan && !contains(j.o.Targets, c.Addr) && j.userOutside(at) != "":
		return j.userOutside(at) + ", which is outside of the plan, was made from it"
	case orphan && j.world.kept[c.Addr.Config().String()]:
		return "a removed block keeps it"
	}
	return ""
}

// follows reports whether an object is destroyed with another one: it was made from that and, where the plan refreshes,
// the other one's block does not depend on it now.
func (j *oracle) follows(st *state.State, x, y addr.Instance) bool {
	return dependsOn(st, x, y) && (j.o.SkipRefresh || !j.world.needs(j.block(y), j.block(x)))
}

// block returns the resource in the changed configuration whose object an instance is.
func (j *oracle) block(a addr.Instance) string {
	r := a.Config()
	moved := r
	moved.Resource.Name = "s" + r.Resource.Name
	if j.world.find(a) == nil && slices.Contains(j.world.resources(), moved.String()) {
		return moved.String()
	}
	return r.String()
}

// reaches reports whether an object is in a list, or linked to one in it over any number of steps.
func (j *oracle) reaches(at addr.Instance, list []addr.Target,
	linked func(st *state.State, x, y addr.Instance) bool) bool {
	seen := map[addr.Instance]bool{at: true}
	for open := []addr.Instance{at}; len(open) > 0; open = open[1:] {
		if contains(list, open[0]) {
			return true
		}
		for _, y := range j.stored.Addrs() {
			if !seen[y] && linked(j.stored, open[0], y) {
				seen[y] = true
				open = append(open, y)
			}
		}
	}
	return false
}

// covers reports whether an ordinary plan covers an instance.
func (j *oracle) covers(a addr.Instance) bool {
	r := a.Config().String()
	touched := func(list []addr.Target, related func(string) bool) bool {
		return slices.ContainsFunc(j.world.resources(), func(other string) bool {
			return related(other) && slices.ContainsFunc(list, func(t addr.Target) bool {
				parsed, _ := addr.ParseInstance(other)
				return t.TouchesResource(parsed.Config())
			})
		})
	}
	switch {
	case len(j.o.Targets) > 0:
		return contains(j.o.Targets, a) || touched(j.o.Targets, func(other string) bool { return j.world.needs(other, r) })
	case len(j.o.Excludes) > 0:
		return !contains(j.o.Excludes, a) && !slices.ContainsFunc(j.o.Excludes, func(t addr.Target) bool {
			return t.CoversResource(a.Config())
		}) &&
			!touched(j.o.Excludes, func(other string) bool { return r != other && j.world.needs(r, other) })
	}
	return true
}

// userOutside returns an object that was made from another one, and that the plan does not cover; empty for none.
func (j *oracle) userOutside(at addr.Instance) string {
	for _, x := range j.stored.Addrs() {
		if dependsOn(j.stored, x, at) && !j.covers(x) {
			return x.String()
		}
	}
	return ""
}

func contains(list []addr.Target, a addr.Instance) bool {
	return slices.ContainsFunc(list, func(t addr.Target) bool { return t.Contains(a) })
}

// world is a configuration: blocks in the root and in a module, each with references to some that come earlier. The
// module has a place among the blocks of the root.
type world struct {
	root, inner []*randomBlock
	place       int      // the module comes before the root's block of this index
	keys        []string // of the module's for_each; nil for no call
	argument    []string // the blocks to which the module's argument refers
	statements  string
	kept        map[string]bool // the resources that removed blocks keep
}

// randomBlock is a resource block.
type randomBlock struct {
	name, label string // the label is part of its objects' names
	count       int    // -1 for no count
	generation  int    // of the name, whose change replaces the objects
	size        int
	first, only bool     // create_before_destroy; depends_on instead of references
	refers      []string // "in" and "m" are the module's argument and the module
}

func randomWorld(chance *rand.Rand) *world {
	w := &world{kept: map[string]bool{}}
	for i := range 2 + chance.IntN(4) {
		w.root = append(w.root, &randomBlock{name: fmt.Sprint("r", i), label: fmt.Sprint("r", i)})
	}
	for i := range 1 + chance.IntN(3) {
		w.inner = append(w.inner, &randomBlock{name: fmt.Sprint("c", i), label: fmt.Sprint("c", i)})
	}
	for _, b := range slices.Concat(w.root, w.inner) {
		b.count, b.first = -1, chance.IntN(5) == 0
		if chance.IntN(5) < 2 {
			b.count = 1 + chance.IntN(3)
		}
	}
	w.keys = [][]string{nil, {"a"}, {"a", "b"}}[chance.IntN(3)]
	w.connect(chance)
	return w
}

// connect chooses an order, and references in it.
func (w *world) connect(chance *rand.Rand) {
	chance.Shuffle(len(w.root), func(i, j int) { w.root[i], w.root[j] = w.root[j], w.root[i] })
	chance.Shuffle(len(w.inner), func(i, j int) { w.inner[i], w.inner[j] = w.inner[j], w.inner[i] })
	w.place, w.argument = chance.IntN(len(w.root)+1), nil
	for i, b := range w.root {
		b.refers, b.only = nil, chance.IntN(3) == 0
		for _, earlier := range w.root[:i] {
			if chance.IntN(5) < 2 {
				b.refers = append(b.refers, earlier.name)
			}
		}
		if i < w.place && chance.IntN(2) == 0 {
			w.argument = append(w.argument, b.name)
		}
		if i >= w.place && w.keys != nil && chance.IntN(2) == 0 {
			b.refers = append(b.refers, "m")
		}
	}
	for i, b := range w.inner {
		b.refers, b.only = nil, false
		for _, earlier := range w.inner[:i] {
			if chance.IntN(2) == 0 {
				b.refers = append(b.refers, earlier.name)
			}
		}
		if chance.IntN(2) == 0 {
			b.refers = append(b.refers, "in")
		}
	}
}

// changed returns another configuration for the same objects.
func (w *world) changed(chance *rand.Rand) *world {
	out := &world{keys: w.keys, place: w.place, argument: w.argument, kept: map[string]bool{}}
	for _, list := range []struct {
		from []*randomBlock
		to   *[]*randomBlock
	}{{w.root, &out.root}, {w.inner, &out.inner}} {
		for _, b := range list.from {
			same := *b
			*list.to = append(*list.to, &same)
		}
	}
	if chance.IntN(3) > 0 {
		out.connect(chance)
	}
	out.vary(chance)
	if out.keys != nil && chance.IntN(3) == 0 {
		out.keys = [][]string{{"a"}, {"b"}}[chance.IntN(2)]
	}
	if i := chance.IntN(len(out.root)); len(out.root) > 1 && chance.IntN(3) == 0 {
		out.remove(chance, i)
	} else if chance.IntN(3) == 0 {
		b := out.root[i]
		out.statements += fmt.Sprintf("moved {\n  from = fake_thing.%s\n  to   = fake_thing.s%s\n}\n", b.name, b.name)
		out.rename(b.name, "s"+b.name)
	}
	return out
}

// vary changes counts and arguments.
func (w *world) vary(chance *rand.Rand) {
	for _, b := range slices.Concat(w.root, w.inner) {
		if b.count > 0 && chance.IntN(3) == 0 {
			b.count = chance.IntN(b.count + 1)
		}
		if chance.IntN(4) == 0 {
			b.generation++
		}
		if chance.IntN(4) == 0 {
			b.size++
		}
		if chance.IntN(6) == 0 {
			b.first = !b.first
		}
	}
}

// remove removes a block of the root, sometimes with one or two removed blocks; the last of these decides.
func (w *world) remove(chance *rand.Rand, i int) {
	name := w.root[i].name
	w.root = slices.Delete(w.root, i, i+1)
	if i < w.place {
		w.place--
	}
	w.rename(name, "")
	for range chance.IntN(3) {
		destroy := chance.IntN(2) == 0
		w.kept["fake_thing."+name] = !destroy
		w.statements += fmt.Sprintf("removed {\n  from = fake_thing.%s\n  lifecycle {\n    destroy = %t\n  }\n}\n", name,
			destroy)
	}
}

// rename renames a block, or removes the references to it if the new name is empty.
func (w *world) rename(name, to string) {
	in := func(list []string) []string {
		list = slices.Clone(list)
		i := slices.Index(list, name)
		switch {
		case i < 0:
		case to == "":
			list = slices.Delete(list, i, i+1)
		default:
			list[i] = to
		}
		return list
	}
	for _, b := range w.root {
		if b.name == name {
			b.name = to
		}
		b.refers = in(b.refers)
	}
	w.argument = in(w.argument)
}

// options chooses what is planned. Moves and partial plans do not go together.
func (w *world) options(chance *rand.Rand, st *state.State) (o plan.Options) {
	if chance.IntN(3) == 0 {
		o.Mode = plan.Destroy
	}
	o.SkipRefresh = chance.IntN(4) == 0
	var addresses []string
	for _, a := range st.Addrs() {
		addresses = append(addresses, a.String(), a.Config().String())
	}
	addresses = append(addresses, `module.m["a"]`, "fake_thing.r0[7]", "fake_thing.nosuch")
	pick := func() []addr.Target { return targets(addresses[chance.IntN(len(addresses))]) }
	switch kind := chance.IntN(4); {
	case strings.Contains(w.statements, "moved"):
	case kind == 0:
		o.Targets = append(pick(), pick()...)[:1+chance.IntN(2)]
	case kind == 1:
		o.Excludes = append(pick(), pick()...)[:1+chance.IntN(2)]
	}
	if all := st.Addrs(); o.Mode == plan.Normal && chance.IntN(3) == 0 && len(all) > 0 {
		o.Replace = []addr.Instance{all[chance.IntN(len(all))]}
	}
	return o
}

func (w *world) text() string {
	var out strings.Builder
	for i := range len(w.root) + 1 {
		if i == w.place && w.keys != nil {
			fmt.Fprintf(&out, "module \"m\" {\n  source   = \"./child\"\n  for_each = toset([\"%s\"])\n  key      = "+
				"each.key\n  in       = %s\n}\n",
				strings.Join(w.keys, `", "`), joined(w.argument))
		}
		if i < len(w.root) {
			out.WriteString(w.root[i].text(`"`))
		}
	}
	return out.String() + w.statements
}

func (w *world) child() string {
	var names []string
	text := "variable \"key\" {}\nvariable \"in\" {}\n"
	for _, b := range w.inner {
		text += b.text(`"${var.key}-`)
		names = append(names, b.name)
	}
	return text + "output \"out\" {\n  value = " + joined(names) + "\n}\n"
}

// joined returns an expression with the IDs of some resources.
func joined(names []string) string {
	parts := []string{}
	for _, name := range names {
		switch name {
		case "in":
			parts = append(parts, "[var.in]")
		case "m":
			parts = append(parts, "values(module.m)[*].out")
		default:
			parts = append(parts, "fake_thing."+name+"[*].id")
		}
	}
	return `join(",", flatten([` + strings.Join(parts, ", ") + `]))`
}

func (b *randomBlock) text(quote string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "resource \"fake_thing\" %q {\n", b.name)
	index := ""
	if b.count >= 0 {
		fmt.Fprintf(&out, "  count = %d\n", b.count)
		index = "-${count.index}"
	}
	fmt.Fprintf(&out, "  name = %s%s-%d%s\"\n  size = %d\n", quote, b.label, b.generation, index, b.size)
	if b.only && !slices.Contains(b.refers, "m") && len(b.refers) > 0 {
		fmt.Fprintf(&out, "  depends_on = [fake_thing.%s]\n", strings.Join(b.refers, ", fake_thing."))
	} else {
		fmt.Fprintf(&out, "  note = %s\n", joined(b.refers))
	}
	if b.first {
		out.WriteString("  lifecycle {\n    create_before_destroy = true\n  }\n")
	}
	return out.String() + "}\n"
}

// find returns the block of an instance, or nil.
func (w *world) find(a addr.Instance) *randomBlock {
	list := w.root
	if !a.Module.IsRoot() {
		list = w.inner
	}
	for _, b := range list {
		if b.name == a.Resource.Name {
			return b
		}
	}
	return nil
}

// placed reports whether the configuration has a place for an instance.
func (w *world) placed(a addr.Instance) bool {
	if !a.Module.IsRoot() && !slices.ContainsFunc(w.keys, func(k string) bool {
		return a.Module.String() == fmt.Sprintf("module.m[%q]", k)
	}) {
		return false
	}
	b := w.find(a)
	i, counted := a.Key.Int()
	return b != nil && (b.count < 0 && a.Key == addr.NoKey || counted && i < b.count)
}

// resources returns the resources that have a block.
func (w *world) resources() (out []string) {
	for _, b := range w.root {
		out = append(out, "fake_thing."+b.name)
	}
	if w.keys != nil {
		for _, b := range w.inner {
			out = append(out, "module.m.fake_thing."+b.name)
		}
	}
	return out
}

// needs reports whether a resource is another one, or refers to it over any number of steps.
func (w *world) needs(r, other string) bool {
	if r == other {
		return true
	}
	name, inner := strings.CutPrefix(r, "module.m.")
	list := w.root
	if inner {
		list = w.inner
	}
	i := slices.IndexFunc(list, func(b *randomBlock) bool { return "fake_thing."+b.name == name })
	if i < 0 {
		return false
	}
	var on []string
	for _, ref := range list[i].refers {
		switch {
		case ref == "in":
			for _, root := range w.argument {
				on = append(on, "fake_thing."+root)
			}
		case ref == "m":
			for _, b := range w.inner {
				on = append(on, "module.m.fake_thing."+b.name)
			}
		case inner:
			on = append(on, "module.m.fake_thing."+ref)
		default:
			on = append(on, "fake_thing."+ref)
		}
	}
	return slices.ContainsFunc(on, func(next string) bool { return w.needs(next, other) })
}
