package deploy_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/millipede-iac/millipede/wire"
)

// An attacker who controlled the pool eu (its user, its workers) could read the claims of all pools through an imported
// API, and one of the names found there was enough to forge a result of a worker of the pool us.
func TestWhoOwnsAPoolReadsNoClaimAndNoKeyOfAnother(t *testing.T) {
	g := start(t)
	ctx, us := t.Context(), euTask
	us.Pool = "us"
	pair, err := nkeys.CreateCurveKeys()
	g.no(err)
	ring, err := wire.NewKeyring(g.coordinator, pair, rand.Reader)
	g.no(err)
	for _, ref := range []wire.TaskRef{us, euTask} {
		_, err = ring.Create(ctx, ref.Pool, ref.Run)
		g.no(err)
		g.no(g.coordinator.PublishTask(ctx, ref, nil))
		_, err = g.coordinator.Claim(ctx, ref, wire.Claim{Nonce: "nonce of " + ref.Pool, Worker: "w"})
		g.no(err)
	}
	owner, raw, before := g.connect("worker-eu"), g.raw("worker-eu"), g.counts()
	if _, err := owner.ReadClaim(ctx, us); !errors.Is(err, wire.ErrDenied) {
		t.Errorf("reading a claim of the other pool: %v", err)
	}
	if _, err := owner.GetKey(ctx, "us", us.Run, ring.PublicKey()); !errors.Is(err, wire.ErrDenied) {
		t.Errorf("reading a key of the other pool: %v", err)
	}
	for _, subject := range []string{
		"$JS.API.STREAM.MSG.GET.CLAIMS-us", "$JS.API.STREAM.MSG.GET.KEYS-us", "$JS.API.DIRECT.GET.CLAIMS-us",
		"$JS.API.STREAM.INFO.CLAIMS-us",
		"$JS.API.STREAM.PURGE.CLAIMS-us", "$JS.API.STREAM.PURGE.CLAIMS-eu", "$JS.API.STREAM.PURGE.KEYS-eu",
		"$JS.API.STREAM.MSG.GET.CLAIMS",
		"claim.us.run-1.a2", "done.eu.run-1", "done.us.run-1", "key.eu.run-1.W", "key.us.run-1.W",
		"result.us.alice.run-1.a1", "hb.us.w", "ev.us.run-1",
	} {
		if m, err := raw.Request(subject, []byte(`{"seq":1}`), 100*time.Millisecond); !refusal(err) {
			t.Errorf("%s: %v %s", subject, err, m.Data)
		}
	}
	own, err := raw.Request("$JS.API.STREAM.MSG.GET.CLAIMS-eu", []byte(`{"seq":1}`), 2*time.Second)
	g.no(err)
	if strings.Contains(string(own.Data), "claim.us") || !strings.Contains(string(own.Data), "claim.eu") {
		t.Errorf("its own registers hold %s", own.Data)
	}
	if after := g.counts(); !after.Equal(before) {
		t.Errorf("the streams were at %+v, and are at %+v", before, after)
	}
}

