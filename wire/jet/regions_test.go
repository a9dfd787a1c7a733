package jet_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
)

// cable is the line between a region and the hub, which a test can cut.
type cable struct {
	to string
	in net.Listener

	mu    sync.Mutex // guards the fields below
	cut   bool
	conns []net.Conn
	group sync.WaitGroup
}

func lay(t *testing.T, to string) *cable {
	c := &cable{to: to, in: must(net.Listen("tcp", "127.0.0.1:0"))(t)}
	c.group.Go(c.accept)
	t.Cleanup(func() {
		c.in.Close()
		c.Cut()
		c.group.Wait()
	})
	return c
}

func (c *cable) accept() {
	for {
		a, err := c.in.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", c.to)
		c.mu.Lock()
		if err != nil || c.cut {
			a.Close()
			if err == nil {
				b.Close()
			}
			c.mu.Unlock()
			continue
		}
		c.conns = append(c.conns, a, b)
		for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
			c.group.Go(func() {
				_, _ = io.Copy(way[0], way[1])
				way[0].Close()
				way[1].Close()
			})
		}
		c.mu.Unlock()
	}
}

// Cut breaks the line until Mend.
func (c *cable) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

// Mend permits connections again.
func (c *cable) Mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = false
}

// land is a hub and the region eu, which has a JetStream domain of its own.
type land struct {
	hub, eu     *server.Server
	line        *cable
	coordinator *jet.Conn
}

func (l *land) connect(t *testing.T, s *server.Server, o jet.Options) *jet.Conn {
	t.Helper()
	o.URL, o.AckWait, o.Log, o.Timeout = s.ClientURL(), ackWait, logTo(t), 2*time.Second
	c := must(jet.Connect(t.Context(), o))(t)
	t.Cleanup(func() { closeAll(t, c) })
	return c
}

// found founds a land. The store of the pool eu is set to be in the domain eu.
func found(t *testing.T) *land {
	t.Helper()
	free := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	leaves := free.Addr().(*net.TCPAddr)
	free.Close()
	hub := startServer(t, server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, ServerName: "hub",
		JetStream: true, JetStreamDomain: "hub", StoreDir: t.TempDir(),
		LeafNode: server.LeafNodeOpts{Host: "127.0.0.1", Port: leaves.Port, NoAdvertise: true}})
	line := lay(t, leaves.String())
	remote := must(url.Parse("nats-leaf://" + line.in.Addr().String()))(t)
	eu := startServer(t, server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, ServerName: "eu",
		JetStream: true, JetStreamDomain: "eu", StoreDir: t.TempDir(),
		LeafNode: server.LeafNodeOpts{ReconnectInterval: 100 * time.Millisecond,
			Remotes: []*server.RemoteLeafOpts{{URLs: []*url.URL{remote}, IgnoreDiscoveredServers: true}}}})
	l := &land{hub: hub, eu: eu, line: line}
	l.coordinator = l.connect(t, hub, jet.Options{Provision: true})
	for tries := 0; ; tries++ {
		err := l.coordinator.PoolSettings().SetDomain(t.Context(), "eu", "eu")
		if err == nil {
			break
		}
		if tries > 50 {
			t.Fatal(err)
		}
		<-time.After(100 * time.Millisecond) // the line is laid meanwhile
	}
	must(l.coordinator.Domains(t.Context()))(t)
	return l
}

