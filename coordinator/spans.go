package coordinator

import (
	"context"
	"sync"

	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/trace"
)

// spans are those of the vertices that have begun and not ended. While none are recorded it is empty, and asked for
// nothing.
type spans struct {
	on bool

	mu sync.Mutex // guards of
	of map[int]vertexSpan
}

// vertexSpan is the span of a vertex, and the context in which it is the current one.
type vertexSpan struct {
	span *trace.Span
	ctx  context.Context
}

// at returns the context of what is done for a vertex: in its span, if spans are recorded. Its span begins with the
// first thing that is done for it, and ends with tell.
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

// begin begins the span of a vertex. Hidden ones have none: what is done for them belongs to the run.
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

// note notes that something has happened to a vertex.
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

// settle ends the span of a vertex as the loop shows that it has ended.
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

// settleRest ends the spans of vertices that the end of the run has overtaken.
func (x *executor) settleRest() {
	x.spans.mu.Lock()
	rest := x.spans.of
	x.spans.of = map[int]vertexSpan{} // a goroutine that a bug has left behind may still ask
	x.spans.mu.Unlock()
	for _, v := range rest {
		v.span.Fail("not finished")
		v.span.End()
	}
}
