package jet_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
)

func request(coordinator, id string) wire.PermitRequest {
	return wire.PermitRequest{ID: id, Coordinator: coordinator, Run: "run-of-" + coordinator}
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// two returns two connections, those of alice and bob. Alice holds the only permit, and her connection is over a link
// that can fail.
func two(t *testing.T) (alice *jet.Conn, link *jet.Link, held wire.Permit, bob *jet.Conn) {
	t.Helper()
	ctx := t.Context()
	e := embed(t, t.TempDir())
	t.Cleanup(func() { closeAll(t, e) })
	alice, link, err := e.ConnectOver(ctx, jet.Options{Name: "alice", AckWait: ackWait, Log: logTo(t)})
	if err != nil {
		t.Fatal(err)
	}
	bob = connect(t, e)
	t.Cleanup(func() { closeAll(t, alice, bob) })
	if _, err := alice.DeclareLimit(ctx, wire.Limit{Name: "global", Slots: 1}); err != nil {
		t.Fatal(err)
	}
	return alice, link, must(alice.Acquire(ctx, "global", request("alice", "a1")))(t), bob
}

func closeAll(t *testing.T, list ...interface{ Close() error }) {
	t.Helper()
	for _, c := range list {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// patiently waits for a permit until ctx ends, and reports the outcome.
func patiently(ctx context.Context, c *jet.Conn, r wire.PermitRequest) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := c.Acquire(ctx, "global", r)
		done <- err
	}()
	return done
}

func TestAPausedHolderKeepsItsPermitAndLearnsSoWhenItWakesUp(t *testing.T) {
	alice, link, held, bob := two(t)
	bob.OnAbandoned(func(context.Context, string, wire.PermitRequest) bool {
		t.Error("the AbandonedFunc was called for a permit whose holder is alive")
		return true
	})
	waiting, cancel := context.WithTimeout(t.Context(), 3*ackWait)
	defer cancel()
	got := patiently(waiting, bob, request("bob", "b1"))
	link.Freeze()
	if err := <-got; !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("bob got the permit: %v", err)
	}
	link.Thaw()
	if err := held.Confirm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	must(bob.Acquire(t.Context(), "global", request("bob", "b2")))(t)
	_ = alice
}

func TestAHolderThatWasCutOffLearnsThatItsPermitWasFreed(t *testing.T) {
	_, link, held, bob := two(t)
	bob.OnAbandoned(func(_ context.Context, _ string, r wire.PermitRequest) bool { return r.Coordinator == "alice" })
	link.Cut()
	mine := must(bob.Acquire(t.Context(), "global", request("bob", "b1")))(t)
	link.Heal()
	err := held.Confirm(t.Context())
	for errors.Is(err, wire.ErrDisconnected) {
		err = held.Confirm(t.Context())
	}
	if !errors.Is(err, wire.ErrPermitLost) {
		t.Fatalf("alice still relies on the permit: %v", err)
	}
	if err := mine.Confirm(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAHolderThatWasCutOffForAMomentGetsItsPermitBack(t *testing.T) {
	alice, link, held, bob := two(t)
	asked := make(chan struct{}, 100)
	bob.OnAbandoned(func(context.Context, string, wire.PermitRequest) bool { asked <- struct{}{}; return false })
	waiting, cancel := context.WithCancel(t.Context())
	got := patiently(waiting, bob, request("bob", "b1"))
	link.Cut()
	<-asked // so the permit has lapsed
	link.Heal()
	err := held.Confirm(t.Context())
	for errors.Is(err, wire.ErrDisconnected) {
		err = held.Confirm(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	status := must(alice.Limits(t.Context()))(t)[0]
	if len(status.Held) != 1 || status.Held[0].ID != "a1" {
		t.Fatalf("the limit is %+v", status)
	}
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Fatalf("bob got the permit, too: %v", err)
	}
}

func TestAPermitThatIsReleasedWhileCutOffIsFreedLater(t *testing.T) {
	_, link, held, bob := two(t)
	link.Cut()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := held.Release(short); err == nil {
		t.Fatal("the permit was released without a connection")
	}
	link.Heal()
	must(bob.Acquire(t.Context(), "global", request("bob", "b1")))(t)
}

func TestARequestThatIsGivenUpWhileCutOffTakesNoSlotLater(t *testing.T) {
	alice, link, held, bob := two(t)
	waiting, cancel := context.WithCancel(t.Context())
	got := patiently(waiting, alice, request("alice", "a2"))
	for len(must(bob.Limits(t.Context()))(t)[0].Waiting) == 0 {
		continue
	}
	link.Cut()
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	link.Heal()
	err := held.Release(t.Context())
	for errors.Is(err, wire.ErrDisconnected) {
		err = held.Release(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	must(bob.Acquire(t.Context(), "global", request("bob", "b1")))(t)
}

// When the server refused a request for a permit, the request was withdrawn. That freed the slot of an earlier process
// of the coordinator, which had the same name, although its operations were in progress.
func TestARequestThatIsRefusedLeavesTheSlotTaken(t *testing.T) {
	ctx := t.Context()
	url := startServer(t, server.Options{
		Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
		SyncAlways: true,
		Users: []*server.User{
			{Username: "all", Password: "p"},
			{Username: "mute", Password: "p",
				Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"admit.>"}}}},
		},
	}).ClientURL()
	as := func(user string) *jet.Conn {
		c := must(jet.Connect(ctx, jet.Options{URL: url, User: user, Password: "p", Provision: true, AckWait: ackWait,
			Timeout: 300 * time.Millisecond, Log: logTo(t)}))(t)
		t.Cleanup(func() { closeAll(t, c) })
		return c
	}
	before := must(jet.Connect(ctx, jet.Options{URL: url, User: "all", Password: "p", Provision: true, AckWait: ackWait,
		Log: logTo(t)}))(t)
	must(before.DeclareLimit(ctx, wire.Limit{Name: "global", Slots: 1}))(t)
	must(before.Acquire(ctx, "global", request("alice", "a1")))(t)
	closeAll(t, before)

	if _, err := as("mute").Acquire(ctx, "global", request("alice", "a1")); !errors.Is(err, wire.ErrDenied) {
		t.Fatalf("the request of a user without permission was not refused: %v", err)
	}
	bob := as("all")
	short, cancel := context.WithTimeout(ctx, 3*ackWait)
	defer cancel()
	if _, err := bob.Acquire(short, "global", request("bob", "b1")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("bob got the permit: %v", err)
	}
	if status := must(bob.Limits(ctx))(t)[0]; len(status.Held)+len(status.Waiting) != 1 {
		t.Errorf("the limit is %+v", status)
	}
}
