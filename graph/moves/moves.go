// Package moves executes moves on a state: those of moved blocks, and those that follow from adding or removing
// count.
//
// It changes only addresses, including those in recorded dependencies. Whether a moved object is valid at its new
// address is determined when it is planned.
package moves

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// Result is the result of moving.
type Result struct {
	// State has the new addresses. It shares its objects with the prior state, except those whose dependencies moved.
	State *state.State
	// Previous maps each moved instance to its address before all moves.
	Previous map[addr.Instance]addr.Instance
	// Explicit are those that a moved block has moved.
	Explicit map[addr.Instance]bool
}

// statement is one move with its source.
type statement struct {
	move    addr.Move
	block   *config.Moved // nil for an implied move
	implied bool
}

// Apply executes the moved blocks of a configuration. prior is not changed.
func Apply(tree *config.Tree, prior *state.State) (Result, diag.List) {
	r := Result{State: prior, Previous: map[addr.Instance]addr.Instance{}, Explicit: map[addr.Instance]bool{}}
	explicit := statements(tree)
	if diags := contradictions(explicit); diags.HasErrors() {
		return r, diags
	}
	if prior == nil || len(prior.Resources) == 0 {
		_, diags := order(explicit)
		return r, diags
	}
	all := append(explicit, implied(tree, prior, explicit)...)
	if len(all) == 0 {
		return r, nil
	}
	sequence, diags := order(all)
	if diags.HasErrors() {
		return r, diags
	}
	w := &work{state: prior.Clone(), result: &r, blocked: map[addr.Instance]addr.Instance{},
		at: map[string]map[addr.AbsResource]bool{}}
	for res := range w.state.Resources {
		w.place(res)
	}
	for _, i := range sequence {
		w.do(all[i])
	}
	w.rename()
	r.State = w.state
	return r, diags.Append(w.complaints())
}

// statements returns the moved blocks of all modules, in a fixed order.
func statements(tree *config.Tree) []statement {
	var out []statement
	paths := make([]string, 0, len(tree.Modules))
	for p := range tree.Modules {
		paths = append(paths, string(p))
	}
	sort.Strings(paths)
	for _, p := range paths {
		node := tree.Modules[addr.Module(p)]
		for _, b := range node.Module.Moved {
			if m, ok := addr.NewMove(node.Path, b.From, b.To); ok {
				out = append(out, statement{move: m, block: b})
			}
		}
	}
	return out
}

// contradictions reports statements that move an object to its own address, to several addresses, or several
// objects to one address.
func contradictions(all []statement) diag.List {
	var diags diag.List
	from, to := map[string]statement{}, map[string]statement{}
	for _, s := range all {
		a, b := s.move.FromKey(), s.move.ToKey()
		if a == b {
			diags = diags.Append(diag.New(diag.Error, "Redundant move statement",
				fmt.Sprintf("The statement moves %s to where it is, so it can be left out.", a), s.block.Range.Ptr()))
			continue
		}
		if other, ok := from[a]; ok && other.move.ToKey() != b {
			diags = diags.Append(diag.New(diag.Error, "Ambiguous move statements",
				fmt.Sprintf("By the statement at %s, %s has moved to %s, and by this one to %s. It can be at one "+
					"of them.", other.block.Range, a, other.move.ToKey(), b), s.block.Range.Ptr()))
		}
		if other, ok := to[b]; ok && other.move.FromKey() != a {
			diags = diags.Append(diag.New(diag.Error, "Ambiguous move statements",
				fmt.Sprintf("By the statement at %s, %s has moved to %s, and by this one %s has. There is room "+
					"for one.", other.block.Range, other.move.FromKey(), b, a), s.block.Range.Ptr()))
		}
		from[a], to[b] = s, s
	}
	return diags
}

