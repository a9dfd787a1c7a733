// Package program is the contract between the coordinator's loop and the programs that it runs: a plan, an apply, a
// validation, a refresh.
//
// The loop knows readiness, permits, lanes, attempts and the journal; a Program knows configuration, values and
// changes. Neither does the other's work. The package holds no logic.
package program

import (
	"context"
	"errors"

	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// Program is a graph whose vertices can be executed. Vertices are numbered from 0 in the order in which they were
// appended; the numbers are stable.
type Program interface {
	// Graph returns the vertices and edges at the start. The loop owns the graph from then on.
	Graph() *dag.Graph
	// Prepare computes what a ready vertex must do. The loop calls it from several goroutines, once per vertex
	// and phase (and again after a resume or a retraction).
	Prepare(ctx context.Context, vertex int) Step
	// Complete processes the result of the task that the last Step of the vertex asked for. The loop calls it from several
	// goroutines, but never twice at the same time for one vertex.
	Complete(ctx context.Context, vertex int, result *wire.Result) Step
	// Accept is called on the loop's goroutine, one call at a time, right before the step's changes become visible: here a
	// Program adds them to the values that its other vertices see.
	Accept(vertex int, step *Step)
	// Describe names a vertex for the journal, views and placement. Called from any goroutine.
	Describe(vertex int) Description
}

// Description describes a vertex.
type Description struct {
	// Address is the object as users know it; empty for vertices that users never see.
	Address string
	// Deposed is the key of a deposed object; empty for the current one.
	Deposed string
	// Class groups vertices for weights: the resource type.
	Class string
	// Action is the verb for views: "create", "read", ... empty for silent vertices.
	Action string
	// Called returns the attribute that identifies the object before the operation, "id" or "name", and its value, for
	// views. Both are empty if neither attribute is known. Called is nil if that is known beforehand.
	Called func() (key, id string)
	// Unsettled says that the operation may turn out to have nothing to do: it depends on values that are unknown yet.
	Unsettled bool
	// Hidden vertices are evaluated inline and never shown.
	Hidden bool
}

// Lane is the path that a task takes.
type Lane byte

const (
	// Fast is for operations that change nothing that must be remembered.
	Fast Lane = iota
	// Safe is for operations that change the world.
	Safe
)

// Placement has the properties of a vertex that placement rules use.
type Placement struct {
	Provider     addr.ProviderInstance
	ResourceType string
	Module       addr.ModuleInstance
	Address      string
	// Region is the evaluated region or location argument of the resource; ProviderRegion that of the provider
	// configuration. Empty when unknown or absent.
	Region, ProviderRegion string
	// ProviderConfig are the top-level string values of the provider configuration, for limit and pool rules.
	ProviderConfig map[string]string
	// Among are the pools that may be asked, instead of the one that the rules name: for an operation that asks a plugin
	// and reaches no cloud. The first of them that has workers is asked.
	Among []string
}

// Step is the next step of a vertex. Either Task is set (the vertex goes on with its answer), or the vertex is
// finished: failed when Diags holds an error.
type Step struct {
	Task  *wire.Task
	Lane  Lane
	Place *Placement // nil: nothing is known

	// Changes are made durable together with the event that the step is recorded by.
	Changes []state.Change
	// Growth appends vertices (only while planning).
	Growth *Growth
	Diags  diag.List
	// Failed fails the vertex even without an error among Diags (a cause that was reported elsewhere).
	Failed bool
	// Doubt is set if the result of a task of the safe lane cannot be kept: then the vertex is in doubt, and of the step
	// only its Diags count. On the fast lane it fails the vertex.
	Doubt *Unstorable
	// Value is the Program's own; Accept finds it here.
	Value any
	// Notes are for the views: the object found, its ID, the final action.
	Notes Notes
}

// Unstorable has the reason why a result cannot be stored, and the part of it that is known.
type Unstorable struct {
	Reason string
	Answer *wire.Answer // nil when nothing is known
}

// Notes describe a finished step for views.
type Notes struct {
	Action string // the action that was taken or found
	ID     string // the object's id attribute, for "[id=...]"
	IDKey  string // its name: "id" or "name"
	Quiet  bool   // nothing worth a line
	None   bool   // nothing had to be done, against the plan
}

// Growth has the vertices and edges that an expand vertex appends. New vertices get the next numbers in order. Only the
// loop knows these numbers, so Edges name the i-th new vertex Grown(i). Edges end at vertices that have not started.
type Growth struct {
	Vertices int
	Edges    []dag.Edge
}

// ErrSuspended is the cause of a stop after which the run is continued later: operations in progress finish normally,
// because they would fail if their providers were asked to stop.
var ErrSuspended = errors.New("the run is continued later")

// Finished reports whether the step ends its vertex.
func (s *Step) Finished() bool { return s.Task == nil || s.Doubt != nil }

// Bad reports whether the step fails its vertex.
func (s *Step) Bad() bool { return s.Failed || s.Doubt != nil || s.Diags.HasErrors() }

// Grown returns the name of the i-th new vertex in Growth.Edges: a negative number.
func Grown(i int) int { return -1 - i }

// Resolve returns the number of a vertex that Growth.Edges name. first is the number of the first new vertex.
func (g *Growth) Resolve(v, first int) int {
	if v < 0 {
		return first - 1 - v
	}
	return v
}
