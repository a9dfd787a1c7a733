package plan

import "github.com/millipede-iac/millipede/lang/addr"

// Options are the scope of a plan, and of the reading for it. Commands, services and test files make them from their
// own input, and everything below passes them on.
type Options struct {
	Mode Mode
	// SkipRefresh plans with the stored objects, without reading the existing ones.
	SkipRefresh bool
	// Refresh is how much of the infrastructure is read, unless SkipRefresh is set: placement.RefreshAll or
	// RefreshChanged; empty for the setting in the rules. It affects only ordinary plans.
	Refresh string
	// NoVerdicts makes workers plan every object, in spite of earlier plans' verdicts.
	NoVerdicts bool
	// Targets or Excludes restrict the plan to a part of the configuration. At most one of them is given.
	Targets, Excludes []addr.Target
	// Replace are the instances to replace, even if their arguments do not change.
	Replace []addr.Instance
	// Invoke are actions that the plan invokes without a trigger. Without Targets, it then changes nothing else.
	Invoke []addr.Target
	// Imports are the IDs of the objects that the import command imports, by target. Import blocks are not among them:
	// they belong to the configuration.
	Imports map[addr.Instance]string
	// Defers lets the plan leave out what cannot be planned yet, for a later round of the same apply. It affects only
	// ordinary plans.
	Defers bool
	// After is the round before this one: only what it has left out is planned. Nil for the first round.
	After *Round
}
