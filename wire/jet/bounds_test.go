package jet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
)

// external starts a server on loopback that may store the given number of bytes. It returns a function that connects to
// the server like a coordinator.
func external(t *testing.T, store int64) func() *jet.Conn {
	t.Helper()
	url := startServer(t, server.Options{
		Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
		JetStreamMaxStore: store,
	}).ClientURL()
	return func() *jet.Conn {
		c := must(jet.Connect(t.Context(), jet.Options{URL: url, Provision: true, AckWait: ackWait, Log: logTo(t)}))(t)
		t.Cleanup(func() { closeAll(t, c) })
		return c
	}
}

func js(c *jet.Conn) jetstream.JetStream { return c.JetStream().(jetstream.JetStream) }

func configOf(t *testing.T, c *jet.Conn, stream string) jetstream.StreamConfig {
	t.Helper()
	return must(js(c).Stream(t.Context(), stream))(t).CachedInfo().Config
}

var (
	poolStreams = []string{"TASKS-eu", "CLAIMS-eu", "KEYS-eu", "RESULTS-eu", "OBJ_BLOB_eu"}
	allStreams  = append([]string{"ADMIT", "OBJ_BLOB"}, poolStreams...)
)

// No stream had a size limit. The results of all pools were in one stream, with which a worker of any pool could fill
// the storage of the server: then no pool could claim or report anything.
func TestAPoolThatFloodsItsStreamsLeavesOthersTheirRoom(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	connect := external(t, 40<<30)
	c := connect()
	us := attemptNo(1)
	us.Pool = "us"
	for name, cfg := range map[string]jetstream.StreamConfig{ // with bounds that are reached soon
		"result.eu.nobody.run.a%d": {Name: "RESULTS-eu", Subjects: []string{"result.eu.>"}, MaxBytes: 4 << 20,
			Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew},
		"claim.eu.run.a%d": {
			Name: "CLAIMS-eu", Subjects: []string{"claim.eu.>", "done.eu.*"}, MaxBytes: 1 << 20, DenyDelete: true,
			MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true},
	} {
		must(js(c).CreateStream(ctx, cfg))(t)
		var err error
		for n := 0; err == nil && n < 1e5; n++ {
			_, err = js(c).Publish(ctx, fmt.Sprintf(name, n), make([]byte, 8<<10))
		}
		if err == nil {
			t.Fatalf("the stream %s has no size limit", cfg.Name)
		}
	}
	for _, ref := range []wire.TaskRef{attemptNo(1), us} {
		if err := c.PublishTask(ctx, ref, nil); err != nil {
			t.Fatal(err)
		}
	}

	var err error
	for n := 0; err == nil && n < 100; n++ { // a small one may fit still
		_, err = c.Claim(ctx, attemptNo(n), wire.Claim{Nonce: fmt.Sprint(n), Reason: strings.Repeat("x", 1000)})
	}
	for what, err := range map[string]error{"CLAIMS-eu": err, "RESULTS-eu": c.PublishResult(ctx, attemptNo(1), nil)} {
		if what == "RESULTS-eu" && err == nil { // as above
			err = c.PublishResult(ctx, attemptNo(1), make([]byte, 16<<10))
		}
		if !errors.Is(err, wire.ErrStore) || !strings.Contains(err.Error(), what) ||
			!strings.Contains(err.Error(), "nats stream edit --max-bytes") {
			t.Errorf("publishing beyond the limit of %s: %v", what, err)
		}
	}
	must(c.Claim(ctx, us, wire.Claim{Nonce: "n"}))(t)
	if err := c.PublishResult(ctx, us, []byte("of us")); err != nil {
		t.Errorf("publishing a result of the other pool: %v", err)
	}
	for came := false; !came; { // a small one of the other pool may have fitted
		for _, d := range must(c.FetchResults(ctx, us.Coordinator, 10))(t) {
			came = came || string(d.Data()) == "of us"
		}
	}
	mark := must(c.HighWater(ctx, []string{"eu", "us"}))(t)
	if err := mark.Of([]string{"us"}).CheckSpace(); err != nil {
		t.Errorf("the mark of the other pool reports: %v", err)
	}
	if err := mark.CheckSpace(); !errors.Is(err, wire.ErrStore) || !strings.Contains(err.Error(), `pool "eu" is full`) {
		t.Errorf("the mark of the full pool reports: %v", err)
	}

	for stream, subject := range map[string]string{"RESULTS-eu": "result.eu.>", "CLAIMS-eu": "claim.eu.>"} {
		if err := must(js(c).Stream(ctx, stream))(t).Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			t.Fatal(err)
		}
	}
	must(c.Claim(ctx, attemptNo(99), wire.Claim{Nonce: "n"}))(t)
	if err := c.PublishResult(ctx, attemptNo(1), nil); err != nil {
		t.Errorf("publishing when there is space again: %v", err)
	}
	if mark := must(c.HighWater(ctx, []string{"eu", "us"}))(t); mark.CheckSpace() != nil {
		t.Errorf("when there is space again the mark reports: %v", mark.CheckSpace())
	}
}

