package coordinator

import (
	"context"
	"sync"

	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/internal/trace"
)

// spans has the spans of the vertices that have begun and not ended. It stays empty if no spans are recorded.
type spans struct {
	on bool

	mu sync.Mutex // guards of
	of map[int]vertexSpan
}

// vertexSpan is the span of a vertex, and a context in which that is the current span.
type vertexSpan struct {
	span *trace.Span
	ctx  context.Context
}

// at returns the context for work on a vertex: in the span of the vertex, if spans are recorded. The first call begins
// the span, and settle ends it.
func (x *executor) at(vertex int) context.Context {
	if !x.spans.on {
		return x.ctx
	}
	x.spans.mu.Lock()
	defer x.spans.mu.Unlock()
	s, ok := x.spans.of[vertex]
	if !ok {
		s = x.begin(vertex)
		x.spans.of[vertex] = s
	}
	return s.ctx
}

// begin begins the span of a vertex. Hidden vertices have none: work on them belongs to the span of the run.
func (x *executor) begin(vertex int) vertexSpan {
	d := x.Program.Describe(vertex)
	if d.Hidden {
		return vertexSpan{ctx: x.ctx}
	}
	action := d.Action
	if action == "" {
		action = "evaluate"
	}
	ctx, span := trace.Start(x.ctx, action+" "+d.Class, trace.Internal)
	span.Set("millipede.address", d.Address)
	if d.Class != "" {
		span.Set("millipede.resource.type", d.Class)
	}
	if d.Deposed != "" {
		span.Set("millipede.deposed", d.Deposed)
	}
	return vertexSpan{span, ctx}
}

// note adds an event to the span of a vertex.
func (x *executor) note(vertex int, event, key, text string) {
	if !x.spans.on {
		return
	}
	x.at(vertex)
	x.spans.mu.Lock()
	s := x.spans.of[vertex]
	x.spans.mu.Unlock()
	s.span.Event(event, key, text)
}

// settle ends the span of a vertex when the loop shows that the vertex has ended.
func (x *executor) settle(s loop.Shown) {
	if !x.spans.on {
		return
	}
	x.spans.mu.Lock()
	v, ok := x.spans.of[s.Vertex]
	switch s.Kind {
	case loop.ShownFinished, loop.ShownFailed, loop.ShownSkipped:
		delete(x.spans.of, s.Vertex)
	}
	x.spans.mu.Unlock()
	if !ok {
		return
	}
	switch s.Kind {
	case loop.ShownStarted:
		v.span.Set("millipede.pool", s.Pool)
	case loop.ShownDoubtful:
		v.span.Event("in doubt", "", "")
	case loop.ShownFinished:
		v.span.End()
	case loop.ShownFailed:
		v.span.Fail("failed")
		v.span.End()
	case loop.ShownSkipped:
		v.span.Fail("skipped")
		v.span.End()
	}
}

// settleRest ends the spans of vertices that have not ended when the run does.
func (x *executor) settleRest() {
	x.spans.mu.Lock()
	rest := x.spans.of
	x.spans.of = map[int]vertexSpan{} // a goroutine that has outlived a bug may still use it
	x.spans.mu.Unlock()
	for _, v := range rest {
		v.span.Fail("not finished")
		v.span.End()
	}
}
