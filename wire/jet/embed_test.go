package jet_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
)

func TestASecondProcessIsToldWhoHasTheStore(t *testing.T) {
	dir := t.TempDir()
	e := embed(t, dir)
	_, err := jet.Embed(dir, nil)
	var locked *jet.LockedError
	if !errors.As(err, &locked) || locked.Dir != dir || locked.Holder != fmt.Sprint(os.Getpid()) {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(err.Error(), "pid "+locked.Holder) {
		t.Errorf("the error does not name the process that has the directory: %v", err)
	}
	closeAll(t, e)
	closeAll(t, embed(t, dir))
}

func TestAStoreThatCannotBeCreatedIsAClearError(t *testing.T) {
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := jet.Embed(file+"/store", nil); err == nil || !strings.Contains(err.Error(), "message store") {
		t.Fatalf("got %v", err)
	}
}

func TestTheStoreIsForItsOwnerOnly(t *testing.T) {
	dir := t.TempDir() + "/store"
	closeAll(t, embed(t, dir))
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Fatalf("the mode of the directory is %v", info.Mode())
	}
}

func TestAnEmptyServerStartsQuickly(t *testing.T) {
	if testing.Short() {
		t.Skip("measures time")
	}
	dir := t.TempDir()
	best := time.Hour
	for range 5 {
		begun := time.Now()
		e := embed(t, dir)
		c := connect(t, e)
		if _, err := c.HighWater(t.Context(), []string{"eu"}); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(begun))
		closeAll(t, c, e)
	}
	if best > 150*time.Millisecond {
		t.Errorf("start, connection and streams took %v", best)
	}
}

var taskRef = wire.TaskRef{Pool: "eu", Coordinator: "alice", Run: "run-1", Attempt: "a1"}

func TestATaskThatWasFetchedLongAgoCannotBeClaimed(t *testing.T) {
	ctx := t.Context()
	e := embed(t, t.TempDir())
	c := connect(t, e)
	t.Cleanup(func() { closeAll(t, c, e) })
	if err := c.PublishTask(ctx, taskRef, nil); err != nil {
		t.Fatal(err)
	}
	must(c.FetchTasks(ctx, "eu", 1))(t)
	c.SleepAfterFetch("a1", jet.ClaimWindow+time.Second)
	if _, err := c.Claim(ctx, taskRef, wire.Claim{Nonce: "n"}); !errors.Is(err, wire.ErrStale) {
		t.Fatalf("got %v", err)
	}
	if got, err := c.Claim(ctx, taskRef, wire.Claim{Nonce: "t", Tombstone: true}); err != nil || got.Nonce != "t" {
		t.Fatalf("a tombstone was refused: %v", err)
	}
	if jet.PurgeGrace <= jet.ClaimWindow {
		t.Fatal("a register was removed while its task may be claimed")
	}
}

