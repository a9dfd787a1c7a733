package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// record is an object of a state.
type record struct {
	address  string
	pool     string
	resource addr.ConfigResource
	status   state.Status
	doubt    *state.Doubt
	recorded *state.Dependencies
	attrs    struct {
		ID   string   `json:"id"`
		Name string   `json:"name"`
		Size int      `json:"size"`
		Refs []string `json:"refs"`
	}
}

// records lists the objects that are durable in the site's state.
func (s *site) records() (list []record) {
	st, err := s.store.Load(context.Background(), "default")
	if err != nil {
		panic(err)
	}
	for _, a := range st.Addrs() {
		i := st.Instance(a)
		add := func(key state.DeposedKey, o *state.Object) {
			if o == nil {
				return
			}
			r := record{address: a.String() + string(key), pool: s.w.poolOfType(a.Config().Resource.Type),
				resource: a.Config(), status: o.Status, doubt: o.Doubt, recorded: o.Dependencies}
			if o.Attrs != nil {
				if err := json.Unmarshal(o.Attrs, &r.attrs); err != nil {
					panic(err)
				}
			}
			list = append(list, r)
		}
		add(state.CurrentObject, i.Current)
		keys := make([]state.DeposedKey, 0, len(i.Deposed))
		for k := range i.Deposed {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			add(k, i.Deposed[k])
		}
	}
	return list
}

// siteOf returns the site that an object belongs to by its name.
func (w *world) siteOf(name string) *site {
	for _, s := range w.sites {
		if strings.HasPrefix(name, s.name+"-") {
			return s
		}
	}
	return nil
}

// mustBeRecorded checks that the content of a result is in the journal of its run when its message is confirmed.
func (w *world) mustBeRecorded(ref wire.TaskRef) {
	s := w.siteOf(ref.Coordinator + "-")
	if s == nil {
		return
	}
	events, err := s.store.Events(context.Background(), ref.Run)
	if err != nil {
		return // the store has removed the run because of its age
	}
	for _, e := range events {
		switch e.Kind {
		case journal.Finish, journal.Fail, journal.Step, journal.Suspect, journal.Retract:
			if e.Attempt == string(ref.Attempt) {
				return
			}
		}
	}
	w.violate("lost", "the result of %s was acknowledged before it was durable", ref.Attempt)
}

// mustAllBeKnown checks that every object in the cloud is in the state, or in doubt there. It is called when no run of
// the site is in progress or cut off.
func (s *site) mustAllBeKnown() {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	known := map[string]bool{}
	for _, r := range s.records() {
		known[r.attrs.ID], known[r.attrs.Name] = true, true
		if r.doubt != nil {
			var sent struct{ Name string }
			_ = json.Unmarshal(r.doubt.Sent, &sent)
			known[sent.Name] = true
		}
	}
	for _, id := range w.cloud.ids() {
		if w.isByzantine(w.poolOf(w.cloud.objects[id].name())) {
			continue
		}
		if t := w.cloud.objects[id]; strings.HasPrefix(t.name(), s.name+"-") && !known[id] && !known[t.name()] {
			w.violate("lost", "%s (%s) exists, and is neither in the state of %s nor in doubt", t.name(), id, s.name)
		}
	}
}

// mustBeDurable checks that the references of an object are recorded before the object is created.
func (s *site) mustBeDurable(e *cloudRequest, id string) {
	if !slices.ContainsFunc(s.records(), func(r record) bool { return r.attrs.ID == id }) {
		s.w.violate("order", "%s of %s began while the %s that it refers to was not durable", e.verb, e.name, id)
	}
}

// mustNotBeNeeded checks, when an object begins to be deleted, that the objects to be deleted that refer to it, or that
// have recorded a dependency on its resource, were deleted before.
func (s *site) mustNotBeNeeded(e *cloudRequest) {
	if s.team != nil {
		s.team.ledger.mustNotBeNeeded(e)
		return
	}
	wanted := s.goals[s.at].names
	list := s.records()
	at := slices.IndexFunc(list, func(r record) bool { return r.attrs.ID == e.id })
	for _, r := range list {
		if slices.Contains(wanted, r.attrs.Name) {
			continue
		}
		if slices.Contains(r.attrs.Refs, e.id) {
			s.w.violate("order", "%s began to be deleted while %s, which refers to it, was still there",
				e.name, r.attrs.Name)
		}
		if at >= 0 && r.recorded.Has(state.DependOn(list[at].resource)) {
			s.w.violate("recorded order", "%s began to be deleted while %s, which was recorded to depend on it, was "+
				"still there", e.name, r.attrs.Name)
		}
	}
}

// check checks after each commit that the state has only objects that a cloud has created.
func (s *site) check() {
	for _, r := range s.records() {
		if s.w.isByzantine(r.pool) {
			continue
		}
		if r.status == state.InDoubt && r.doubt == nil {
			s.w.violate("doubt", "%s is in doubt, but the state does not say why", r.address)
		}
		if r.attrs.ID != "" && s.w.cloud.ever[r.attrs.ID] == nil {
			s.w.violate("state", "the state has %s with the ID %s, which no cloud has assigned", r.address, r.attrs.ID)
		}
	}
}

// reach records that a plan of a goal has found no changes, and compares the state with the cloud.
func (s *site) reach(goal int) {
	if goal != s.at {
		return
	}
	s.idle = s.life
	s.compare(fmt.Sprintf("at goal %d", goal))
	if s.at++; s.at == len(s.goals) {
		s.at--
		s.reached = true
	}
	s.w.note("%s has reached goal %d", s.name, goal)
}

