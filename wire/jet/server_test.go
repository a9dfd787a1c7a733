package jet_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
)

// workerPermissions has the permissions of a worker of the pool eu, as docs/format/wire.md lists them.
func workerPermissions() *server.Permissions {
	return &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{
			"$JS.API.CONSUMER.INFO.TASKS-eu.pool-eu", "$JS.API.CONSUMER.MSG.NEXT.TASKS-eu.pool-eu", "$JS.ACK.TASKS-eu.pool-eu.>",
			"$JS.API.STREAM.MSG.GET.CLAIMS-eu", "$JS.API.STREAM.MSG.GET.KEYS-eu", "claim.eu.>", "result.eu.>",
			"hb.eu.>", "ev.eu.>",
			"$JS.API.STREAM.MSG.GET.OBJ_BLOB", "$JS.API.DIRECT.GET.OBJ_BLOB",
			"$JS.API.STREAM.INFO.OBJ_BLOB_eu", "$JS.API.STREAM.MSG.GET.OBJ_BLOB_eu", "$JS.API.DIRECT.GET.OBJ_BLOB_eu.>",
			"$JS.API.STREAM.PURGE.OBJ_BLOB_eu",
			"$O.BLOB_eu.>",
		}},
		Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_eu.>", "call.eu.* workers", "ctl.all.>",
			"ctl.pool.eu.>"}},
		Response: &server.ResponsePermission{MaxMsgs: 1000, Expires: time.Hour},
	}
}

// listen starts a server on loopback with three users, and returns its URL without one.
func listen(t *testing.T) string {
	t.Helper()
	return startServer(t, server.Options{
		Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
		SyncAlways: true,
		Users: []*server.User{
			{Username: "coordinator", Password: "c"},
			{Username: "worker", Password: "w", Permissions: workerPermissions()},
		},
	}).ClientURL()
}

// users connects a coordinator, and a worker of pool eu with no more permissions than it needs.
func users(t *testing.T) (coordinator, worker *jet.Conn) {
	t.Helper()
	url := listen(t)
	coordinator = must(jet.Connect(t.Context(), jet.Options{URL: url, User: "coordinator", Password: "c",
		Provision: true, AckWait: ackWait, Log: logTo(t)}))(t)
	worker = must(jet.Connect(t.Context(), jet.Options{URL: url, User: "worker", Password: "w",
		InboxPrefix: "_INBOX_eu", AckWait: ackWait, Timeout: 300 * time.Millisecond, Log: logTo(t)}))(t)
	t.Cleanup(func() { closeAll(t, coordinator, worker) })
	return coordinator, worker
}

func TestAWorkerWithNoMorePermissionsThanItNeedsDoesItsWork(t *testing.T) {
	ctx := t.Context()
	coordinator, worker := users(t)
	if err := coordinator.PublishTask(ctx, taskRef, []byte("task")); err != nil {
		t.Fatal(err)
	}
	if err := coordinator.PutKey(ctx, "eu", "run-1", "W", []byte("sealed")); err != nil {
		t.Fatal(err)
	}
	d := must(worker.FetchTasks(ctx, "eu", 4))(t)[0]
	if key := must(worker.GetKey(ctx, "eu", "run-1", "W"))(t); string(key) != "sealed" {
		t.Fatalf("the key is %q", key)
	}
	must(worker.Claim(ctx, d.Ref(), wire.Claim{Nonce: "n"}))(t)
	if other := must(worker.Claim(ctx, d.Ref(), wire.Claim{Nonce: "m"}))(t); other.Nonce != "n" {
		t.Fatalf("the register holds %+v", other)
	}
	if err := d.Ack(ctx); err != nil {
		t.Fatal(err)
	}
	if err := worker.PublishResult(ctx, d.Ref(), []byte("result")); err != nil {
		t.Fatal(err)
	}
	if got := must(coordinator.FetchResults(ctx, "alice", 1))(t)[0]; string(got.Data()) != "result" {
		t.Fatalf("the result is %q", got.Data())
	}
	for _, way := range []struct{ from, to wire.Blobs }{ // a package, and a result that was spilled
		{coordinator, worker}, {worker.PoolBlobs("eu"), coordinator.PoolBlobs("eu")},
	} {
		data := []byte("blob")
		sum := sha256.Sum256(data)
		name := hex.EncodeToString(sum[:])
		if err := way.from.PutBlob(ctx, name, data); err != nil {
			t.Fatal(err)
		}
		if err := way.from.NameBlob(ctx, "the blob", name); err != nil {
			t.Fatal(err)
		}
		if got := must(way.to.LookupBlob(ctx, "the blob"))(t); got != name {
			t.Fatalf("the name leads to %s", got)
		}
		must(way.to.GetBlob(ctx, name))(t)
	}
}

