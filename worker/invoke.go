package worker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/worker/change"
)

const (
	// noteEvery is the shortest time between two notes about the progress of an action in the journal.
	noteEvery = 200 * time.Millisecond
	// maxProgress is the length of a message about the progress of an action, in bytes. The rest is cut off.
	maxProgress = 2000
)

// invoke invokes an action. Its progress is sent as live events, and noted. If the outcome is unknown, the result has
// the last progress.
func (w *Worker) invoke(ctx context.Context, ref wire.TaskRef, host change.Host, t *wire.ActionTask,
	note func(string)) *wire.Result {
	emit := w.emitter(ctx, ref)
	last := ""
	result := change.Invoke(ctx, host, t, func(text string) {
		if t.Sensitive {
			text = "(progress suppressed due to sensitive value in config)"
		}
		last = progressText(text)
		emit(wire.Event{Address: host.Address, Kind: "progress", Name: t.Type, Text: last})
		note(last)
	})
	if result.Doubt != "" {
		result.Doubt = withProgress(result.Doubt, last)
	}
	return result
}

// progressText returns a message of a provider with a bounded length.
func progressText(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > maxProgress {
		text = strings.ToValidUTF8(text[:maxProgress], "") + "…"
	}
	return strings.TrimSpace(text)
}

// withProgress adds the last progress to the reason of a doubt.
func withProgress(reason, last string) string {
	if last == "" {
		return reason
	}
	return fmt.Sprintf("%s. Its last progress was: %s", strings.TrimSuffix(reason, "."), last)
}

// progressNote returns a function that notes the progress of an attempt in the journal: if the worker ends before the
// operation does, the doubt says how far it had come. A note that fails is left out; the journal has an earlier one.
func (w *Worker) progressNote(ctx context.Context, a claimed, mail messageCodec) func(string) {
	var noted time.Time
	return func(text string) {
		now := w.Now()
		if now.Sub(noted) < noteEvery {
			return
		}
		noted = now
		message, err := mail.seal(ctx, a.doubt(withProgress(stoppedDuring, text)))
		if err == nil {
			err = w.Journal.Progress(a.ref, message)
		}
		if err != nil {
			w.Log.Debug("the progress of an action was not noted", "attempt", a.ref.Attempt, "error", err)
		}
	}
}
