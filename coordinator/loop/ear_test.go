package loop

import "fmt"

// hear records the messages that the loop shows.
func (w *world) hear(s Shown) {
	note := func(format string, args ...any) { w.seen = append(w.seen, fmt.Sprintf(format, args...)) }
	switch s.Kind {
	case ShownStarted:
		note("started %d in %s", s.Vertex, s.Pool)
	case ShownProgress:
		note("still %d %s", s.Vertex, s.Took)
	case ShownFinished:
		note("finished %d", s.Vertex)
	case ShownFailed:
		note("failed %d", s.Vertex)
	case ShownSkipped:
		note("skipped %d because of %s", s.Vertex, s.Reason)
	case ShownDoubtful:
		note("in doubt %d: %s", s.Vertex, s.Reason)
	case ShownWaiting:
		note("waiting %v", plain(s.Waits))
	case ShownDiagnostics:
		for _, d := range s.Diagnostics {
			note("%s: %s", d.Severity, d.Summary)
		}
	}
}

// plain returns waits without the time since which a region is cut off.
func plain(waits []Wait) (list []any) {
	list = []any{}
	for _, w := range waits {
		list = append(list, struct {
			Pool, Limit string
			Vertices    int
			Address     string
			InDoubt     []string
			Slots       int
			Holders     []Holder
			Unsuited    []string
		}{w.Pool, w.Limit, w.Vertices, w.Address, w.InDoubt, w.Slots, w.Holders, w.Unsuited})
	}
	return list
}
