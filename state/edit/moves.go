package edit

import (
	"fmt"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// Move is one move of state mv, with the instances that it covers.
type Move struct {
	From, To  string
	instances []instanceMove
}

type instanceMove struct{ from, to addr.Instance }

// PlannedMoves returns the moves that bring the objects at one address to another. source and target are the same
// state unless the objects move to another one.
func PlannedMoves(source, target *state.State, from, to addr.Target) ([]Move, diag.List) {
	isModule := func(t addr.Target) bool {
		return t.Kind == addr.TargetModule || t.Kind == addr.TargetModuleInstance
	}
	if isModule(from) {
		if !isModule(to) {
			return nil, invalidDestination("Cannot move %s to %s: the target must also be a module.", from, to)
		}
		return moduleMoves(source, target, from, to)
	}
	if isModule(to) {
		return nil, invalidDestination("Cannot move %s to %s: the target must also be a resource instance.", from, to)
	}
	at, dest := from.AsInstance(), to.AsInstance()
	if diags := sameKind(at, dest); diags.HasErrors() {
		return nil, diags
	}
	whole := source.Resources[at.Abs()]
	switch {
	case source.Instance(at) != nil:
		if target.Instance(dest) != nil {
			return nil, invalidDestination("Cannot move to %s: there is already a resource instance at that address "+
				"in the current state.", to)
		}
		return []Move{{at.String(), dest.String(), []instanceMove{{at, dest}}}}, nil
	case whole == nil || from.Kind == addr.TargetInstance:
		return nil, invalidSource(from)
	case to.Kind == addr.TargetInstance:
		return nil, invalidDestination("Cannot move %s to %s: the source is a whole resource (all of its instances) "+
			"so the target must also be a whole resource.", from, to)
	case target.Resources[dest.Abs()] != nil:
		return nil, invalidDestination("Cannot move to %s: there is already a resource at that address in the "+
			"current state.", to)
	}
	m := Move{From: at.String(), To: dest.String()}
	for _, i := range source.Addrs() {
		if i.Abs() == at.Abs() {
			m.instances = append(m.instances, instanceMove{i, dest.Abs().Instance(i.Key)})
		}
	}
	return []Move{m}, nil
}

// moduleMoves returns the moves of a module instance and those below it: one for each module instance with
// resources.
func moduleMoves(source, target *state.State, from, to addr.Target) ([]Move, diag.List) {
	here, there := moduleOf(from), moduleOf(to)
	if here.Contains(there) || there.IsRoot() && source == target {
		return nil, invalidDestination(
			"Cannot move %s to %s: a module cannot move into itself, nor become the root module.", from, to)
	}
	for _, i := range target.Addrs() {
		if there.Contains(i.Module) {
			return nil, diag.Errors("Destination module already exists", fmt.Sprintf("There is something in %s "+
				"already. Nothing was changed.", to), nil)
		}
	}
	var out []Move
	index := map[addr.ModuleInstance]int{}
	for _, i := range source.Addrs() {
		if !here.Contains(i.Module) {
			continue
		}
		dest := addr.ModuleInstanceOf(append(there.Steps(), i.Module.Steps()[len(here.Steps()):]...)...)
		n, ok := index[i.Module]
		if !ok {
			n = len(out)
			index[i.Module] = n
			out = append(out, Move{From: i.Module.String(), To: dest.String()})
		}
		out[n].instances = append(out[n].instances, instanceMove{i, i.Resource.Absolute(dest).Instance(i.Key)})
	}
	if len(out) == 0 {
		return nil, invalidSource(from)
	}
	return out, nil
}

func moduleOf(t addr.Target) addr.ModuleInstance {
	if t.Kind == addr.TargetModule {
		return t.Module.Unkeyed()
	}
	return t.Instance
}

// sameKind checks that a resource keeps its mode and type.
func sameKind(from, to addr.Instance) diag.List {
	const summary = "Invalid state move request"
	a, b := from.Abs(), to.Abs()
	var diags diag.List
	if a.Resource.Mode != b.Resource.Mode {
		names := map[addr.Mode]string{addr.Managed: "managed", addr.Data: "data", addr.Ephemeral: "ephemeral"}
		name := names[a.Resource.Mode]
		diags = diags.Append(diag.New(diag.Error, summary, fmt.Sprintf("Cannot move %s to %s: a %s resource can be "+
			"moved only to another %s resource address.", a, b, name, name), nil))
	}
	if a.Resource.Type != b.Resource.Type {
		diags = diags.Append(diag.New(diag.Error, summary,
			fmt.Sprintf("Cannot move %s to %s: resource types don't match.", a, b), nil))
	}
	return diags
}

func invalidSource(t addr.Target) diag.List {
	if t.Kind == addr.TargetInstance {
		return diag.Errors("Invalid source address", fmt.Sprintf("The current state does not contain %s.", t), nil)
	}
	return diag.Errors("Invalid source address",
		fmt.Sprintf("Cannot move %s: does not match anything in the current state.", t), nil)
}

func invalidDestination(format string, args ...any) diag.List {
	return diag.Errors("Invalid target address", fmt.Sprintf(format, args...), nil)
}

// MoveChanges are the changes of moves: Away is made in the source state, and Arrive, if the target is another state,
// in the target. If Arrive is made first, the objects are never in neither of them.
type MoveChanges struct{ Away, Arrive []state.Change }

// Changes returns the changes of moves. source and target are the same state unless the objects move to another
// one. Recorded dependencies on what has moved are renamed, so that a later removal still ends the objects in the right
// order: in one state those of all objects; in another one only those of the objects that arrive, because the names of
// the other objects there may mean something else.
func Changes(moves []Move, source, target *state.State) MoveChanges {
	var m MoveChanges
	paths := map[addr.Instance]addr.Instance{}
	for _, move := range moves {
		for _, i := range move.instances {
			paths[i.from] = i.to
		}
	}
	if source == target {
		for _, move := range moves {
			for _, i := range move.instances {
				m.Away = append(m.Away, state.MoveInstance{From: i.from, To: i.to})
			}
		}
		after := source.Clone()
		after.Apply(m.Away...)
		m.Away = append(m.Away, state.NewRenaming(paths, after).Changes(after)...)
		return m
	}
	for _, move := range moves {
		for _, i := range move.instances {
			m.Away = append(m.Away, Removal(source, i.from)...)
		}
	}
	renaming := state.NewRenaming(paths, state.Empty())
	for _, move := range moves {
		for _, i := range move.instances {
			m.Arrive = append(m.Arrive, arrival(source, i.from, i.to, renaming)...)
		}
	}
	return m
}

// arrival returns the changes that add all objects of an instance to another state, with renamed dependencies.
func arrival(source *state.State, from, to addr.Instance, renaming *state.Renaming) []state.Change {
	i, provider := source.Instance(from), source.ProviderOf(from)
	var out []state.Change
	if i.Current != nil {
		out = append(out, state.SetObject{Addr: to, Provider: provider, Object: renaming.Object(to, i.Current)})
	}
	for _, key := range i.DeposedKeys() {
		out = append(out, state.SetObject{Addr: to, Deposed: key, Provider: provider,
			Object: renaming.Object(to, i.Deposed[key])})
	}
	return out
}