func TestAPoolWithADomainHasItsStreamsInTheStoreOfItsRegion(t *testing.T) {
	l := found(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	worker := l.connect(t, l.eu, jet.Options{Domain: "eu", Pools: []string{"eu"}})
	us := taskRef
	us.Pool, us.Attempt = "us", "a2"
	for _, ref := range []wire.TaskRef{taskRef, us} {
		if err := l.coordinator.PublishTask(ctx, ref, []byte("task")); err != nil {
			t.Fatal(err)
		}
	}
	data := []byte("package")
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	blobs, own := l.coordinator.TaskBlobs("eu")
	if _, other := l.coordinator.TaskBlobs("us"); !own || other {
		t.Errorf("the pool eu has a bucket of its own: %t; the pool us: %t", own, other)
	}
	if err := errors.Join(blobs.PutBlob(ctx, name, data), blobs.NameBlob(ctx, "a package", name)); err != nil {
		t.Fatal(err)
	}
	if got := must(worker.GetBlob(ctx, must(worker.LookupBlob(ctx, "a package"))(t)))(t); string(got) != "package" {
		t.Errorf("the worker reads %q", got)
	}

	tasks := must(worker.FetchTasks(ctx, "eu", 2))(t)
	if len(tasks) != 1 || tasks[0].Ref() != taskRef {
		t.Fatalf("the worker gets %v", tasks)
	}
	must(worker.Claim(ctx, taskRef, wire.Claim{Nonce: "n", Worker: "w"}))(t)
	if err := errors.Join(tasks[0].Ack(ctx), worker.PublishResult(ctx, taskRef, []byte("result"))); err != nil {
		t.Fatal(err)
	}
	results := must(l.coordinator.FetchResults(ctx, taskRef.Coordinator, 1))(t)
	if string(results[0].Data()) != "result" {
		t.Errorf("the result is %q", results[0].Data())
	}
	if err := results[0].Ack(ctx); err != nil {
		t.Fatal(err)
	}
	if c := must(l.coordinator.ReadClaim(ctx, taskRef))(t); c.Worker != "w" {
		t.Errorf("the claim is %+v", c)
	}
	mark := must(l.coordinator.HighWater(ctx, []string{"eu", "us"}))(t)
	if why, own := mark.Stores["eu"]; !own || why != "" || mark.Queues["eu"].Last != 1 || mark.Queues["us"].Last != 1 {
		t.Errorf("the mark is %+v", mark)
	}
	hubs, regions := streamsOf(t, js(l.coordinator)), streamsOf(t, js(worker))
	for _, kind := range []string{"TASKS-", "CLAIMS-", "KEYS-", "RESULTS-", "OBJ_BLOB_"} {
		if !slices.Contains(hubs, kind+"us") || slices.Contains(hubs, kind+"eu") || !slices.Contains(regions, kind+"eu") ||
			slices.Contains(regions, kind+"us") {
			t.Errorf("%s: the hub has %v, the region %v", kind, hubs, regions)
		}
	}
	if err := l.coordinator.PurgeRun(ctx, taskRef.Run, []string{"eu", "us"}); err != nil {
		t.Fatal(err)
	}
	m := must(must(js(worker).Stream(ctx, "CLAIMS-eu"))(t).GetLastMsgForSubject(ctx, "done.eu."+taskRef.Run))(t)
	if m.Subject == "" {
		t.Error("the run is not marked as done in the region")
	}
}

func streamsOf(t *testing.T, js jetstream.JetStream) []string {
	t.Helper()
	list := js.StreamNames(t.Context())
	var names []string
	for name := range list.Name() {
		names = append(names, name)
	}
	if list.Err() != nil {
		t.Fatal(list.Err())
	}
	return names
}

func TestARegionThatIsCutOffGoesOnAndDelaysNobodyElse(t *testing.T) {
	l := found(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	worker := l.connect(t, l.eu, jet.Options{Domain: "eu", Pools: []string{"eu"}})
	us := attemptNo(2)
	us.Pool = "us"
	pools := []string{"eu", "us"}
	for _, ref := range []wire.TaskRef{taskRef, us} {
		if err := l.coordinator.PublishTask(ctx, ref, []byte("task")); err != nil {
			t.Fatal(err)
		}
	}
	task := must(worker.FetchTasks(ctx, "eu", 1))(t)[0]
	before := must(l.coordinator.HighWater(ctx, pools))(t)
	l.line.Cut()
	must(worker.Claim(ctx, taskRef, wire.Claim{Nonce: "n", Worker: "w"}))(t)
	if err := errors.Join(task.Ack(ctx), worker.PublishResult(ctx, taskRef, []byte("result"))); err != nil {
		t.Fatalf("in the region: %v", err)
	}

	began := time.Now()
	now := must(l.coordinator.HighWater(ctx, pools))(t)
	if now.Stores["eu"] == "" || before.Lost(now) || now.Queues["us"] != before.Queues["us"] {
		t.Errorf("the mark is %+v", now)
	}
	if kept := now.Since(before); kept.Claims["eu"] != before.Claims["eu"] {
		t.Errorf("the position of the region is forgotten: %+v", kept)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the mark took %s", took)
	}
	next := attemptNo(3)
	if err := l.coordinator.PublishTask(ctx, next, nil); !errors.Is(err, wire.ErrUnanswered) {
		t.Errorf("a task for the region: %v", err)
	}
	if c, err := l.coordinator.Claim(ctx, next, wire.Claim{Nonce: "tomb", Tombstone: true}); err == nil {
		t.Errorf("a tombstone was written while the region was cut off: %+v", c)
	}
	began = time.Now()
	if err := l.coordinator.PurgeRun(ctx, us.Run, pools); err != nil {
		t.Errorf("cleaning while a region is cut off: %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("cleaning took %s", took)
	}

	l.line.Mend()
	began = time.Now()
	got := must(l.coordinator.FetchResults(ctx, taskRef.Coordinator, 1))(t)
	if string(got[0].Data()) != "result" {
		t.Errorf("the result is %q", got[0].Data())
	}
	t.Logf("the result was there %s after the line", time.Since(began))
	if err := got[0].Ack(ctx); err != nil {
		t.Fatal(err)
	}
	for ctx.Err() == nil { // what could not be cleaned is cleaned at the end of a later run
		if err := l.coordinator.PurgeRun(ctx, "later", []string{"eu"}); err != nil {
			t.Fatal(err)
		}
		_, err := must(js(worker).Stream(ctx, "CLAIMS-eu"))(t).GetLastMsgForSubject(ctx, "done.eu."+us.Run)
		if err == nil {
			break
		}
		if !errors.Is(err, jetstream.ErrMsgNotFound) {
			t.Fatal(err)
		}
	}
}

// With a stream of registers left at the hub and the line cut, a tombstone was acknowledged by the hub, and a claim of
// the same attempt by the region.
func TestNoStreamMayHaveSubjectsOfAnotherStore(t *testing.T) {
	l := found(t)
	ctx := t.Context()
	worker := l.connect(t, l.eu, jet.Options{Domain: "eu", Pools: []string{"eu"}})
	for name, c := range map[string]struct {
		at      jetstream.JetStream
		stream  string
		subject string
	}{
		"a pool's registers at the hub":  {js(l.coordinator), "LEFT", "claim.eu.>"},
		"the registers of all pools":     {js(l.coordinator), "LEFT", "claim.*.>"},
		"the hub's limits in the region": {js(worker), "MINE", "admit.>"},
		"another pool in the region":     {js(worker), "MINE", "task.us.>"},
	} {
		must(c.at.CreateStream(ctx, jetstream.StreamConfig{Name: c.stream, Subjects: []string{c.subject}}))(t)
		_, err := l.coordinator.Domains(ctx)
		if !errors.Is(err, wire.ErrElsewhere) || !strings.Contains(err.Error(), c.stream) {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.at.DeleteStream(ctx, c.stream); err != nil {
			t.Fatal(err)
		}
	}
	must(js(worker).CreateStream(ctx, jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"orders.>"}}))(t)
	if _, err := l.coordinator.Domains(ctx); err != nil {
		t.Errorf("a stream of something else: %v", err)
	}
}

// A worker that uses the store at the hub for a pool whose registers are in its region, or the other way round, would
// claim in a register that no coordinator reads.
func TestAWorkerClaimsInNoOtherDomainThanItsTaskNames(t *testing.T) {
	l := found(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	us := taskRef
	us.Pool = "us"
	if err := l.coordinator.PublishTask(ctx, us, nil); err != nil {
		t.Fatal(err)
	}
	stray := l.connect(t, l.hub, jet.Options{})
	if list := must(stray.FetchTasks(ctx, "us", 1))(t); list[0].Ref() != us {
		t.Fatalf("it gets %+v", list[0].Ref())
	}
	if err := js(l.coordinator).DeleteStream(ctx, "CLAIMS-us"); err != nil {
		t.Fatal(err)
	}
	cfg := jetstream.StreamConfig{Name: "CLAIMS-us", Subjects: []string{"claim.us.>"}}
	must(js(l.connect(t, l.eu, jet.Options{})).CreateStream(ctx, cfg))(t)
	wait, end := context.WithTimeout(ctx, 10*time.Second)
	defer end()
	if c, err := stray.Claim(wait, us, wire.Claim{Nonce: "n"}); !errors.Is(err, wire.ErrElsewhere) {
		t.Errorf("its claim: %+v, %v", c, err)
	}
}

func TestTheDomainOfAPoolIsNotChangedUnderRunsThatHaveNotEnded(t *testing.T) {
	l := found(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	us := taskRef
	us.Pool = "us"
	if err := l.coordinator.PublishTask(ctx, us, nil); err != nil {
		t.Fatal(err)
	}
	settings := l.connect(t, l.hub, jet.Options{Provision: true}).PoolSettings()
	unfinished := (*jet.UnfinishedError)(nil)
	if err := settings.SetDomain(ctx, "us", "eu"); !errors.As(err, &unfinished) || unfinished.Runs[0] != us.Run {
		t.Errorf("with a task: %v", err)
	}
	if err := settings.SetDomain(ctx, "ap", "nowhere"); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a domain that does not exist: %v", err)
	}
	if err := l.coordinator.PurgeRun(ctx, us.Run, []string{"us"}); err != nil {
		t.Fatal(err)
	}
	if err := settings.SetDomain(ctx, "us", "eu"); err != nil {
		t.Fatal(err)
	}
	moved := (*jet.MovedError)(nil)
	if _, err := l.coordinator.Domains(ctx); !errors.As(err, &moved) || moved.Pool != "us" {
		t.Errorf("the connection that used it: %v", err)
	}
	if all := must(settings.Domains(ctx))(t); all["us"] != "eu" || all["eu"] != "eu" {
		t.Errorf("the settings are %v", all)
	}
}

// A task of yesterday could be claimed when its region was there again: the ten minutes counted from the moment at
// which a worker had fetched it.
func TestATaskWaitsTenMinutesByTheClockOfItsStore(t *testing.T) {
	ctx := t.Context()
	c := external(t, 40<<30)()
	if err := c.PublishTask(ctx, taskRef, nil); err != nil {
		t.Fatal(err)
	}
	m := must(must(js(c).Stream(ctx, "TASKS-eu"))(t).GetMsg(ctx, 1))(t)
	if ttl := m.Header.Get(jetstream.MsgTTLHeader); ttl != jet.TaskLife.String() {
		t.Errorf("it may wait %q", ttl)
	}
}