// Results of all pools were received in the order in which they were published: one of the pool us waited behind all
// the forged results of a worker of eu.
func TestNoResultWaitsBehindThoseOfAnotherPool(t *testing.T) {
	ctx := t.Context()
	connect := external(t, 40<<30)
	c := connect()
	us := attemptNo(1)
	us.Pool = "us"
	for _, ref := range []wire.TaskRef{attemptNo(1), us} {
		if err := c.PublishTask(ctx, ref, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, ref := range []wire.TaskRef{us, attemptNo(1)} { // after which both streams have their consumer
		if err := c.PublishResult(ctx, ref, nil); err != nil {
			t.Fatal(err)
		}
		if err := must(c.FetchResults(ctx, us.Coordinator, 1))(t)[0].Ack(ctx); err != nil {
			t.Fatal(err)
		}
	}
	const flood = 4000
	for n := range flood {
		must(js(c).PublishAsync(wire.ResultSubject(attemptNo(n)), nil))(t)
	}
	<-js(c).PublishAsyncComplete()
	if err := c.PublishResult(ctx, us, nil); err != nil {
		t.Fatal(err)
	}
	before := 0
	for came := false; !came; {
		for _, d := range must(c.FetchResults(ctx, us.Coordinator, 64))(t) {
			if came = came || d.Ref() == us; !came {
				before++
			}
		}
	}
	if before > flood/2 {
		t.Errorf("%d results of the other pool were received before it", before)
	}
}

func TestEachStreamOfAnExternalServerHasABound(t *testing.T) {
	for name, store := range map[string]int64{"as recommended": 20 << 30, "less than all the bounds": 256 << 20} {
		t.Run(name, func(t *testing.T) {
			c := external(t, store)()
			if err := c.PublishTask(t.Context(), taskRef, nil); err != nil {
				t.Fatal(err)
			}
			var sum int64
			for _, stream := range allStreams {
				cfg := configOf(t, c, stream)
				if cfg.MaxBytes <= 0 || cfg.Discard != jetstream.DiscardNew {
					t.Errorf("the stream %s is limited to %d bytes, and discards %s", stream, cfg.MaxBytes, cfg.Discard)
				}
				sum += cfg.MaxBytes
			}
			if sum > store {
				t.Errorf("the limits of the streams add up to %d MiB, and the server stores %d MiB", sum>>20, store>>20)
			}
		})
	}
}

// The server's reservations counted for the account, too: a third of its bytes for streams with three replicas.
func TestAnAccountThatMayStoreLittleGetsItsPartOfEachBound(t *testing.T) {
	account := server.NewAccount("A")
	s := startServer(t, server.Options{
		Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
		JetStreamMaxStore: 40 << 30, Accounts: []*server.Account{account},
		Users: []*server.User{{Username: "c", Password: "c", Account: account}},
	})
	account = must(s.LookupAccount("A"))(t)
	if err := account.EnableJetStream(map[string]server.JetStreamAccountLimits{
		"": {MaxMemory: -1, MaxStore: 2 << 30, MaxStreams: -1, MaxConsumers: -1},
	}, nil); err != nil {
		t.Fatal(err)
	}
	c := must(jet.Connect(t.Context(), jet.Options{URL: s.ClientURL(), User: "c", Password: "c", Provision: true,
		Log: logTo(t)}))(t)
	t.Cleanup(func() { closeAll(t, c) })
	if err := c.PublishTask(t.Context(), taskRef, nil); err != nil {
		t.Fatal(err)
	}
	for stream, most := range map[string]int64{"TASKS-eu": 256 << 20 / 10, "RESULTS-eu": 256 << 20 / 10} {
		if got := configOf(t, c, stream).MaxBytes; got <= 0 || got > most {
			t.Errorf("the stream %s is limited to %d bytes; a tenth of the usual limit is %d", stream, got, most)
		}
	}
}

// An existing stream kept its settings, and so had no size limit.
func TestAStreamOfAnEarlierVersionGetsItsBoundAndAChosenOneStays(t *testing.T) {
	ctx := t.Context()
	connect := external(t, 40<<30)
	c := connect()
	old := []jetstream.StreamConfig{
		{Name: "KEYS-eu", Subjects: []string{"key.eu.>"}, MaxMsgsPerSubject: 1},
		{Name: "CLAIMS-eu", Subjects: []string{"claim.eu.>", "done.eu.*"}, MaxMsgsPerSubject: 1, DenyDelete: true,
			Discard: jetstream.DiscardNew, DiscardNewPerSubject: true, MaxBytes: 7 << 20},
	}
	for _, cfg := range old {
		must(js(c).CreateStream(ctx, cfg))(t)
	}
	must(js(c).CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: "BLOB_eu"}))(t)
	must(js(c).Publish(ctx, "key.eu.r.W", []byte("old")))(t)
	next := connect()
	if err := next.PublishTask(ctx, taskRef, nil); err != nil {
		t.Fatal(err)
	}
	for _, stream := range poolStreams {
		cfg := configOf(t, c, stream)
		if cfg.MaxBytes <= 0 || cfg.Discard != jetstream.DiscardNew {
			t.Errorf("the stream %s is limited to %d bytes, and discards %s", stream, cfg.MaxBytes, cfg.Discard)
		}
	}
	if got := configOf(t, c, "CLAIMS-eu").MaxBytes; got != 7<<20 {
		t.Errorf("the limit that a user has chosen is %d now", got)
	}
	if err := next.PutKey(ctx, "eu", "r", "W", []byte("new")); err != nil {
		t.Fatal(err)
	}
	if got := must(next.GetKey(ctx, "eu", "r", "W"))(t); string(got) != "new" {
		t.Errorf("the key is %q", got)
	}
}

