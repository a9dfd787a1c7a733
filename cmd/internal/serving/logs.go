package serving

import (
	"context"
	"log/slog"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/loop"
)

// observed adds the log of the service to the observers of a run's operations. count may be nil.
func observed(count func(coordinator.Observer) (coordinator.Observer, func()), log *slog.Logger) func(run string,
	o coordinator.Observer) (coordinator.Observer, func()) {
	if count == nil {
		count = func(o coordinator.Observer) (coordinator.Observer, func()) { return o, func() {} }
	}
	return func(run string, o coordinator.Observer) (coordinator.Observer, func()) {
		o, end := count(o)
		if log.Enabled(context.Background(), slog.LevelWarn) {
			o = loggedVertices{o, log.With("run", run)}
		}
		return o, end
	}
}

// loggedVertices logs how vertices start and end. It does not log the text of errors, which may quote values: the log
// of the run has it, for people who may read that.
type loggedVertices struct {
	coordinator.Observer
	log *slog.Logger
}

// Shown implements coordinator.Tracer.
func (l loggedVertices) Shown(s loop.Shown) {
	if inner, ok := l.Observer.(coordinator.Tracer); ok {
		inner.Shown(s)
	}
	level := slog.LevelDebug
	var what string
	switch s.Kind {
	case loop.ShownStarted:
		what = "started"
	case loop.ShownHeld:
		what = "claimed"
	case loop.ShownFinished:
		what = "finished"
	case loop.ShownFailed:
		level, what = slog.LevelWarn, "failed"
	case loop.ShownSkipped:
		what = "skipped"
	case loop.ShownDoubtful:
		level, what = slog.LevelWarn, "in doubt"
	default:
		return
	}
	ctx := context.Background()
	if !l.log.Enabled(ctx, level) {
		return
	}
	attributes := []slog.Attr{slog.Int("vertex", s.Vertex), slog.String("address", s.Address)}
	for _, one := range [...][2]string{{"attempt", string(s.Attempt)}, {"action", s.Action}, {"pool", s.Pool},
		{"worker", s.Worker}} {
		if one[1] != "" {
			attributes = append(attributes, slog.String(one[0], one[1]))
		}
	}
	if s.Took > 0 {
		attributes = append(attributes, slog.Duration("took", s.Took))
	}
	l.log.LogAttrs(ctx, level, "an operation "+what, attributes...)
}
