package jet_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/wire/jet"
)

// A result that a server had delivered when it died was delivered again after ten seconds: if one of three servers was
// killed, the last results of a run came nine seconds after the others.
func TestAResultWhoseDeliveryWasLostComesAgainSoon(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	servers := cluster(t)
	urls := servers[0].ClientURL() + "," + servers[1].ClientURL() + "," + servers[2].ClientURL()
	var c *jet.Conn
	for c == nil { // until they have elected a leader
		var err error
		if c, err = jet.Connect(ctx, jet.Options{URL: urls, Provision: true, Log: logTo(t)}); err != nil &&
			ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { closeAll(t, c) })
	if err := c.PublishResult(ctx, taskRef, []byte("result")); err != nil {
		t.Fatal(err)
	}
	must(c.FetchResults(ctx, taskRef.Coordinator, 1))(t) // this one is lost
	began := time.Now()
	leader := must(c.JetStream().(jetstream.JetStream).Stream(ctx, "RESULTS-eu"))(t).CachedInfo().Cluster.Leader
	for _, s := range servers {
		if s.Name() == leader {
			s.Shutdown()
			s.WaitForShutdown()
		}
	}
	var list int
	for list == 0 && ctx.Err() == nil {
		got, err := c.FetchResults(ctx, taskRef.Coordinator, 1)
		if err == nil {
			list = len(got)
			if err := got[0].Ack(ctx); err != nil {
				t.Error(err)
			}
		}
	}
	// An election cannot be distinguished from the wait. Both begin with the death of the server, so they end together.
	if took := time.Since(began); list == 0 || took > 9*time.Second {
		t.Errorf("the result was delivered again after %s", took)
	} else {
		t.Logf("the result was delivered again after %s", took)
	}
}

// A consumer of an earlier version kept its ack wait for ever.
func TestAConsumerOfAnEarlierVersionIsBroughtUpToDate(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e := embed(t, t.TempDir())
	older := must(e.Connect(ctx, jet.Options{AckWait: 10 * time.Second, Log: logTo(t)}))(t)
	if err := older.PublishTask(ctx, taskRef, []byte("task")); err != nil {
		t.Fatal(err)
	}
	c := must(e.Connect(ctx, jet.Options{Log: logTo(t)}))(t)
	t.Cleanup(func() { closeAll(t, older, c, e) })
	must(c.FetchTasks(ctx, taskRef.Pool, 1))(t)
	consumer := must(c.JetStream().(jetstream.JetStream).Consumer(ctx, "TASKS-eu", "pool-"+taskRef.Pool))(t)
	if got := consumer.CachedInfo().Config.AckWait; got != 5*time.Second {
		t.Errorf("the consumer waits for %s", got)
	}
}
