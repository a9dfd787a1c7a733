package jet_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
)

// member connects a coordinator to servers of a cluster.
func member(t *testing.T, urls string) *jet.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := must(jet.Connect(ctx, jet.Options{URL: urls, Provision: true, AckWait: ackWait, Timeout: 2 * time.Second,
		Log: logTo(t)}))(t)
	t.Cleanup(func() { closeAll(t, c) })
	return c
}

func urlsOf(servers [3]*server.Server) string {
	return servers[0].ClientURL() + "," + servers[1].ClientURL() + "," + servers[2].ClientURL()
}

// A server that was cut off from its cluster answered with its outdated data: one such answer was taken for lost data,
// so the run froze for good and its operations ended in doubt.
func TestTheAnswerOfAServerWithoutItsClusterIsNoAnswer(t *testing.T) {
	servers := cluster(t)
	c := member(t, urlsOf(servers))
	ctx := t.Context()
	if err := c.PublishTask(ctx, taskRef, []byte("task")); err != nil {
		t.Fatal(err)
	}
	before := must(c.HighWater(ctx, []string{"eu"}))(t)
	if !before.Replicated || before.Servers["TASKS-eu"] == "" {
		t.Errorf("the mark does not say who answered: %+v", before)
	}
	for _, s := range servers[1:] {
		s.Shutdown()
		s.WaitForShutdown()
	}
	for range 3 {
		now, err := c.HighWater(ctx, []string{"eu"})
		switch {
		case err == nil && before.Lost(now):
			t.Errorf("the server that is left was believed: %s", before.Difference(now))
		case err == nil: // it has not noticed yet
		case !errors.Is(err, wire.ErrUnanswered) && !errors.Is(err, wire.ErrDisconnected):
			t.Errorf("the error is %v", err)
		}
	}
}