// The former stream with the results of all pools has the subjects of the new streams of the pools. So they cannot be
// created while it exists, but it may have results that no coordinator has recorded.
func TestTheResultsOfAnEarlierVersionMoveToTheStreamsOfTheirPools(t *testing.T) {
	ctx := t.Context()
	connect := external(t, 40<<30)
	c := connect()
	must(js(c).CreateStream(ctx, jetstream.StreamConfig{Name: "RESULTS", Subjects: []string{"result.>"},
		Retention: jetstream.WorkQueuePolicy}))(t)
	must(js(c).CreateConsumer(ctx, "RESULTS", jetstream.ConsumerConfig{Durable: "coordinator-alice",
		FilterSubject: "result.*.alice.>", AckPolicy: jetstream.AckExplicitPolicy}))(t)
	want := map[wire.TaskRef]bool{}
	for _, pool := range []string{"eu", "us", "eu"} {
		ref := attemptNo(len(want))
		ref.Pool = pool
		want[ref] = true
		must(js(c).Publish(ctx, wire.ResultSubject(ref), []byte(ref.Attempt)))(t)
	}
	next := connect()
	for len(want) > 0 {
		for _, d := range must(next.FetchResults(ctx, taskRef.Coordinator, 4))(t) {
			if string(d.Data()) != string(d.Ref().Attempt) {
				t.Errorf("the result of %+v is %q", d.Ref(), d.Data())
			}
			delete(want, d.Ref())
			if err := d.Ack(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := js(c).Stream(ctx, "RESULTS"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the stream of the earlier version: %v", err)
	}
	connect()
}

// The former stream with the tasks of all pools is in the way of the new streams, and may have tasks that no worker has
// begun. A worker of the earlier version may hold some that it has fetched: whoever claims one first executes it.
func TestTheTasksOfAnEarlierVersionMoveToTheStreamsOfTheirPools(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	connect := external(t, 40<<30)
	c := connect()
	must(js(c).CreateStream(ctx, jetstream.StreamConfig{Name: "TASKS", Subjects: []string{"task.>"},
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew}))(t)
	want := map[wire.TaskRef]bool{}
	for _, pool := range []string{"eu", "us", "eu"} {
		ref := attemptNo(len(want))
		ref.Pool = pool
		want[ref] = true
		m := &nats.Msg{Subject: wire.TaskSubject(ref), Data: []byte(ref.Attempt), Header: nats.Header{
			"traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}}
		must(js(c).PublishMsg(ctx, m, jetstream.WithMsgID(string(ref.Attempt))))(t)
	}
	earlier := must(js(c).CreateConsumer(ctx, "TASKS", jetstream.ConsumerConfig{Durable: "pool-eu",
		FilterSubject: "task.eu.>", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute}))(t)
	fetched := <-must(earlier.Fetch(1))(t).Messages()

	next, other := connect(), connect() // two coordinators of this version
	held := must(wire.ParseRef(fetched.Subject()))(t)
	must(next.Claim(ctx, held, wire.Claim{Nonce: "of the earlier worker", Worker: "earlier"}))(t)
	for _, pool := range []string{"eu", "us"} {
		for n := map[string]int{"eu": 2, "us": 1}[pool]; n > 0; {
			for _, d := range must(other.FetchTasks(ctx, pool, 4))(t) {
				if !want[d.Ref()] || string(d.Data()) != string(d.Ref().Attempt) {
					t.Errorf("the task of %+v is %q", d.Ref(), d.Data())
				}
				if !d.(wire.Traced).Trace().Valid() {
					t.Errorf("the task of %+v has lost its span", d.Ref())
				}
				claim := must(other.Claim(ctx, d.Ref(), wire.Claim{Nonce: "of this version"}))(t)
				if mine := claim.Nonce == "of this version"; mine == (d.Ref() == held) {
					t.Errorf("the claim of %+v is %+v", d.Ref(), claim)
				}
				if err := d.Ack(ctx); err != nil {
					t.Fatal(err)
				}
				delete(want, d.Ref())
				n--
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("lost are %+v", want)
	}
	if _, err := js(c).Stream(ctx, "TASKS"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the stream of the earlier version: %v", err)
	}
	connect()
}
