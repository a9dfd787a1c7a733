package worker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// A worker claimed a task that it could not read, and reported that it did not begin it: the vertex failed, although
// the other workers of its pool could read it.
func TestATaskOfAnotherVersionIsLeftToOtherWorkersUnclaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		ds := b.applies(4)
		const version = 2                                 // the byte of an envelope that has it
		ds[0].data[version], ds[1].data[version] = 200, 1 // of a newer coordinator, and of an older one
		ds[2].data = append([]byte{1}, ds[2].data[1])     // the envelope of version 5, which has no such byte
		b.start()
		synctest.Wait()
		b.bus.put(ds[:3]...)
		synctest.Wait()
		elapse(10 * lastAside)
		synctest.Wait()
		for i, d := range ds[:3] {
			if !d.released || d.acked {
				t.Errorf("task %d: released %t, acknowledged %t", i, d.released, d.acked)
			}
		}
		if len(b.bus.register) != 0 || len(b.results()) != 0 || b.cloud.applied != 0 {
			t.Errorf("%d claims, %d results, %d operations", len(b.bus.register), len(b.results()), b.cloud.applied)
		}
		if got := b.last().Versions(); got != wire.Spoken() {
			t.Errorf("the worker announces the versions %s", got)
		}
		b.bus.put(ds[3])
		elapse(2 * lastAside)
		synctest.Wait()
		if b.cloud.applied != 1 {
			t.Error("a task that the worker can read is not executed")
		}
	})
}

func TestAWorkerLeavesTheQueueToOthersForLongerEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		w := New(b.opts)
		var a asideTime
		var waits []string
		for range 7 {
			d := b.applies(1)[0]
			d.data[2] = 200
			if got := w.pass(t.Context(), "eu", []wire.Delivery{d}, &a); len(got) != 0 {
				t.Fatal("a task of another version passed")
			}
			began := time.Now()
			if !a.wait(t.Context()) || a.most(8) != 1 {
				t.Fatal("after a wait, more than one task is fetched")
			}
			waits = append(waits, time.Since(began).String())
		}
		if got := strings.Join(waits, " "); got != "1s 2s 2s 2s 2s 2s 2s" {
			t.Errorf("it waits %s", got)
		}
		if got := w.pass(t.Context(), "eu", []wire.Delivery{b.applies(1)[0]}, &a); len(got) != 1 || a.most(8) != 8 {
			t.Error("a task that it can read does not end that")
		}
	})
}