func TestOnlyALeaderThatHearsAMajorityIsBelieved(t *testing.T) {
	fresh, old := time.Second, 3*time.Second
	peers := func(a, b time.Duration) []*jetstream.PeerInfo {
		return []*jetstream.PeerInfo{{Name: "n1", Active: a}, {Name: "n2", Active: b}}
	}
	for name, c := range map[string]struct {
		cluster  *jetstream.ClusterInfo
		believed bool
	}{
		"a single server":            {nil, true},
		"all are there":              {&jetstream.ClusterInfo{Leader: "n0", Replicas: peers(fresh, fresh)}, true},
		"one is missing":             {&jetstream.ClusterInfo{Leader: "n0", Replicas: peers(fresh, old)}, true},
		"it hears from nobody":       {&jetstream.ClusterInfo{Leader: "n0", Replicas: peers(old, old)}, false},
		"it knows no leader":         {&jetstream.ClusterInfo{Replicas: peers(fresh, fresh)}, false},
		"another server is the lead": {&jetstream.ClusterInfo{Leader: "n1", Replicas: peers(fresh, fresh)}, false},
	} {
		info := &jetstream.StreamInfo{Config: jetstream.StreamConfig{Replicas: 3}, Cluster: c.cluster}
		if err := jet.Authoritative(info); (err == nil) != c.believed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A command that began while the servers elected a leader ended after 2 to 5 seconds, where a run waits ten minutes.
func TestAConnectionThatBeginsDuringAnElectionWaitsForIt(t *testing.T) {
	late := make(chan struct{})
	goOn := sync.OnceFunc(func() { close(late) })
	defer goOn()
	servers := clusterOf(t, func(i int) {
		if i == 1 { // the first one is alone until the client has met it
			<-late
		}
	})
	first := <-servers
	connected := make(chan error, 1)
	go func() { connected <- connectAndClose(t, first.ClientURL()) }()
	for first.NumClients() == 0 {
		select {
		case err := <-connected:
			t.Fatalf("it ended before it had connected: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	select {
	case err := <-connected:
		t.Fatalf("it ended while there was no leader: %v", err)
	case <-time.After(time.Second): // twice the time-out of a request
	}
	goOn()
	<-servers
	<-servers
	select {
	case err := <-connected:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it does not go on although there are three servers")
	}
}

// connectAndClose connects a coordinator, and returns an error if not every stream has three replicas.
func connectAndClose(t *testing.T, url string) error {
	c, err := jet.Connect(t.Context(), jet.Options{URL: url, Provision: true, AckWait: ackWait,
		Timeout: 500 * time.Millisecond, Log: logTo(t)})
	if err != nil {
		return err
	}
	d, err := c.Durability(t.Context())
	if err == nil && len(d.SingleReplica) > 0 {
		err = fmt.Errorf("one server alone stores %v", d.SingleReplica)
	}
	return errors.Join(err, c.Close())
}

// While a cluster started, a server that did not know all the others refused three replicas: streams were made with one
// for good, and the command ended because the bucket of packages was not.
func TestAStreamWaitsForTheServersOfItsReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		refuses := func(replicas int) error {
			if replicas > 1 {
				return &jetstream.APIError{ErrorCode: 10005, Description: "no suitable peers for placement, peer offline"}
			}
			made = replicas
			return nil
		}
		accepts := func(replicas int) error {
			made = replicas
			return nil
		}
		exists := func(int) error { return jetstream.ErrStreamNameAlreadyInUse }
		create := jet.Replicated(3, logTo(t))
		for _, s := range []struct {
			after time.Duration
			make  func(int) error
			err   error
			made  int
		}{
			{0, refuses, wire.ErrUnanswered, 0},
			{9 * time.Second, refuses, wire.ErrUnanswered, 0},
			{500 * time.Millisecond, accepts, nil, 3},
			{time.Hour, refuses, wire.ErrUnanswered, 0}, // another server is away, an hour later
			{11 * time.Second, refuses, nil, 1},         // nobody waits for ever for a cluster of two
			{0, exists, jetstream.ErrStreamNameAlreadyInUse, 0},
		} {
			made = 0
			<-time.After(s.after)
			if err := create("TASKS-eu", s.make); !errors.Is(err, s.err) || made != s.made {
				t.Errorf("after %v: %v, %d replicas; want %v, %d", s.after, err, made, s.err, s.made)
			}
		}
	})
}

// Somebody deleted the durable consumers "limit-default" and "pool-default" under a run, which made them at their first
// use only. It waited for ever, and gave no reason.
func TestADeletedConsumerIsMadeAgainUnderARun(t *testing.T) {
	servers := cluster(t)
	c := member(t, urlsOf(servers))
	js := c.JetStream().(jetstream.JetStream)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	limit := wire.Limit{Name: "global", Slots: 1}
	must(c.DeclareLimit(ctx, limit))(t)
	held := must(c.Acquire(ctx, "global", request("alice", "a1")))(t)
	if err := c.PublishTask(ctx, taskRef, []byte("first")); err != nil {
		t.Fatal(err)
	}
	for stream, consumer := range map[string]string{"ADMIT": "limit-global", "TASKS-eu": "pool-eu"} {
		if err := js.DeleteConsumer(ctx, stream, consumer); err != nil {
			t.Fatal(err)
		}
	}
	next := patiently(ctx, c, request("alice", "a2"))
	select {
	case err := <-next:
		t.Fatalf("two permits of one slot are held: %v", err)
	case <-time.After(4 * ackWait):
	}
	if err := held.Confirm(ctx); err != nil {
		t.Errorf("the permit that was held is %v", err)
	}
	if err := held.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-next; err != nil {
		t.Errorf("waiting for the next permit: %v", err)
	}
	if l := must(c.DeclareLimit(ctx, limit))(t); l.Slots != 1 {
		t.Errorf("the limit has %d slots", l.Slots)
	}
	c.LookAgain()
	if err := c.PublishTask(ctx, taskRef, []byte("first")); err != nil { // as a run does with a task that nobody claims
		t.Fatal(err)
	}
	if list := must(c.FetchTasks(ctx, "eu", 1))(t); string(list[0].Data()) != "first" {
		t.Errorf("the task is %q", list[0].Data())
	}
}

func TestAClockThatWentBackIsSeenByTheLastDelivery(t *testing.T) {
	now := time.Now()
	info := func(last time.Duration, unacknowledged int) *jetstream.ConsumerInfo {
		at := now.Add(last)
		return &jetstream.ConsumerInfo{TimeStamp: now, NumAckPending: unacknowledged,
			Config: jetstream.ConsumerConfig{AckWait: 5 * time.Second}, Delivered: jetstream.SequenceInfo{Last: &at}}
	}
	for _, c := range []struct {
		info *jetstream.ConsumerInfo
		back bool
	}{
		{info(time.Hour, 1), true}, {info(time.Hour, 0), false}, {info(time.Second, 1), false},
		{info(-time.Hour, 1), false}, {&jetstream.ConsumerInfo{TimeStamp: now, NumAckPending: 1}, false},
	} {
		if back := jet.ClockWentBack(c.info); back != c.back {
			t.Errorf("%+v: %t", c.info, back)
		}
	}
}

// The server's clock went back an hour and the coordinator was killed: the resumed run waited an hour for the permits
// of the dead process, because the server compares the times of deliveries with its clock. The consumer is made anew
// then, under permits that are held: nobody else gets them, and a process that resumes the run does at once.
func TestAConsumerIsMadeAnewUnderHeldPermits(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e := embed(t, t.TempDir())
	t.Cleanup(func() { closeAll(t, e) })
	alice, bob := connect(t, e), connect(t, e)
	t.Cleanup(func() { closeAll(t, bob) })
	limit := wire.Limit{Name: "global", Slots: 1}
	must(alice.DeclareLimit(ctx, limit))(t)
	must(bob.DeclareLimit(ctx, limit))(t)
	must(alice.Acquire(ctx, "global", request("alice", "a1")))(t)
	waiting := patiently(ctx, bob, request("bob", "b1"))
	if err := bob.RemakeLimit(ctx, limit); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-waiting:
		t.Fatalf("bob got the slot that alice holds: %v", err)
	case <-time.After(4 * ackWait):
	}
	closeAll(t, alice) // it dies with the permit
	again := connect(t, e)
	t.Cleanup(func() { closeAll(t, again) })
	if err := bob.RemakeLimit(ctx, limit); err != nil {
		t.Fatal(err)
	}
	p := must(again.Acquire(ctx, "global", request("alice", "a1")))(t)
	if err := p.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}

// The end of each run listed the buckets of all pools: 400,000 objects in that of a captured pool delayed it by 30 s.
func TestTheEndOfARunLooksOnlyIntoThePoolsThatItUsed(t *testing.T) {
	ctx := t.Context()
	e := embed(t, t.TempDir())
	t.Cleanup(func() { closeAll(t, e) })
	c := connect(t, e)
	t.Cleanup(func() { closeAll(t, c) })
	data := []byte("spilled")
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	for _, pool := range []string{"eu", "us"} {
		b := c.PoolBlobs(pool)
		if err := errors.Join(b.PutBlob(ctx, name, data), b.NameBlob(ctx, wire.SpillName("run-1", name), name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.PurgeRun(ctx, "run-1", []string{"us"}); err != nil {
		t.Fatal(err)
	}
	for pool, left := range map[string]bool{"eu": true, "us": false} {
		if has := must(c.PoolBlobs(pool).HasBlob(ctx, name))(t); has != left {
			t.Errorf("the bucket of the pool %s still has the blob: %t", pool, has)
		}
	}
}
