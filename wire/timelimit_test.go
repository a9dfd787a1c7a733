package wire_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// A worker that sent a sign of life every second, and no answer, made the command that had asked it wait for ever.
func TestACallEndsAtTheTimeLimitOfItsTask(t *testing.T) {
	for name, c := range map[string]struct {
		task  wire.Task
		limit time.Duration
	}{
		"schema":   {wire.Task{Schema: &wire.SchemaTask{}}, wire.QuestionLimit},
		"function": {wire.Task{Function: &wire.FunctionTask{}}, wire.QuestionLimit},
		"read":     {wire.Task{Read: &wire.ReadDataTask{}}, wire.OperationLimit},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			_, err := wire.Timed(t.Context(), &c.task, func(ctx context.Context) ([]byte, error) {
				<-ctx.Done() // signs of life alone
				return nil, ctx.Err()
			})
			if !errors.Is(err, wire.ErrOverdue) || time.Since(began) != c.limit {
				t.Errorf("%s: %v after %s", name, err, time.Since(began))
			}
		})
	}
}

func TestATimedCallPassesOnAnswersAndOtherErrors(t *testing.T) {
	answer, err := wire.Timed(t.Context(), &wire.Task{}, func(context.Context) ([]byte, error) { return []byte("a"), nil })
	if err != nil || string(answer) != "a" {
		t.Errorf("%q, %v", answer, err)
	}
	interrupted, stop := context.WithCancel(t.Context())
	stop()
	for _, want := range []error{wire.ErrNoWorker, context.Canceled} {
		_, err := wire.Timed(interrupted, &wire.Task{}, func(context.Context) ([]byte, error) { return nil, want })
		if !errors.Is(err, want) || errors.Is(err, wire.ErrOverdue) {
			t.Errorf("%v became %v", want, err)
		}
	}
}
