package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/graph/plan"
)

// team simulates people who change one state at the same time with a service. Each person has a branch of the common
// configuration with some changes, and plans and applies until all of them are applied. Then the changes are merged.
type team struct {
	s      *site
	dir    string
	chance *rand.Rand
	ledger *ledger

	// Guarded by the world's lock.
	people       []*person
	main         []thingBlock // the common configuration
	next         int          // index of the next new block
	snapshot     []byte
	runs         map[string]*teamRun
	opened       int  // the number of phases that were begun
	diesInCommit bool // the service dies during its next commit
	diesAfterEnd bool // the service dies soon after the next end of a run, before it has reported that
	closing      bool // all people have reached their goals, and the last plan is made
}

// person is one of the people who change the state.
type person struct {
	*team
	name   string
	rounds []round
	at     int
	runs   int

	run   *teamRun // the last run that this person has queued
	phase phase
	// stops are the remaining interrupts of the operation in progress, as in site.presses; since is when it began.
	stops []context.CancelCauseFunc
	since time.Time
}

// round is the goal of a person: some changes of the configuration.
type round struct {
	edits []edit
	// targeted is set if the plans have the changed blocks as targets.
	targeted bool
	// refresh is set if the runs only read the existing objects, and changed if the plans read only objects that may
	// change.
	refresh, changed bool
}

// phase is the progress of a person's run.
type phase int

const (
	idle phase = iota
	planned
	applies
)

// teamRun is a run of the service.
type teamRun struct {
	id      string // the ID of the run and of its request for locks
	blocks  []thingBlock
	round   round
	saved   []byte // the plan
	writes  map[string]bool
	changes []*plan.Change
	outputs []string
	journal string // the ID in the journal; empty before the run has begun
	closing bool
}

// thingBlock is a block of the team's configuration.
type thingBlock struct {
	index, gen, size int
	refs             []int
	as               int // the block from whose object the size is taken, or -1
	first            bool
}

func (b thingBlock) own(site string) string { return fmt.Sprintf("%s-r%d-%d", site, b.index, b.gen) }

func (b thingBlock) address() string { return fmt.Sprintf("%s.r%d", typeIn(honest), b.index) }

// edit is a change of one block.
type edit struct {
	kind  editKind
	index int
	block thingBlock // of an addition
	size  int
	refs  []int
}

type editKind int

const (
	adds editKind = iota
	resizes
	refers
	replaces
	removes
)

// teamed reports whether a seed simulates a state that several people change at once.
func teamed(seed uint64) bool { return seed%5 == 1 }

func at(blocks []thingBlock, index int) int {
	return slices.IndexFunc(blocks, func(b thingBlock) bool { return b.index == index })
}

// apply applies the edit to a configuration, unless it is impossible there.
func (e edit) apply(blocks []thingBlock) []thingBlock {
	blocks = slices.Clone(blocks)
	there := func(refs []int) []int {
		return slices.DeleteFunc(slices.Clone(refs), func(j int) bool { return at(blocks, j) < 0 })
	}
	i := at(blocks, e.index)
	if e.kind == adds {
		if i >= 0 {
			return blocks
		}
		b := e.block
		if b.refs = there(b.refs); b.as >= 0 && at(blocks, b.as) < 0 {
			b.as = -1
		}
		blocks = append(blocks, b)
		slices.SortFunc(blocks, func(a, b thingBlock) int { return a.index - b.index })
		return blocks
	}
	if i < 0 {
		return blocks
	}
	switch b := &blocks[i]; e.kind {
	case resizes:
		b.as, b.size = -1, e.size
	case refers:
		b.refs = there(e.refs)
	case replaces:
		b.gen = max(b.gen, e.size)
	case removes:
		for _, other := range blocks {
			if slices.Contains(other.refs, e.index) || other.as == e.index {
				return blocks
			}
		}
		blocks = slices.Delete(blocks, i, i+1)
	}
	return blocks
}

// newTeam draws people and their goals.
func (w *world) newTeam(s *site, dir string) *team {
	t := &team{s: s, dir: dir, chance: rand.New(rand.NewPCG(w.seed, 5)), runs: map[string]*teamRun{}}
	t.ledger = newLedger(t)
	s.team = t
	for range 5 + t.chance.IntN(8) {
		t.main = append(t.main, t.newBlock())
	}
	n := 2 + t.chance.IntN(3)
	for i := range n {
		p := &person{team: t, name: fmt.Sprintf("%sh%d", s.name, i+1)}
		if i == 0 { // the first person creates the initial objects while the others wait
			p.rounds = append(p.rounds, round{})
		}
		for range 1 + t.chance.IntN(3) {
			p.rounds = append(p.rounds, t.newRound(i, n))
		}
		t.people = append(t.people, p)
	}
	s.goals = []goal{t.goal()}
	return t
}

func (t *team) newBlock() thingBlock {
	b := thingBlock{index: t.next, gen: 1, size: 1 + t.chance.IntN(9), as: -1, first: t.chance.IntN(3) == 0}
	for j := range t.next {
		switch t.chance.IntN(7) {
		case 0:
			b.refs = append(b.refs, j)
		case 1:
			b.as = j
		}
	}
	t.next++
	return b
}