// The subject of a heartbeat was not checked: one of the pool eu could name a worker of us, end it, or have the keys of
// all runs encrypted for itself; and with six large ones the coordinator used 534 MB.
func TestWhoOwnsAPoolSpeaksForNoWorkerOfAnother(t *testing.T) {
	g := start(t)
	ctx, raw, us := t.Context(), g.raw("worker-eu"), g.connect("worker-us")
	_, err := g.coordinator.Workers(ctx)
	g.no(err)
	events := make(chan string, 16)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	watched := make(chan error, 1)
	go func() {
		watched <- g.coordinator.Events(watching, "run-1", func(pool string, _ []byte) {
			select {
			case events <- pool:
			default:
			}
		})
	}()
	many := make([]wire.AttemptID, 2_000_000)
	for i := range many {
		many[i] = "a"
	}
	var was, is runtime.MemStats
	for _, h := range []wire.Heartbeat{
		{Worker: "w", Pools: []string{"us"}, Leaving: true, PublicKey: "X"},
		{Worker: "w", Pools: []string{"eu", "us"}, PublicKey: "X"},
		{Worker: "other", Pools: []string{"eu"}},
		{Worker: "w", Pools: []string{"eu"}, Attempts: many},
	} {
		data := wire.EncodeHeartbeat(h)
		runtime.GC()
		runtime.ReadMemStats(&was)
		for range 6 {
			g.no(raw.Publish("hb.eu.w", data))
			g.no(raw.Publish("hb.us.w", data))
		}
		g.no(raw.Flush())
	}
	for live := ""; live != "w of us"; { // whose heartbeat comes behind those
		g.no(us.Beat(ctx, wire.Heartbeat{Worker: "w", Pools: []string{"us"}}))
		g.no(raw.Publish("ev.eu.run-1", wire.EncodeEvent(wire.Event{Text: "x"})))
		g.no(raw.Publish("ev.us.run-1", wire.EncodeEvent(wire.Event{Text: "x"})))
		workers, err := g.coordinator.Workers(ctx)
		g.no(err)
		live = ""
		for _, w := range workers {
			live += fmt.Sprintf("%s of %s", w.Worker, strings.Join(w.Pools, ","))
		}
	}
	if from := <-events; from != "eu" {
		t.Errorf("an event comes from pool %s", from)
	}
	runtime.GC()
	runtime.ReadMemStats(&is)
	if grown := int64(is.HeapAlloc) - int64(was.HeapAlloc); grown > 64<<20 {
		t.Errorf("the heartbeats hold %d MiB", grown>>20)
	}
	stop()
	g.no(<-watched)
}

// The results of all pools were in one stream, and no stream had a bound: an attacker who controlled the pool eu could
// fill the storage of the server with unrequested results, with claims and with blobs, and no pool could claim or
// report anything.
func TestWhoOwnsAPoolFillsNothingThatOthersNeed(t *testing.T) {
	g := start(t)
	ctx, raw, us := t.Context(), g.raw("worker-eu"), euTask
	us.Pool = "us"
	for _, ref := range []wire.TaskRef{us, euTask} {
		g.no(g.coordinator.PublishTask(ctx, ref, []byte("task")))
	}
	js, err := jetstream.New(g.raw("coordinator"))
	g.no(err)
	for stream, subject := range map[string]string{
		"RESULTS-eu": "result.eu.nobody.run.a%d", "CLAIMS-eu": "claim.eu.run.a%d", "OBJ_BLOB_eu": "$O.BLOB_eu.C.x%d",
	} {
		s, err := js.Stream(ctx, stream)
		g.no(err)
		cfg := s.CachedInfo().Config
		if cfg.MaxBytes <= 0 {
			t.Errorf("%s has no bound", stream)
		}
		cfg.MaxBytes = 1 << 20 // reached soon
		_, err = js.UpdateStream(ctx, cfg)
		g.no(err)
		full := false
		for n := 0; !full && n < 1000; n++ {
			m, err := raw.Request(fmt.Sprintf(subject, n), make([]byte, 8<<10), 2*time.Second)
			g.no(err)
			full = strings.Contains(string(m.Data), "maximum bytes exceeded")
		}
		if !full {
			t.Errorf("%s takes whatever comes", stream)
		}
	}
	worker := g.connect("worker-us")
	tasks, err := worker.FetchTasks(ctx, "us", 1)
	g.no(err)
	_, err = worker.Claim(ctx, us, wire.Claim{Nonce: "n", Worker: "w"})
	g.no(err)
	g.no(tasks[0].Ack(ctx))
	data := make([]byte, 1<<20)
	sum := sha256.Sum256(data)
	g.no(worker.PoolBlobs("us").PutBlob(ctx, hex.EncodeToString(sum[:]), data))
	g.no(worker.PublishResult(ctx, us, []byte("result")))
	results, err := g.coordinator.FetchResults(ctx, us.Coordinator, 1)
	g.no(err)
	if results[0].Ref() != us {
		t.Errorf("the result is of %+v", results[0].Ref())
	}
	mark, err := g.coordinator.HighWater(ctx, []string{"eu", "us"})
	g.no(err)
	if mark.Of([]string{"us"}).CheckSpace() != nil || mark.Of([]string{"eu"}).CheckSpace() == nil {
		t.Errorf("full is %v", mark.Full)
	}
}
