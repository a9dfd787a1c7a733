package deploy_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
)

// guarded is a server with the accounts that the project ships, and the views of its users.
type guarded struct {
	*testing.T
	url         string
	coordinator *jet.Conn
}

// start starts a server on loopback. Each user's password is its name.
func start(t *testing.T) *guarded {
	t.Helper()
	for variable, user := range map[string]string{"COORDINATOR": "coordinator", "WORKER_EU": "worker-eu",
		"WORKER_US": "worker-us", "WORKER_AP": "worker-ap", "OBSERVER": "observer"} {
		t.Setenv("MILLIPEDE_"+variable+"_PASSWORD", user)
	}
	dir := t.TempDir()
	shipped, err := filepath.Glob("nats/*.conf")
	if err != nil || len(shipped) < 5 {
		t.Fatal(shipped, err)
	}
	for _, name := range shipped {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(name) == "nats-server.conf" {
			text = []byte(strings.Replace(string(text), "# include \"accounts.conf\"", "include \"accounts.conf\"", 1))
			text = []byte(strings.Replace(string(text), `"/var/lib/nats"`,
				fmt.Sprintf("%q", filepath.Join(dir, "store")), 1))
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	options, err := server.ProcessConfigFile(filepath.Join(dir, "nats-server.conf"))
	if err != nil {
		t.Fatal(err)
	}
	options.Port, options.NoSigs, options.NoLog = -1, true, true
	ns, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server did not start")
	}
	g := &guarded{T: t, url: ns.ClientURL()}
	g.coordinator = g.connect("coordinator")
	return g
}

// connect connects as a user, as the programs do.
func (g *guarded) connect(user string) *jet.Conn {
	g.Helper()
	c, err := jet.Connect(g.Context(), jet.Options{
		URL: g.url, Name: user, User: user, Password: user, Provision: user == "coordinator",
		Timeout: 2 * time.Second, // with 500 ms, opening a stream failed on a busy machine
		Log:     func(line string) { g.Log(user, line) },
	})
	g.no(err)
	g.Cleanup(func() { g.no(c.Close()) })
	return c
}

// raw connects as a user without the programs' own restrictions.
func (g *guarded) raw(user string) *nats.Conn {
	g.Helper()
	nc, err := nats.Connect(g.url, nats.UserInfo(user, user),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	g.no(err)
	g.Cleanup(nc.Close)
	return nc
}

func (g *guarded) no(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

var euTask = wire.TaskRef{Pool: "eu", Coordinator: "alice", Run: "run-1", Attempt: "a1"}

func TestAWorkerOfAPoolDoesItsWorkInItsAccount(t *testing.T) {
	g := start(t)
	ctx, worker := t.Context(), g.connect("worker-eu")
	missing, err := worker.Probe(ctx, []string{"eu"})
	g.no(err)
	if len(missing) > 0 {
		t.Errorf("it is not permitted to %v", missing)
	}
	g.no(g.coordinator.PublishTask(ctx, euTask, []byte("task")))
	g.no(g.coordinator.PutKey(ctx, "eu", "run-1", "W", []byte("sealed")))
	tasks, err := worker.FetchTasks(ctx, "eu", 4)
	g.no(err)
	d := tasks[0]
	if d.Ref() != euTask || string(d.Data()) != "task" {
		t.Fatalf("it got %+v %q", d.Ref(), d.Data())
	}
	key, err := worker.GetKey(ctx, "eu", "run-1", "W")
	g.no(err)
	if string(key) != "sealed" {
		t.Errorf("the key is %q", key)
	}
	for _, nonce := range []string{"first", "second"} {
		got, err := worker.Claim(ctx, d.Ref(), wire.Claim{Nonce: nonce})
		g.no(err)
		if got.Nonce != "first" {
			t.Errorf("the register holds %+v", got)
		}
	}
	g.no(d.Ack(ctx))
	g.no(worker.PublishResult(ctx, d.Ref(), []byte("result")))
	results, err := g.coordinator.FetchResults(ctx, "alice", 1)
	g.no(err)
	if string(results[0].Data()) != "result" {
		t.Errorf("the result is %q", results[0].Data())
	}
}

func TestAWorkerOfAPoolReadsPackagesAndWritesLargeResults(t *testing.T) {
	g := start(t)
	ctx, worker := t.Context(), g.connect("worker-eu")
	g.no(g.coordinator.PublishTask(ctx, euTask, nil)) // which makes the pool known
	for _, way := range []struct{ from, to wire.Blobs }{
		{g.coordinator, worker}, {worker.PoolBlobs("eu"), g.coordinator.PoolBlobs("eu")},
	} {
		data := []byte(strings.Repeat("0123456789abcdef", 1<<19)) // 8 MiB: more than one request brings
		sum := sha256.Sum256(data)
		name := hex.EncodeToString(sum[:])
		g.no(way.from.PutBlob(ctx, name, data))
		g.no(way.from.NameBlob(ctx, "the blob", name))
		found, err := way.to.LookupBlob(ctx, "the blob")
		g.no(err)
		got, err := way.to.GetBlob(ctx, found)
		g.no(err)
		if len(got) != len(data) {
			t.Errorf("it has %d bytes", len(got))
		}
	}
}

func TestAWorkerOfAPoolAnswersCallsAndBeats(t *testing.T) {
	g := start(t)
	ctx, worker := t.Context(), g.connect("worker-eu")
	serving, stop := context.WithCancel(ctx)
	served, told := make(chan error, 1), make(chan wire.Control, 1)
	go func() {
		served <- worker.Serve(serving, "eu", 1, func(_ context.Context, data []byte) []byte { return data })
	}()
	watched := make(chan error, 1)
	go func() {
		watched <- worker.SubscribeControl(serving, "eu", func(c wire.Control) {
			if err := worker.Beat(ctx, wire.Heartbeat{Worker: "w", Pools: []string{"eu"}}); err != nil {
				t.Error(err)
			}
			select {
			case told <- c:
			default:
			}
		})
	}()
	answer := func(pool string) ([]byte, error) { return g.coordinator.Call(ctx, pool, []byte("x")) }
	if _, err := answer("us"); !errors.Is(err, wire.ErrNoWorker) {
		t.Errorf("a pool without workers answers %v", err)
	}
	for {
		got, err := answer("eu")
		if err == nil && string(got) == "x" {
			break
		}
		if !errors.Is(err, wire.ErrNoWorker) {
			t.Fatal(err)
		}
	}
	taken := make(chan error, 1)
	go func() {
		taken <- worker.TakeHanded(serving, "eu", "w", func(wire.AttemptID, wire.Delivery) bool { return true })
	}()
	for err := wire.ErrNoWorker; err != nil; err = g.coordinator.HandTask(ctx, "w", "a0", euTask, []byte("task")) {
		if !errors.Is(err, wire.ErrNoWorker) {
			t.Fatal(err)
		}
	}
	observer := g.connect("observer")
	for _, who := range []*jet.Conn{g.coordinator, observer} {
		for len(told) == 0 {
			g.no(who.Control(ctx, "", wire.Control{Kind: "announce"}))
			workers, err := who.Workers(ctx)
			g.no(err)
			if len(workers) == 1 && workers[0].Worker == "w" {
				break
			}
		}
	}
	stop()
	g.no(<-served)
	g.no(<-watched)
	g.no(<-taken)
}

// refusal reports whether a request was not accepted: the server refuses it, nobody receives it, or nothing is
// answered.
func refusal(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, nats.ErrPermissionViolation)
}

// counts returns the numbers of messages in all streams.
func (g *guarded) counts() wire.HighWater {
	g.Helper()
	mark, err := g.coordinator.HighWater(g.Context(), []string{"eu", "us"})
	g.no(err)
	return mark
}

func TestAWorkerOfAPoolReachesNothingOfAnother(t *testing.T) {
	g := start(t)
	ctx, us := t.Context(), euTask
	us.Pool = "us"
	g.no(g.coordinator.PublishTask(ctx, us, []byte("for us")))
	g.no(g.coordinator.PublishTask(ctx, euTask, []byte("for eu")))
	worker, raw, before := g.connect("worker-eu"), g.raw("worker-eu"), g.counts()
	denied := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, wire.ErrDenied) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := worker.FetchTasks(ctx, "us", 1)
	denied("fetching a task", err)
	denied("publishing a task", worker.PublishTask(ctx, euTask, nil))
	denied("publishing a result", worker.PublishResult(ctx, us, nil))
	_, err = worker.Claim(ctx, us, wire.Claim{Nonce: "n"})
	denied("claiming", err)
	denied("storing a key", worker.PutKey(ctx, "eu", "run-1", "W", nil))
	missing, err := worker.Probe(ctx, []string{"us"})
	g.no(err)
	if !slices.Contains(missing, "publish $JS.API.CONSUMER.MSG.NEXT.TASKS-us.pool-us") ||
		!slices.Contains(missing, "subscribe "+wire.CallSubject("us", wire.ProtocolVersion)) {
		t.Errorf("what it misses for the other pool is %v", missing)
	}
	for _, subject := range []string{"task.>", "task.us.>", "result.>", wire.CallSubject("us", wire.ProtocolVersion),
		"hand.us.>", "ctl.pool.us.>", "hb.>", "ev.>", ">"} {
		sub, err := raw.SubscribeSync(subject)
		g.no(err)
		g.no(raw.Flush())
		g.no(g.coordinator.Control(ctx, "us", wire.Control{Kind: "announce"}))
		if m, err := sub.NextMsg(50 * time.Millisecond); err == nil {
			t.Errorf("it hears %s on %s", m.Subject, subject)
		}
	}
	for subject, request := range map[string]string{
		"$JS.API.STREAM.MSG.GET.TASKS-us":               `{"last_by_subj":"task.us.>"}`,
		"$JS.API.DIRECT.GET.TASKS-us":                   `{"last_by_subj":"task.us.>"}`,
		"$JS.API.CONSUMER.MSG.NEXT.TASKS-us.pool-us":    `1`,
		"$JS.API.CONSUMER.CREATE.TASKS-us.mine":         `{"stream_name":"TASKS-us","config":{"ack_policy":"explicit","filter_subject":"task.us.>"}}`,
		"$JS.API.CONSUMER.CREATE.OBJ_BLOB.mine":         `{"stream_name":"OBJ_BLOB","config":{"deliver_subject":"task.us.a.b.c"}}`,
		"$JS.API.CONSUMER.DURABLE.CREATE.TASKS-us.mine": `{}`,
		"$JS.API.CONSUMER.INFO.TASKS-us.pool-us":        ``,
		"$JS.ACK.TASKS-us.pool-us.1.1.1.1.0":            `+ACK`,
		"$JS.API.CONSUMER.CREATE.TASKS-eu.mine":         `{"stream_name":"TASKS-eu","config":{"ack_policy":"explicit"}}`,
		"$JS.API.STREAM.MSG.GET.TASKS-eu":               `{"seq":1}`,
		"$JS.API.STREAM.DELETE.TASKS-us":                ``,
		"$JS.API.STREAM.PURGE.TASKS-us":                 ``,
		"$JS.API.STREAM.PURGE.OBJ_BLOB":                 ``,
		"$JS.API.STREAM.CREATE.MINE":                    `{"name":"MINE","subjects":["mine"],"sources":[{"name":"TASKS-us"}]}`,
		"$JS.API.STREAM.UPDATE.TASKS-us":                `{"name":"TASKS-us","subjects":["task.us.>"],"republish":{"src":">","dest":"ev.x"}}`,
		"$O.BLOB.C.mine":                                `a package of my own`,
		"$O.BLOB_us.C.mine":                             `a result of my own`,
		wire.CallSubject("us", wire.ProtocolVersion):    `a call`,
		"task.eu.alice.run-1.a2":                        `a task`,
		"key.run-1.W":                                   `a key`,
		"admit.default.alice.r":                         `a request`,
		"ctl.all.cancel":                                ``,
	} {
		if m, err := raw.Request(subject, []byte(request), 100*time.Millisecond); !refusal(err) {
			t.Errorf("%s %s: %v %s", subject, request, err, m.Data)
		}
	}
	if after := g.counts(); !after.Equal(before) {
		t.Errorf("the streams were at %+v, and are at %+v", before, after)
	}
}

// An answer is sent to the subject that the request names. In one account that would be a way to write tasks: have the
// server answer with the bytes of a blob, on the subject of a task.
func TestAWorkerCannotHaveTheServerWriteATaskForIt(t *testing.T) {
	g := start(t)
	ctx := t.Context()
	g.no(g.coordinator.PublishTask(ctx, euTask, []byte("task")))
	worker, raw, before := g.connect("worker-eu"), g.raw("worker-eu"), g.counts()
	forged := []byte("forged")
	sum := sha256.Sum256(forged)
	g.no(worker.PoolBlobs("eu").PutBlob(ctx, hex.EncodeToString(sum[:]), forged))
	heard, err := g.raw("coordinator").SubscribeSync("task.>")
	g.no(err)
	for subject, request := range map[string]string{
		"$JS.API.DIRECT.GET.OBJ_BLOB_eu.$O.BLOB_eu.C.>": ``,
		"$JS.API.STREAM.MSG.GET.OBJ_BLOB_eu":            `{"last_by_subj":"$O.BLOB_eu.C.>"}`,
		"$JS.API.CONSUMER.MSG.NEXT.TASKS-eu.pool-eu":    `1`,
	} {
		g.no(raw.PublishRequest(subject, "task.us.alice.run-1.forged", []byte(request)))
		g.no(raw.PublishRequest(subject, wire.CallSubject("us", wire.ProtocolVersion), []byte(request)))
	}
	g.no(raw.Flush())
	if m, err := heard.NextMsg(200 * time.Millisecond); err == nil {
		t.Errorf("%s came with %q", m.Subject, m.Data)
	}
	if after := g.counts(); !after.Equal(before) {
		t.Errorf("the streams were at %+v, and are at %+v", before, after)
	}
	// A user in the account of the streams can do that.
	g.no(g.raw("coordinator").PublishRequest("$JS.API.DIRECT.GET.OBJ_BLOB_eu", "task.us.alice.run-1.forged",
		[]byte(`{"seq":1}`)))
	if m, err := heard.NextMsg(2 * time.Second); err != nil || string(m.Data) != "forged" {
		t.Errorf("what this test is about does not happen: %v", err)
	}
}

func TestAnObserverSeesWhoAndHowMuchAndChangesNothing(t *testing.T) {
	g := start(t)
	ctx := t.Context()
	_, err := g.coordinator.DeclareLimit(ctx, wire.Limit{Name: "default", Slots: 7})
	g.no(err)
	permit, err := g.coordinator.Acquire(ctx, "default", wire.PermitRequest{ID: "r1", Coordinator: "alice",
		Run: "run-1", At: time.Now()})
	g.no(err)
	g.no(g.coordinator.PublishTask(ctx, euTask, []byte("payload")))
	g.no(g.coordinator.PutKey(ctx, "eu", "run-1", "W", []byte("payload")))
	g.no(g.coordinator.PublishResult(ctx, euTask, []byte("payload")))
	observer, raw, before := g.connect("observer"), g.raw("observer"), g.counts()
	limits, err := observer.Limits(ctx)
	g.no(err)
	if len(limits) != 1 || limits[0].Slots != 7 || len(limits[0].Held) != 1 || limits[0].Held[0].Run != "run-1" {
		t.Errorf("it sees the limits %+v", limits)
	}
	if err := observer.ResizeLimit(ctx, wire.Limit{Name: "default", Slots: 99}); err == nil {
		t.Error("it changes a limit")
	}
	all, err := raw.SubscribeSync(">")
	g.no(err)
	for subject, request := range map[string]string{
		"$JS.API.STREAM.MSG.GET.TASKS-us":            `{"seq":1}`,
		"$JS.API.STREAM.MSG.GET.RESULTS-eu":          `{"seq":1}`,
		"$JS.API.STREAM.MSG.GET.KEYS-eu":             `{"seq":1}`,
		"$JS.API.STREAM.MSG.GET.CLAIMS-eu":           `{"seq":1}`,
		"$JS.API.DIRECT.GET.OBJ_BLOB":                `{"seq":1}`,
		"$JS.API.CONSUMER.MSG.NEXT.TASKS-eu.pool-eu": `1`,
		"$JS.API.CONSUMER.CREATE.TASKS-us.mine":      `{"stream_name":"TASKS-us","config":{"deliver_subject":"mine"}}`,
		"$JS.API.CONSUMER.CREATE.ADMIT":              `{"stream_name":"ADMIT","config":{"durable_name":"limit-default","max_ack_pending":99}}`,
		"$JS.API.STREAM.PURGE.TASKS-us":              ``,
		"$JS.API.STREAM.MSG.DELETE.ADMIT":            `{"seq":1}`,
		"$JS.API.STREAM.DELETE.TASKS-us":             ``,
		"$JS.ACK.TASKS-eu.pool-eu.1.1.1.1.0":         `+ACK`,
		"claim.eu.run-1.a1":                          ``,
		"task.eu.alice.run-1.a2":                     ``,
		"result.eu.alice.run-1.a1":                   ``,
		wire.CallSubject("eu", wire.ProtocolVersion): ``,
		"ctl.all.stop":                               ``,
		"ctl.pool.eu.cancel":                         ``,
		"hb.eu.w":                                    ``,
	} {
		if m, err := raw.Request(subject, []byte(request), 100*time.Millisecond); !refusal(err) {
			t.Errorf("%s %s: %v %s", subject, request, err, m.Data)
		}
	}
	g.no(g.coordinator.Emit(ctx, "eu", "run-1", []byte("payload")))
	if m, err := all.NextMsg(50 * time.Millisecond); err == nil {
		t.Errorf("it hears %s: %s", m.Subject, m.Data)
	}
	if after := g.counts(); !after.Equal(before) {
		t.Errorf("the streams were at %+v, and are at %+v", before, after)
	}
	g.no(permit.Release(ctx))
}

// A part of an answer passes through the service that a pool imports for events, and so does its confirmation.
func TestAWorkerOfAPoolSendsPartsOfAnAnswerForItsPoolAlone(t *testing.T) {
	g := start(t)
	ctx, worker := t.Context(), g.connect("worker-eu")
	var got []string
	stop, err := g.coordinator.TakeParts(ctx, "eu", "list-1", func(data []byte) { got = append(got, string(data)) })
	g.no(err)
	for _, part := range []string{"one", "two"} {
		g.no(worker.SendPart(ctx, "eu", "list-1", []byte(part)))
	}
	if stop(); strings.Join(got, " ") != "one two" {
		t.Errorf("got %v", got)
	}
	if err := worker.SendPart(ctx, "eu", "list-1", nil); !errors.Is(err, wire.ErrNotFound) {
		t.Errorf("to an address that nobody has: %v", err)
	}

	stop, err = g.coordinator.TakeParts(ctx, "us", "list-2", func([]byte) { t.Error("a worker sent for another pool") })
	g.no(err)
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := worker.SendPart(short, "us", "list-2", []byte("x")); err == nil {
		t.Error("it was confirmed")
	}
	stop()
}
