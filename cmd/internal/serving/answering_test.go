package serving

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/internal/sleep"
)

func TestTheServiceTellsSinceWhenNATSDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		var out bytes.Buffer
		a := &answering{now: time.Now, log: slog.New(slog.NewTextHandler(&out, nil)), ask: func(ctx context.Context) error {
			if away.Load() {
				<-ctx.Done() // a server without the majority does not answer
				return errors.New("no answer")
			}
			return nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); a.watch(ctx) }()
		sleep.For(ctx, time.Minute+askEvery/2) // between two questions
		if got := a.fact(); got != "" {
			t.Errorf("while it answers: %q", got)
		}
		away.Store(true)
		sleep.For(ctx, time.Minute)
		if got := a.fact(); !strings.Contains(got, "since 2000-01-01T00:01:05Z (for 58s)") {
			t.Errorf("while it is away: %q", got)
		}
		away.Store(false)
		sleep.For(ctx, askEvery+askFor)
		if got := a.fact(); got != "" {
			t.Errorf("when it answers again: %q", got)
		}
		cancel()
		<-ended
		if log := out.String(); strings.Count(log, "does not answer") != 1 || strings.Count(log, "answers again") != 1 {
			t.Errorf("the log is\n%s", log)
		}
	})
}