// order sorts statements so that each comes after those on which it depends.
func order(all []statement) ([]int, diag.List) {
	g := dag.New(len(all))
	list := make([]addr.Move, len(all))
	for i, s := range all {
		list[i] = s.move
	}
	for _, pair := range addr.MoveOrder(list) {
		g.Edge(pair[0], pair[1])
	}
	sequence, acyclic := g.Order()
	if acyclic {
		return sequence, nil
	}
	var diags diag.List
	for _, c := range g.Cycles() {
		var lines []string
		for _, i := range c.Members {
			if s := all[i]; s.block != nil {
				lines = append(lines, fmt.Sprintf("\n  - %s: %s → %s", s.block.Range, s.move.FromKey(), s.move.ToKey()))
			}
		}
		sort.Strings(lines)
		diags = diags.Append(diag.New(diag.Error, "Cyclic dependency in move statements",
			"These moved blocks form a cycle, so the objects that they move have no final address:"+strings.Join(lines, "")+
				"\n\nEvery chain of moves must end at an address that is no other block's from.", nil))
	}
	return nil, diags
}

// work is the state during the moves.
type work struct {
	state   *state.State
	result  *Result
	blocked map[addr.Instance]addr.Instance // from, to
	// at has the resources of the state by their places; see addr.Move.Place.
	at map[string]map[addr.AbsResource]bool
}

// place records where a resource is.
func (w *work) place(r addr.AbsResource) {
	for _, p := range r.Places() {
		if w.at[p] == nil {
			w.at[p] = map[addr.AbsResource]bool{}
		}
		w.at[p][r] = true
	}
}

// covered returns the instances that a move may cover, sorted.
func (w *work) covered(m addr.Move) (out []addr.Instance) {
	only, one := m.Only()
	for r := range w.at[m.Place()] {
		instances := w.state.Resources[r].Instances
		switch {
		case !one:
			for key := range instances {
				out = append(out, r.Instance(key))
			}
		case instances[only] != nil:
			out = append(out, r.Instance(only))
		}
	}
	slices.SortFunc(out, addr.Instance.Compare)
	return out
}

// move moves an instance to an address that is free.
func (w *work) move(from, to addr.Instance) {
	w.state.Apply(state.MoveInstance{From: from, To: to})
	if w.state.Resources[from.Abs()] == nil {
		for _, p := range from.Abs().Places() {
			delete(w.at[p], from.Abs())
		}
	}
	w.place(to.Abs())
}

// rename renames the recorded dependencies on objects that have moved: they determine the order in which objects end.
func (w *work) rename() {
	moves := make(map[addr.Instance]addr.Instance, len(w.result.Previous))
	for to, from := range w.result.Previous {
		moves[from] = to
	}
	w.state.Apply(state.NewRenaming(moves, w.state).Changes(w.state)...)
}

// do executes one statement on everything that it covers.
func (w *work) do(s statement) {
	var from []addr.Instance
	to := map[addr.Instance]addr.Instance{}
	for _, a := range w.covered(s.move) {
		if target, ok := s.move.MoveInstance(a); ok && target != a {
			from = append(from, a)
			to[a] = target
		}
	}
	for _, a := range from {
		target := to[a]
		if w.state.Instance(target) != nil {
			w.blocked[a] = target
			continue
		}
		w.move(a, target)
		origin := a
		if before, moved := w.result.Previous[a]; moved {
			origin = before
			delete(w.result.Previous, a)
		}
		explicit := !s.implied || w.result.Explicit[a]
		delete(w.result.Explicit, a)
		if origin == target {
			continue
		}
		w.result.Previous[target] = origin
		if explicit {
			w.result.Explicit[target] = true
		}
	}
}

// complaints returns a warning about objects that could not be moved because the address is occupied.
func (w *work) complaints() diag.List {
	if len(w.blocked) == 0 {
		return nil
	}
	var lines []string
	for from, to := range w.blocked {
		lines = append(lines, fmt.Sprintf("\n  - %s could not move to %s", from, to))
	}
	sort.Strings(lines)
	return diag.List{diag.New(diag.Warning, "Unresolved resource instance address changes",
		"Moved blocks, or a new or removed count, ask for address changes to places where an object exists already, so "+
			"the objects stay where they are:"+
			strings.Join(lines, "")+"\n\nMillipede plans to destroy these objects. To keep them, put each at its new "+
			"address with the state commands first.", nil)}
}
