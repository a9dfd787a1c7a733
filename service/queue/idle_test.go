package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/service/record"
)

// The outline of each version of a state was made immediately, while other runs were in progress: with 8,000 objects
// that was a tenth of the service's work for a run.
func TestWorkThatCanWaitIsDoneWhileNoRunIsInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{})
		waits := func(patience time.Duration) time.Duration {
			began := time.Now()
			q.AwaitIdle(t.Context(), patience)
			return time.Since(began)
		}
		become := func(s record.RunStatus) {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.active["run"] = &record.Run{ID: "run", Status: s}
			q.notifyChanged("run")
		}
		for _, s := range []record.RunStatus{record.Planned, record.Pending} {
			if become(s); waits(time.Minute) != 0 {
				t.Errorf("the work waits for a run that is %s", s)
			}
		}
		for _, s := range []record.RunStatus{record.PlanQueued, record.Planning, record.Applying} {
			become(s)
			time.AfterFunc(10*time.Second, func() { become(record.Planned) })
			if got := waits(time.Minute); got != 10*time.Second {
				t.Errorf("the work waits %v for a run that is %s for 10 s", got, s)
			}
		}
		become(record.Applying)
		if got := waits(time.Minute); got != time.Minute {
			t.Errorf("the work waits %v, although the maximum is a minute", got)
		}
	})
}
