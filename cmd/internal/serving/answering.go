package serving

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/internal/sleep"
)

const (
	// askEvery is the interval at which NATS is asked whether it stores messages.
	askEvery = 5 * time.Second
	// askFor is how long it may take to answer.
	askFor = 3 * time.Second
)

// answering watches whether NATS stores messages, for /readyz and the log. A service without NATS is ready: it answers
// what is recorded, and its clients have no other one. Its runs wait.
type answering struct {
	ask func(context.Context) error
	now func() time.Time
	log *slog.Logger

	mu    sync.Mutex // guards since
	since time.Time  // since when NATS has not answered; zero while it answers
}

// watch asks until ctx ends.
func (a *answering) watch(ctx context.Context) {
	for ctx.Err() == nil {
		began := a.now()
		asking, cancel := context.WithTimeout(ctx, askFor)
		err := a.ask(asking)
		cancel()
		if ctx.Err() != nil {
			return
		}
		a.note(began, err)
		if sleep.For(ctx, askEvery) != nil {
			return
		}
	}
}

// note records an answer to a question that was asked at a time.
func (a *answering) note(began time.Time, err error) {
	a.mu.Lock()
	was := a.since
	switch {
	case err == nil:
		a.since = time.Time{}
	case was.IsZero():
		a.since = began
	}
	a.mu.Unlock()
	switch {
	case err != nil && was.IsZero():
		a.log.Warn("NATS does not answer, or takes no messages: runs wait for it", "error", err)
	case err == nil && !was.IsZero():
		a.log.Info("NATS answers again", "away", a.now().Sub(was).Round(time.Second))
	}
}

// fact returns a sentence for /readyz while NATS does not answer.
func (a *answering) fact() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.since.IsZero() {
		return ""
	}
	return fmt.Sprintf("NATS has not answered, or has taken no messages, since %s (for %s): what is recorded is served, "+
		"and runs wait.", a.since.UTC().Format(time.RFC3339), a.now().Sub(a.since).Round(time.Second))
}
