package jet_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
)

// cluster starts three servers on loopback with replicated streams.
func cluster(t *testing.T) (list [3]*server.Server) {
	t.Helper()
	started := clusterOf(t, func(int) {})
	for i := range list {
		var ok bool
		if list[i], ok = <-started; !ok {
			t.FailNow() // said by the goroutine that starts them
		}
	}
	return list
}

// clusterOf starts three servers, one after the other: before returns when the next one may start. The channel is
// closed when all are started or one could not be. They listen at an address of their own, where nobody else takes the
// ports that they are to have.
func clusterOf(t *testing.T, before func(i int)) <-chan *server.Server {
	t.Helper()
	var ports [3]int
	var routes []*url.URL
	host := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(256), 1+rand.IntN(250))
	for i := range ports {
		l, err := net.Listen("tcp", host+":0")
		if err != nil {
			host = "127.0.0.1" // on other systems than Linux, a loopback device has only this one
			l, err = net.Listen("tcp", host+":0")
		}
		if err != nil {
			t.Fatal(err)
		}
		ports[i] = l.Addr().(*net.TCPAddr).Port
		l.Close()
		routes = append(routes, &url.URL{Scheme: "nats-route", Host: fmt.Sprintf("%s:%d", host, ports[i])})
	}
	dirs := [3]string{t.TempDir(), t.TempDir(), t.TempDir()}
	started := make(chan *server.Server, len(ports))
	var group sync.WaitGroup
	group.Go(func() {
		defer close(started)
		for i, port := range ports {
			before(i)
			s, err := tryToStart(t, server.Options{
				ServerName: fmt.Sprint("n", i), Host: host, Port: -1, NoSigs: true, NoLog: true, JetStream: true,
				StoreDir: dirs[i], SyncAlways: true,
				Cluster: server.ClusterOpts{Name: "three", Host: host, Port: port}, Routes: routes,
			})
			if err != nil {
				t.Error(err)
				return
			}
			started <- s
		}
	})
	t.Cleanup(group.Wait)
	return started
}

func TestThreeServersKeepWhatIsAcknowledgedWhenOneIsLost(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	servers := cluster(t)
	urls := servers[0].ClientURL() + "," + servers[1].ClientURL() + "," + servers[2].ClientURL()
	var alice *jet.Conn
	for err := errors.New("not tried yet"); err != nil; { // until they have elected a leader
		alice, err = jet.Connect(ctx, jet.Options{URL: urls, Provision: true, AckWait: ackWait, Log: logTo(t)})
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { closeAll(t, alice) })
	if d := must(alice.Durability(ctx))(t); len(d.SingleReplica) != 0 {
		t.Fatalf("only one server stores %v", d.SingleReplica)
	}
	if err := alice.PublishTask(ctx, taskRef, []byte("task")); err != nil {
		t.Fatal(err)
	}
	if won := must(alice.Claim(ctx, taskRef, wire.Claim{Nonce: "n"}))(t); won.Nonce != "n" {
		t.Fatalf("the register holds %+v", won)
	}
	before := must(alice.HighWater(ctx, []string{taskRef.Pool}))(t)

	leader := must(alice.JetStream().(jetstream.JetStream).Stream(ctx, "CLAIMS-eu"))(t).CachedInfo().Cluster.Leader
	for _, s := range servers {
		if s.Name() == leader {
			s.Shutdown()
			s.WaitForShutdown()
		}
	}
	eventually := func(what string, try func() error) {
		t.Helper()
		err := try()
		for err != nil && ctx.Err() == nil {
			err = try()
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	eventually("claiming again", func() error {
		found, err := alice.Claim(ctx, taskRef, wire.Claim{Nonce: "m"})
		if err == nil && found.Nonce != "n" {
			t.Fatalf("the attempt was claimed a second time: %+v", found)
		}
		return err
	})
	eventually("looking at what is stored", func() error {
		after, err := alice.HighWater(ctx, []string{taskRef.Pool})
		if err == nil && !after.Equal(before) {
			t.Fatalf("the marks of the streams were %+v, and are %+v now", before, after)
		}
		return err
	})
	eventually("fetching the task", func() error {
		list, err := alice.FetchTasks(ctx, taskRef.Pool, 1)
		if err != nil {
			return err
		}
		return list[0].Ack(ctx)
	})
}

// The server that is left takes connections, and answers pings.
func TestAServerThatIsLeftAloneStoresNothingAndSaysSo(t *testing.T) {
	if testing.Short() {
		t.Skip("the server notices it after ten seconds")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	servers := cluster(t)
	urls := servers[0].ClientURL() + "," + servers[1].ClientURL() + "," + servers[2].ClientURL()
	c := must(jet.Connect(ctx, jet.Options{URL: urls, Provision: true, Log: logTo(t)}))(t)
	t.Cleanup(func() { closeAll(t, c) })
	stores := func(is bool) {
		t.Helper()
		err := c.Storing(ctx)
		for ; (err == nil) != is; err = c.Storing(ctx) {
			if sleep.For(ctx, 100*time.Millisecond) != nil {
				t.Fatalf("whether it stores messages: %v", err)
			}
		}
		t.Log(err)
	}
	stores(true)
	servers[0].Shutdown()
	servers[0].WaitForShutdown()
	stores(true)
	servers[1].Shutdown()
	stores(false)
}
