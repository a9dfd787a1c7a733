package program

import (
	"context"

	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// The optional sides of a Program.
type (
	// Closer is a Program with vertices that close what others opened: they run once all that they wait for is
	// settled, however that ended.
	Closer interface{ Anyway(vertex int) bool }
	// Doubter is a Program that can say in the state that the outcome of an operation is not known. It is called on
	// the loop's goroutine; the changes are made durable with the event.
	Doubter interface {
		Doubt(vertex int, d state.Doubt) []state.Change
		// ResolveDoubt takes back what Doubt has said: the outcome is known now. It is called before Complete, or when the
		// operation was proved not to have begun.
		ResolveDoubt(vertex int) []state.Change
	}
	// Restorer is a Program that a resumed run tells which vertices are done, before it does anything else. Vertices
	// that are in the journal as done are not prepared again; hidden ones without a journal are.
	Restorer interface{ Restore(done []bool) }
	// Continuer is a Program that can go on with a vertex between two of its operations when the run is resumed: phase
	// operations are done, the last one by the worker. It is called instead of Prepare, also when a result of the next
	// operation is waiting. Without it such a vertex fails.
	Continuer interface {
		PrepareAfter(ctx context.Context, vertex, phase int, worker string) Step
	}
	// Pager is a Program with tasks whose results come in pages before their answer. Page processes one; it is not called
	// at the same time as other methods for the vertex. If a call is repeated, it gets the pages of both.
	Pager interface {
		Page(vertex int, page *wire.ListPage)
	}
	// Framed is a Program with changes before the first and after the last vertex. Begin's are made durable before
	// anything starts (again, if a crash came before the first event), End's with the end of the run.
	Framed interface {
		Begin() []state.Change
		End() []state.Change
	}
)