func TestAWorkerWithNoMorePermissionsThanItNeedsServesCallsAndBeats(t *testing.T) {
	ctx := t.Context()
	coordinator, worker := users(t)
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		served <- worker.Serve(serving, "eu", 1, func(_ context.Context, data []byte) []byte { return data })
	}()
	for {
		got, err := coordinator.Call(ctx, "eu", []byte("x"))
		if err == nil && string(got) == "x" {
			break
		}
		if !errors.Is(err, wire.ErrNoWorker) {
			t.Fatal(err)
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	if _, err := coordinator.Workers(ctx); err != nil {
		t.Fatal(err)
	}
	for len(must(coordinator.Workers(ctx))(t)) == 0 {
		if err := worker.Beat(ctx, wire.Heartbeat{Worker: "w", Pools: []string{"eu"}}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAWorkerOfOnePoolCannotDoWhatIsOthers(t *testing.T) {
	ctx := t.Context()
	coordinator, worker := users(t)
	us := taskRef
	us.Pool = "us"
	if err := coordinator.PublishTask(ctx, us, []byte("for us")); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, wire.ErrDenied) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := worker.FetchTasks(ctx, "us", 1)
	refused("fetching a task of another pool", err)
	refused("publishing a task", worker.PublishTask(ctx, taskRef, nil))
	refused("publishing a result of another pool", worker.PublishResult(ctx, us, nil))
	_, err = worker.Claim(ctx, us, wire.Claim{Nonce: "n"})
	refused("claiming a task of another pool", err)
	refused("storing a key", worker.PutKey(ctx, "eu", "run-1", "W", nil))
	_, err = worker.DeclareLimit(ctx, wire.Limit{Name: "global", Slots: 99})
	refused("declaring a limit", err)
}

func TestAWorkerFindsOutWhatItIsNotPermitted(t *testing.T) {
	_, worker := users(t)
	if missing := must(worker.Probe(t.Context(), []string{"eu"}))(t); len(missing) != 0 {
		t.Errorf("the missing permissions are %v", missing)
	}
	missing := must(worker.Probe(t.Context(), []string{"eu", "us"}))(t)
	for _, want := range []string{"publish $JS.API.CONSUMER.MSG.NEXT.TASKS-us.pool-us", "publish claim.us.probe.probe",
		"subscribe " + wire.CallSubject("us", wire.ProtocolVersion), "subscribe ctl.pool.us.>"} {
		if !slices.Contains(missing, want) {
			t.Errorf("%q is not among %v", want, missing)
		}
	}
	if err := worker.Serve(t.Context(), "us", 1, nil); !errors.Is(err, wire.ErrDenied) {
		t.Errorf("serving another pool: %v", err)
	}
	if err := worker.SubscribeControl(t.Context(), "us", nil); !errors.Is(err, wire.ErrDenied) {
		t.Errorf("watching another pool: %v", err)
	}
}

func TestEverythingGoesOnAfterTheServerWasRestarted(t *testing.T) {
	ctx := t.Context()
	o := server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
		SyncAlways: true}
	ns := startServer(t, o)
	alice := must(jet.Connect(ctx, jet.Options{URL: ns.ClientURL(), Provision: true, AckWait: ackWait, Log: logTo(t)}))(
		t)
	bob := must(jet.Connect(ctx, jet.Options{URL: ns.ClientURL(), AckWait: ackWait, Log: logTo(t)}))(t)
	t.Cleanup(func() { closeAll(t, alice, bob) })
	must(alice.DeclareLimit(ctx, wire.Limit{Name: "global", Slots: 1}))(t)
	held := must(alice.Acquire(ctx, "global", request("alice", "a1")))(t)
	fetched := make(chan error, 1)
	go func() {
		list, err := bob.FetchTasks(ctx, "eu", 1)
		if err == nil {
			err = list[0].Ack(ctx)
		}
		fetched <- err
	}()
	waiting := patiently(ctx, bob, request("bob", "b1"))
	for len(must(alice.Limits(ctx))(t)[0].Waiting) == 0 {
		continue
	}

	o.Port = ns.Addr().(*net.TCPAddr).Port
	ns.Shutdown()
	ns.WaitForShutdown()
	if err := alice.PublishTask(ctx, taskRef, nil); err == nil {
		t.Fatal("a task was published without a server")
	}
	startServer(t, o)

	err := errors.New("not tried yet")
	for err != nil {
		err = alice.PublishTask(ctx, taskRef, nil)
	}
	if err := <-fetched; err != nil {
		t.Fatal(err)
	}
	if err := held.Confirm(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-waiting:
		t.Fatalf("a limit of one slot has two permits: %v", err)
	default:
	}
	if err := held.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
}

func startServer(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	ns, err := tryToStart(t, o)
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// tryToStart is startServer for goroutines other than the test's.
func tryToStart(t *testing.T, o server.Options) (*server.Server, error) {
	t.Helper()
	ns, err := server.NewServer(&o)
	if err != nil {
		return nil, err
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(time.Minute) {
		return nil, errors.New("the server did not start within a minute")
	}
	return ns, nil
}

func TestAWorkerThatStartsBeforeTheCoordinatorWaitsForIt(t *testing.T) {
	ctx := t.Context()
	url := listen(t)
	worker := must(jet.Connect(ctx, jet.Options{URL: url, User: "worker", Password: "w", InboxPrefix: "_INBOX_eu",
		Log: logTo(t)}))(t)
	got := make(chan error, 1)
	go func() {
		_, err := worker.FetchTasks(ctx, "eu", 1)
		got <- err
	}()
	coordinator := must(jet.Connect(ctx, jet.Options{URL: url, User: "coordinator", Password: "c", Provision: true,
		Log: logTo(t)}))(t)
	t.Cleanup(func() { closeAll(t, coordinator, worker) })
	if err := coordinator.PublishTask(ctx, taskRef, nil); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Fatal(err)
	}
}

func TestWhatKeepsFromConnectingIsSaidClearly(t *testing.T) {
	url := listen(t)
	for name, tt := range map[string]struct {
		o    jet.Options
		want string
	}{
		"wrong password": {jet.Options{URL: url, User: "coordinator", Password: "secret"},
			"Authorization Violation"},
		"nobody listens": {jet.Options{URL: "nats://me:secret@127.0.0.1:1"}, "connecting to NATS at " +
			"nats://127.0.0.1:1"},
		"two credentials":      {jet.Options{URL: url, User: "a", Token: "secret"}, "more than one kind"},
		"missing seed file":    {jet.Options{URL: url, NKeyFile: t.TempDir() + "/none"}, "nkey seed"},
		"missing certificate":  {jet.Options{URL: url, CAFile: t.TempDir() + "/none"}, "no such file"},
		"missing creds file":   {jet.Options{URL: url, CredentialsFile: t.TempDir() + "/none"}, "no such file"},
		"no URL, not embedded": {jet.Options{}, "no NATS server is named"},
		"TLS where there's none": {jet.Options{URL: strings.Replace(url, "nats:", "tls:", 1), User: "coordinator",
			Password: "c"}, "secure connection not available"},
	} {
		c, err := jet.Connect(t.Context(), tt.o)
		if err == nil {
			t.Errorf("%s: the connection was accepted", name)
			closeAll(t, c)
			continue
		}
		if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAServerThatMayLoseWhatItAcknowledgedIsWarnedAbout(t *testing.T) {
	coordinator, _ := users(t)
	if err := coordinator.PublishTask(t.Context(), taskRef, nil); err != nil {
		t.Fatal(err)
	}
	d := must(coordinator.Durability(t.Context()))(t)
	if !slices.Contains(d.SingleReplica, "CLAIMS-eu") || d.Sync != jet.SyncUnknown {
		t.Fatalf("got %+v", d)
	}
	if n := len(d.Warnings()); n != 2 {
		t.Fatalf("%d warnings: %v", n, d.Warnings())
	}
	// Each command and each run of the service warned of both, also of the shipped configuration, where both are as they
	// should be: there is one server, and it may not read when it syncs.
	if w := coordinator.Dangers(t.Context()); len(w) != 0 {
		t.Errorf("a command warns of what may be right: %v", w)
	}
	later := jet.Durability{Sync: jet.SyncLater, Interval: 2 * time.Minute}
	if w := later.Warnings(); len(w) != 1 || !strings.Contains(w[0], "every 2m0s") {
		t.Fatalf("got %v", w)
	}
	e := embed(t, t.TempDir())
	c := connect(t, e)
	t.Cleanup(func() { closeAll(t, c, e) })
	if w := must(c.Durability(t.Context()))(t).Warnings(); len(w) != 0 {
		t.Fatalf("there are warnings about the embedded server: %v", w)
	}
}

// A publisher names neither a stream nor a domain: whichever stream has the subject acknowledges. A claim that another
// stream than the pool's registers has stored is no claim.
func TestAClaimThatAnotherStreamStoresIsNoClaim(t *testing.T) {
	ctx := t.Context()
	connect := external(t, 40<<30)
	c := connect()
	must(js(c).CreateStream(ctx, jetstream.StreamConfig{Name: "MINE", Subjects: []string{"claim.>"}}))(t)
	url := c.JetStream().(jetstream.JetStream).Conn().ConnectedUrl()
	worker := must(jet.Connect(ctx, jet.Options{URL: url, Log: logTo(t)}))(t)
	t.Cleanup(func() { closeAll(t, worker) })
	for _, claim := range []wire.Claim{{Nonce: "n", Worker: "w"}, {Nonce: "m", Tombstone: true}} {
		if got, err := worker.Claim(ctx, taskRef, claim); !errors.Is(err, wire.ErrElsewhere) {
			t.Errorf("the claim %+v gives %+v, %v", claim, got, err)
		}
	}
	if info := must(must(js(c).Stream(ctx, "MINE"))(t).Info(ctx))(t); info.State.Msgs > 0 {
		t.Errorf("the other stream has stored %d messages", info.State.Msgs)
	}
}