// newRound draws the goal of one of n people. Most of its changes are of blocks that nobody else changes.
func (t *team) newRound(i, n int) (r round) {
	if t.chance.IntN(12) == 0 {
		return round{refresh: true}
	}
	r.targeted, r.changed = t.chance.IntN(3) == 0, t.chance.IntN(4) == 0
	for range 1 + t.chance.IntN(2) {
		e := edit{kind: editKind(t.chance.IntN(5)), index: t.chance.IntN(t.next)}
		if own := e.index - e.index%n + i; own < t.next && t.chance.IntN(2) == 0 {
			e.index = own
		}
		if r.targeted && e.kind >= replaces { // the dependents are not targets, so the run would not update them
			e.kind = resizes
		}
		switch e.kind {
		case adds:
			e.block = t.newBlock()
			e.index = e.block.index
		case resizes:
			e.size = 10 + t.chance.IntN(1000)
		case replaces:
			e.size = 2 + t.chance.IntN(3)
		case refers:
			for j := range e.index {
				if t.chance.IntN(3) == 0 {
					e.refs = append(e.refs, j)
				}
			}
		}
		r.edits = append(r.edits, e)
	}
	return r
}

// goal returns the common configuration, as a goal of the site.
func (t *team) goal() goal {
	g := goal{text: configuration(t.s.name, t.main), refs: map[string][]string{}, pools: map[string]string{},
		sizes: map[string]int{}}
	for _, b := range t.main {
		g.names = append(g.names, b.own(t.s.name))
	}
	slices.Sort(g.names)
	return g
}

// configuration returns the text of a configuration with the blocks.
func configuration(site string, blocks []thingBlock) string {
	var text strings.Builder
	text.WriteString("terraform {\n  required_providers {\n    cloud = { source = \"example.com/sim/cloud\" " +
		"}\n  }\n}\n")
	for _, b := range blocks {
		size := fmt.Sprint(b.size)
		if b.as >= 0 {
			size = thingBlock{index: b.as}.address() + ".size"
		}
		var refs []string
		for _, j := range b.refs {
			refs = append(refs, thingBlock{index: j}.address()+".id")
		}
		fmt.Fprintf(&text, "resource %q \"r%d\" {\n  name = %q\n  size = %s\n  refs = [%s]\n", typeIn(honest), b.index,
			b.own(site), size, strings.Join(refs, ", "))
		if b.first {
			text.WriteString("  lifecycle {\n    create_before_destroy = true\n  }\n")
		}
		text.WriteString("}\n")
		if b.index%2 == 0 {
			fmt.Fprintf(&text, "output \"o%d\" {\n  value = %s.size\n}\n", b.index, b.address())
		}
	}
	return text.String()
}

// work restarts the service, and interrupts operations that take too long.
func (t *team) work() {
	s := t.s
	if s.reached {
		return
	}
	if s.current == nil {
		t.start()
	}
	for _, p := range t.people {
		calm := time.Since(s.w.began) - s.w.options.chaos
		if len(p.stops) > 0 && min(calm, time.Since(p.since)) > longest {
			s.w.violate("serial", "%s waits for ever: the last fault was %s ago", p.name, calm)
		}
		if len(p.stops) > 0 && time.Since(p.since) > longest {
			s.w.note("%s interrupts the command", p.name)
			p.press()
			p.since = time.Now()
		}
	}
	s.w.after(s.w.between(500*time.Millisecond, 3*time.Second), s.work)
}

// longest is much more time than any operation of a team takes, including the time that it waits for others.
const longest = 10 * time.Minute

// interrupt cancels a person's run, once or twice.
func (t *team) interrupt() {
	w := t.s.w
	p := t.people[w.chance.IntN(len(t.people))]
	times := 1 + w.chance.IntN(2)
	if len(p.stops) == 0 {
		return
	}
	w.faults["run of a team cancelled"]++
	w.note("%s cancels", p.name)
	for range times {
		p.press()
	}
}

func (p *person) press() {
	if len(p.stops) > 0 {
		p.stops[0](operation.ErrInterrupted)
		p.stops = p.stops[1:]
	}
}

// isAlive reports whether the apply with a request for locks is in progress, or will be resumed.
func (t *team) isAlive(request string) bool {
	t.s.w.mu.Lock()
	defer t.s.w.mu.Unlock()
	return slices.ContainsFunc(t.people, func(p *person) bool {
		return p.run != nil && p.run.id == request && p.phase == applies
	})
}

// order queues a run of a person, with that person's changes added to the common configuration. The caller holds the
// world's lock.
func (p *person) order() *teamRun {
	p.runs++
	r := &teamRun{id: fmt.Sprintf("%sr%d", p.name, p.runs), blocks: slices.Clone(p.main), closing: p.closing}
	if p.at < len(p.rounds) {
		r.round = p.rounds[p.at]
	}
	for _, e := range r.round.edits {
		r.blocks = e.apply(r.blocks)
	}
	p.run, p.phase = r, idle
	p.team.runs[r.id] = r
	p.s.life++
	return r
}

// achieve records that a person's goal is reached. The caller holds the world's lock.
func (p *person) achieve(r *teamRun) {
	w := p.s.w
	p.s.idle = p.s.life
	if r.closing {
		p.s.reached = true
		w.note("%s is finished", p.s.name)
		return
	}
	w.note("%s has what it wanted (%d)", p.name, p.at)
	for _, e := range r.round.edits {
		p.main = e.apply(p.main)
	}
	p.s.goals[0] = p.goal()
	p.at++
	p.closing = !slices.ContainsFunc(p.people, func(p *person) bool { return p.at < len(p.rounds) })
}

// idles reports whether a person has nothing to do. The caller holds the world's lock.
func (p *person) idles() bool {
	if p.s.reached || p != p.people[0] && p.people[0].at == 0 {
		return true
	}
	return p.at == len(p.rounds) && !(p.closing && p == p.people[0])
}

// directory returns the directory of a run's configuration.
func (t *team) directory(r *teamRun) string { return filepath.Join(t.dir, "runs", r.id) }
