package jet_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
)

// A command spent half of its time on stopping its server. It now leaves the server to the end of the process. The next
// process finds the files as they are at that moment: they must have all acknowledged messages.
func TestWhatARetiredServerHasAcknowledgedIsThereForTheNextProcess(t *testing.T) {
	ctx := t.Context()
	dir, next := t.TempDir(), t.TempDir()
	e := must(jet.Embed(dir, logTo(t)))(t)
	t.Cleanup(func() { closeAll(t, e) })
	c := must(e.Connect(ctx, jet.Options{AckWait: ackWait, Log: logTo(t)}))(t)
	const n = 40
	for i := range n {
		ref := attemptNo(i)
		if err := c.PublishTask(ctx, ref, []byte("task")); err != nil {
			t.Fatal(err)
		}
		must(c.Claim(ctx, ref, wire.Claim{Nonce: fmt.Sprint("n", i), Worker: "w"}))(t)
		if err := c.PublishResult(ctx, ref, []byte("result")); err != nil {
			t.Fatal(err)
		}
	}
	acked := map[wire.AttemptID]bool{}
	for len(acked) < n/2 {
		for _, d := range must(c.FetchResults(ctx, taskRef.Coordinator, n/2-len(acked)))(t) {
			if err := d.Ack(ctx); err != nil {
				t.Fatal(err)
			}
			acked[d.Ref().Attempt] = true
		}
	}
	before := must(c.HighWater(ctx, []string{taskRef.Pool}))(t)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Retire(); err != nil {
		t.Fatal(err)
	}
	if _, err := jet.Embed(dir, nil); !errors.As(err, new(*jet.LockedError)) {
		t.Errorf("another server on the directory, before the process has ended: %v", err)
	}
	if err := os.CopyFS(next, os.DirFS(dir)); err != nil { // as the end of the process leaves it
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(next, "lock")); err != nil {
		t.Fatal(err)
	}

	again := must(jet.Embed(next, logTo(t)))(t)
	t.Cleanup(func() { closeAll(t, again) })
	d := must(again.Connect(ctx, jet.Options{AckWait: ackWait, Log: logTo(t)}))(t)
	t.Cleanup(func() { closeAll(t, d) })
	if after := must(d.HighWater(ctx, []string{taskRef.Pool}))(t); before.Lost(after) {
		t.Errorf("the streams were at %+v, and are at %+v", before, after)
	}
	for i := range n {
		if got := must(d.ReadClaim(ctx, attemptNo(i)))(t); got.Nonce != fmt.Sprint("n", i) {
			t.Errorf("register %d holds %q", i, got.Nonce)
		}
	}
	tasks, results := map[wire.AttemptID]bool{}, map[wire.AttemptID]bool{}
	for len(tasks) < n {
		for _, m := range must(d.FetchTasks(ctx, taskRef.Pool, n))(t) {
			tasks[m.Ref().Attempt] = true
		}
	}
	for missing(results, acked, n) {
		for _, m := range must(d.FetchResults(ctx, taskRef.Coordinator, n))(t) {
			results[m.Ref().Attempt] = true
		}
	}
}

// missing reports whether a result is neither stored nor acknowledged.
func missing(there, acked map[wire.AttemptID]bool, n int) bool {
	for i := range n {
		if id := attemptNo(i).Attempt; !there[id] && !acked[id] {
			return true
		}
	}
	return false
}