func TestRegistersOfARunAreEmptiedAfterTheGraceAndNotBefore(t *testing.T) {
	ctx := t.Context()
	e := embed(t, t.TempDir())
	c := connect(t, e)
	t.Cleanup(func() { closeAll(t, c, e) })
	other := taskRef
	other.Run = "run-2"
	for _, r := range []wire.TaskRef{taskRef, other} {
		must(c.Claim(ctx, r, wire.Claim{Nonce: "n"}))(t)
	}
	if err := c.PurgeRun(ctx, "run-1", nil); err != nil {
		t.Fatal(err)
	}
	if err := c.EmptyRegisters(ctx, time.Hour); err != nil {
		t.Fatal(err)
	}
	must(c.ReadClaim(ctx, taskRef))(t)
	if err := c.EmptyRegisters(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReadClaim(ctx, taskRef); !errors.Is(err, wire.ErrNotFound) {
		t.Fatalf("the register still exists: %v", err)
	}
	must(c.ReadClaim(ctx, other))(t)
}

func TestAnEmbeddedServerEmptiesTheRegistersOfFinishedRunsWhenItCloses(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	e := embed(t, dir)
	c := connect(t, e)
	must(c.Claim(ctx, taskRef, wire.Claim{Nonce: "n"}))(t)
	if err := c.PurgeRun(ctx, "run-1", nil); err != nil {
		t.Fatal(err)
	}
	closeAll(t, c, e)
	e = embed(t, dir)
	c = connect(t, e)
	t.Cleanup(func() { closeAll(t, c, e) })
	if _, err := c.ReadClaim(ctx, taskRef); !errors.Is(err, wire.ErrNotFound) {
		t.Fatalf("the register still exists: %v", err)
	}
}

func TestAStoreThatLostAStreamIsNoticed(t *testing.T) {
	ctx := t.Context()
	e := embed(t, t.TempDir())
	c := connect(t, e)
	t.Cleanup(func() { closeAll(t, c, e) })
	if err := c.PublishTask(ctx, taskRef, nil); err != nil {
		t.Fatal(err)
	}
	must(c.Claim(ctx, taskRef, wire.Claim{Nonce: "n"}))(t)
	pools := []string{taskRef.Pool}
	before := must(c.HighWater(ctx, pools))(t)
	if more := must(c.HighWater(ctx, append(pools, "us")))(t); before.Lost(more) || more.Lost(before) {
		t.Fatalf("the use of another pool is reported as a loss: from %+v to %+v", before, more)
	}
	for _, stream := range []string{"CLAIMS-eu", "TASKS-eu"} {
		if err := c.JetStream().(jetstream.JetStream).DeleteStream(ctx, stream); err != nil {
			t.Fatal(err)
		}
		after := must(c.HighWater(ctx, pools))(t)
		if !before.Lost(after) {
			t.Fatalf("the loss of %s is not reported: from %+v to %+v", stream, before, after)
		}
		before = after
	}
}

func TestAWorkerGoesOnAfterItsStreamWasCreatedAnew(t *testing.T) {
	ctx := t.Context()
	e := embed(t, t.TempDir())
	c := connect(t, e)
	t.Cleanup(func() { closeAll(t, c, e) })
	if err := c.PublishTask(ctx, taskRef, nil); err != nil {
		t.Fatal(err)
	}
	list := must(c.FetchTasks(ctx, "eu", 1))(t)
	if err := list[0].Ack(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.JetStream().(jetstream.JetStream).DeleteStream(ctx, "TASKS-eu"); err != nil {
		t.Fatal(err)
	}
	other := connect(t, e)
	t.Cleanup(func() { closeAll(t, other) })
	next := taskRef
	next.Attempt = "a2"
	if err := other.PublishTask(ctx, next, nil); err != nil {
		t.Fatal(err)
	}
	if d := must(c.FetchTasks(ctx, "eu", 1))(t)[0]; d.Ref() != next {
		t.Fatalf("got %+v", d.Ref())
	}
}

func TestAStreamThatDoesNotHoldWhatItPromisesIsRefused(t *testing.T) {
	for name, cfg := range map[string]jetstream.StreamConfig{
		"write-once": {Name: "CLAIMS-eu", Subjects: []string{"claim.eu.>", "done.eu.*"}},
		"in memory":  {Name: "CLAIMS-eu", Subjects: []string{"claim.eu.>"}, Storage: jetstream.MemoryStorage},
		"drops": {Name: "CLAIMS-eu", Subjects: []string{"claim.eu.>"}, MaxMsgsPerSubject: 1,
			Discard: jetstream.DiscardNew, DiscardNewPerSubject: true, MaxAge: time.Hour},
	} {
		ctx := t.Context()
		e := embed(t, t.TempDir())
		c := connect(t, e)
		must(c.JetStream().(jetstream.JetStream).CreateStream(ctx, cfg))(t)
		if _, err := c.Claim(ctx, taskRef, wire.Claim{Nonce: "n"}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		closeAll(t, c, e)
	}
}

func TestAddressesAreShownWithoutPasswords(t *testing.T) {
	for in, want := range map[string]string{
		"nats://host:4222": "nats://host:4222", "nats://me:pw@host": "nats://host",
		"tls://a:b@x,nats://tok@y:1": "tls://x,nats://y:1", "me:p@host": "host",
	} {
		if got := jet.Redact(in); got != want {
			t.Errorf("%s is shown as %s", in, got)
		}
	}
}