// compare finds objects that are only in the cloud or only in the state, and objects that differ from the goal.
func (s *site) compare(when string) {
	w := s.w
	inState := map[string]bool{}
	var have []string
	for _, r := range s.records() {
		if w.isByzantine(r.pool) {
			continue
		}
		t := w.cloud.objects[r.attrs.ID]
		switch {
		case r.status == state.InDoubt:
			w.violate("doubt", "%s %s: %s is in doubt, although a plan finds no changes", s.name, when, r.address)
			continue
		case t == nil:
			w.violate("state", "%s %s: the state has %s (%s), which is not in the cloud", s.name, when,
				r.address, r.attrs.ID)
			continue
		case t.name() != r.attrs.Name:
			w.violate("state", "%s %s: %s is called %s in the state and %s in the cloud", s.name, when, r.address,
				r.attrs.Name, t.name())
		}
		if size, _ := t.value.GetAttr("size").AsBigFloat().Int64(); int(size) != r.attrs.Size {
			w.violate("state", "%s %s: the size of %s is %d in the state and %d in the cloud", s.name, when, r.address,
				r.attrs.Size, size)
		}
		inState[r.attrs.ID] = true
		have = append(have, r.attrs.Name)
	}
	for _, id := range w.cloud.ids() {
		if w.isByzantine(w.poolOf(w.cloud.objects[id].name())) {
			continue
		}
		if t := w.cloud.objects[id]; strings.HasPrefix(t.name(), s.name+"-") && !inState[id] {
			w.violate("lost", "%s %s: %s (%s) is in the cloud and not in the state", s.name, when, t.name(), id)
		}
	}
	slices.Sort(have)
	lied := func(name string) bool { return w.isByzantine(w.poolOf(name)) }
	if want := slices.DeleteFunc(slices.Clone(s.goals[s.at].names), lied); !slices.Equal(have, want) {
		w.violate("goal", "%s %s: the objects are %v, not %v", s.name, when, have, want)
	}
}

// block is a resource block of a goal.
type block struct {
	gen, size int
	refs      []int
	first     bool
	pool      string
}

// makeGoals draws the configurations that a site's user applies one after the other: some objects, then changes of all
// kinds to them, and sometimes the removal of all. Blocks drop references, so that only the state knows on which
// objects theirs depend.
func (w *world) makeGoals(name string) (goals []goal) {
	n := 2 + w.chance.IntN(w.options.objects-1)
	blocks := make([]*block, n)
	for i := range blocks {
		b := &block{gen: 1, size: 1, first: w.chance.IntN(3) == 0, pool: w.drawPool(name)}
		for j := range i {
			if w.chance.IntN(w.options.sparse) == 0 && !w.isByzantine(b.pool) && !w.isByzantine(blocks[j].pool) {
				b.refs = append(b.refs, j)
			}
		}
		blocks[i] = b
	}
	for g := range w.options.goals {
		var before []int // the generations of the blocks
		if g > 0 {
			for _, b := range blocks {
				before = append(before, b.gen)
				switch {
				case w.chance.IntN(3) == 0:
					b.size++
				case w.chance.IntN(4) == 0:
					b.gen++
				}
			}
			w.forget(blocks)
			last := len(blocks) - 1
			if w.chance.IntN(2) == 0 && last > 0 {
				blocks = blocks[:last] // no block refers to the last one
			}
		}
		goal := makeGoal(name, blocks)
		if g > 0 {
			gently := makeGoal(name, unreplaced(blocks, before))
			goal.gently = &gently
		}
		goals = append(goals, goal)
	}
	if w.chance.IntN(3) == 0 {
		w.forget(blocks)
		end := makeGoal(name, blocks)
		end.names, end.destroy = nil, true
		goals = append(goals, end)
	}
	return goals
}

// unreplaced returns the blocks without the changes that would replace their objects.
func unreplaced(blocks []*block, generations []int) []*block {
	out := make([]*block, len(blocks))
	for i, b := range blocks {
		same := *b
		same.gen = generations[i]
		out[i] = &same
	}
	return out
}

// forget removes references from blocks. If a block and a block to which it no longer refers are replaced by one plan,
// their operations may form a cycle: by its recorded dependencies, the old object must be destroyed before the one on
// which it depended; by the new references, that may have to wait until the latter was created again. See takeTwoSteps.
func (w *world) forget(blocks []*block) {
	for _, b := range blocks {
		b.refs = slices.DeleteFunc(slices.Clone(b.refs), func(int) bool { return w.chance.IntN(4) == 0 })
	}
}

// makeGoal writes a configuration.
func makeGoal(name string, blocks []*block) goal {
	goal := goal{refs: map[string][]string{}, pools: map[string]string{}, sizes: map[string]int{}}
	var text strings.Builder
	text.WriteString("terraform {\n  required_providers {\n    cloud = { source = \"example.com/sim/cloud\" " +
		"}\n  }\n}\n")
	for i, b := range blocks {
		own := b.own(name, i)
		goal.pools[own], goal.sizes[own] = b.pool, b.size
		goal.names = append(goal.names, own)
		fmt.Fprintf(&text, "resource %q \"r%d\" {\n  name = %q\n  size = %d\n  refs = [", typeIn(b.pool),
			i, own, b.size)
		for k, j := range b.refs {
			if k > 0 {
				text.WriteString(", ")
			}
			fmt.Fprintf(&text, "%s.r%d.id", typeIn(blocks[j].pool), j)
			goal.refs[own] = append(goal.refs[own], blocks[j].own(name, j))
		}
		text.WriteString("]\n")
		if b.first {
			text.WriteString("  lifecycle {\n    create_before_destroy = true\n  }\n")
		}
		text.WriteString("}\n")
	}
	goal.text = text.String()
	slices.Sort(goal.names)
	return goal
}
