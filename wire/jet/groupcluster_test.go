package jet_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/state/log"
	"github.com/millipede-iac/millipede/state/recorded"
	"github.com/millipede-iac/millipede/wire/jet"
)

// rack is a cluster whose servers can be stopped and started again, with what they have stored.
type rack struct {
	t       *testing.T
	options [3]server.Options
	servers [3]*server.Server
}

func newRack(t *testing.T) *rack {
	t.Helper()
	r := &rack{t: t}
	var routes []*url.URL
	port := func() int {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		return listener.Addr().(*net.TCPAddr).Port
	}
	for i := range r.options {
		o := server.Options{ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: port(), NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(), SyncAlways: true,
			Cluster: server.ClusterOpts{Name: "three", Host: "127.0.0.1", Port: port()}}
		routes = append(routes, &url.URL{Scheme: "nats-route", Host: fmt.Sprint("127.0.0.1:", o.Cluster.Port)})
		r.options[i] = o
	}
	for i := range r.options {
		r.options[i].Routes = routes
		r.start(i)
	}
	return r
}

func (r *rack) urls() (urls string) {
	for _, o := range r.options {
		urls += fmt.Sprintf(",nats://%s:%d", o.Host, o.Port)
	}
	return urls[1:]
}

func (r *rack) stop(i int) {
	r.servers[i].Shutdown()
	r.servers[i].WaitForShutdown()
}

func (r *rack) start(i int) {
	r.t.Helper()
	s, err := tryToStart(r.t, r.options[i])
	if err != nil {
		r.t.Fatal(err)
	}
	r.servers[i] = s
}

// optionsOn are the options of a member on a log.
func optionsOn(t *testing.T, l *jet.GroupLog, member string, first bool) log.Options {
	t.Helper()
	return log.Options{Transport: l, Incarnation: l.Incarnation(), Store: "bench", Member: member, First: first,
		Key: must(log.Key([]byte("secret"), l.Incarnation(), "bench"))(t), Boot: "boot",
		Log: func(line string) { t.Log(member + ": " + line) }}
}

// A service that takes changes while its servers are stopped and started one after the other, also two at a time: what
// was acknowledged is in the log, once and in order, and a new member has the same.
func TestWhatThreeServersAcknowledgeStaysInTheLogWhileTheyAreRestarted(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	r := newRack(t)
	connectTo := func(name string) *jet.GroupLog {
		t.Helper()
		c := must(jet.Connect(ctx, jet.Options{URL: r.urls(), Name: name, Timeout: 2 * time.Second}))(t)
		t.Cleanup(func() { closeAll(t, c) })
		l, err := c.GroupLogs().Create(ctx, "prod", incarnation, 0)
		for err != nil && ctx.Err() == nil { // until they have elected a leader
			l, err = c.GroupLogs().Create(ctx, "prod", incarnation, 0)
		}
		return must(l, err)(t)
	}
	l := connectTo("alice")
	path := filepath.Join(t.TempDir(), "alice.db")
	const writers = 4
	var group sync.WaitGroup
	stop := make(chan struct{})
	acknowledged := make([][]string, writers)
	s := openLogged(t, l, path, true)
	for w := range writers {
		group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				key := fmt.Sprintf("%d-%d", w, i)
				if err := s.put(key, []byte(key)); err != nil {
					t.Errorf("a change: %v", err)
					return
				}
				acknowledged[w] = append(acknowledged[w], key)
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 4 {
		first := random.IntN(3)
		down := []int{first}
		if round%2 == 1 { // no majority for a while
			down = append(down, (first+1)%3)
		}
		for _, i := range down {
			r.stop(i)
		}
		select {
		case <-time.After(1500 * time.Millisecond): // for as long as a restart takes
		case <-ctx.Done():
		}
		for _, i := range down {
			r.start(i)
		}
		select {
		case <-time.After(1500 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	close(stop)
	group.Wait()
	s.close(t)

	path = filepath.Join(t.TempDir(), "fresh.db")
	fresh := must(log.OpenCopy(path, optionsOn(t, connectTo("bob"), "bob", false)))(t)
	for err := fresh.Follow(ctx); err != nil; err = fresh.Follow(ctx) {
		if !errors.Is(err, log.ErrUnanswered) {
			t.Fatal(err)
		}
	}
	position := fresh.Position()
	if err := fresh.Close(); err != nil {
		t.Fatal(err)
	}
	total := 0
	db := must(bbolt.Open(path, 0o600, nil))(t)
	if err := recorded.View(db, func(tx *recorded.Tx) error {
		values := tx.Bucket([]byte("values"))
		for _, keys := range acknowledged {
			for _, key := range keys {
				total++
				if string(values.Get([]byte(key))) != key {
					t.Errorf("%s was acknowledged, and is gone", key)
				}
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("%d changes were acknowledged; the log ends at %d", total, position.Sequence)
	if total < 100 {
		t.Error("hardly anything was acknowledged")
	}
}
