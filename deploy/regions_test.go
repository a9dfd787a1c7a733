package deploy_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
)

// line is the connection of a region to the hub, which can be cut.
type line struct {
	in    net.Listener
	group sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	cut   bool
	conns []net.Conn
}

func newLine(t *testing.T, to string) *line {
	in, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{in: in}
	l.group.Go(func() {
		for {
			a, err := in.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			l.mu.Lock()
			if err != nil || l.cut {
				a.Close()
				if b != nil {
					b.Close()
				}
				l.mu.Unlock()
				continue
			}
			l.conns = append(l.conns, a, b)
			for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
				l.group.Go(func() {
					_, _ = io.Copy(way[0], way[1])
					way[0].Close()
					way[1].Close()
				})
			}
			l.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		in.Close()
		l.sever(true)
		l.group.Wait()
	})
	return l
}

func (l *line) sever(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	if cut {
		for _, c := range l.conns {
			c.Close()
		}
		l.conns = nil
	}
}

// country is a hub and the regions eu and us, with the files that the project ships.
type country struct {
	*guarded
	regions map[string]*server.Server
	lines   map[string]*line
	leaves  string // where the hub listens for regions
}

func serve(t *testing.T, file, store, listen string) *server.Server {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), `"/var/lib/nats"`, fmt.Sprintf("%q", store), 1)
	changed = strings.Replace(changed, `"127.0.0.1:7422"`, fmt.Sprintf("%q", listen), 1)
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	o.Port, o.NoSigs, o.NoLog = -1, true, true
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server did not start")
	}
	return s
}

func found(t *testing.T) *country {
	t.Helper()
	for variable, user := range map[string]string{"COORDINATOR": "coordinator", "WORKER_EU": "worker-eu",
		"WORKER_US": "worker-us", "OBSERVER": "observer", "REGION_EU": "region-eu", "REGION_US": "region-us",
		"REGION_AP": "region-ap"} {
		t.Setenv("MILLIPEDE_"+variable+"_PASSWORD", user)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("nats/regions")); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &country{regions: map[string]*server.Server{}, lines: map[string]*line{}, leaves: free.Addr().String()}
	free.Close()
	hub := serve(t, filepath.Join(dir, "hub.conf"), filepath.Join(dir, "store"), c.leaves)
	c.guarded = &guarded{T: t, url: hub.ClientURL()}
	c.coordinator = c.connect("coordinator")
	for _, pool := range []string{"eu", "us"} {
		c.lines[pool] = newLine(t, c.leaves)
		t.Setenv("MILLIPEDE_HUB", fmt.Sprintf("nats-leaf://region-%s:region-%s@%s", pool, pool,
			c.lines[pool].in.Addr()))
		text, err := os.ReadFile("nats/regions/region-eu.conf") // as its comment says for a further pool
		c.no(err)
		text = []byte(strings.NewReplacer("eu", pool, "EU", strings.ToUpper(pool)).Replace(string(text)))
		c.no(os.WriteFile(filepath.Join(dir, "region-"+pool+".conf"), text, 0o600))
		c.regions[pool] = serve(t, filepath.Join(dir, "region-"+pool+".conf"), filepath.Join(dir, "store-"+pool), "")
		until(t, func() error { return c.coordinator.PoolSettings().SetDomain(t.Context(), pool, pool) })
	}
	_, err = c.coordinator.Domains(t.Context())
	c.no(err)
	return c
}

// until repeats something until it succeeds, at most for 20 seconds.
func until(t *testing.T, do func() error) {
	t.Helper()
	for began := time.Now(); ; {
		err := do()
		if err == nil {
			return
		}
		if time.Since(began) > 20*time.Second {
			t.Fatal(err)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(err)
		}
	}
}

// worker connects as the worker of a region, to the server of that region.
func (c *country) worker(pool string) *jet.Conn {
	c.Helper()
	w, err := jet.Connect(c.Context(), jet.Options{URL: c.regions[pool].ClientURL(), User: "worker-" + pool,
		Password: "worker-" + pool, Domain: pool, Pools: []string{pool}, Timeout: 2 * time.Second,
		Log: func(line string) { c.Log(pool, line) }})
	c.no(err)
	c.Cleanup(func() { c.no(w.Close()) })
	return w
}

func TestAWorkerDoesItsWorkInItsRegion(t *testing.T) {
	c := found(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	worker := c.worker("eu")
	c.no(c.coordinator.PublishTask(ctx, euTask, []byte("task")))
	missing, err := worker.Probe(ctx, []string{"eu"})
	c.no(err)
	if len(missing) > 0 {
		t.Errorf("it is not permitted to %v", missing)
	}
	c.no(c.coordinator.PutKey(ctx, "eu", "run-1", "W", []byte("sealed")))
	tasks, err := worker.FetchTasks(ctx, "eu", 1)
	c.no(err)
	if key, err := worker.GetKey(ctx, "eu", "run-1", "W"); err != nil || string(key) != "sealed" {
		t.Errorf("the key is %q: %v", key, err)
	}
	for _, nonce := range []string{"first", "second"} {
		got, err := worker.Claim(ctx, euTask, wire.Claim{Nonce: nonce})
		c.no(err)
		if got.Nonce != "first" {
			t.Errorf("the register holds %+v", got)
		}
	}
	c.no(tasks[0].Ack(ctx))
	c.no(worker.PublishResult(ctx, euTask, []byte("result")))
	results, err := c.coordinator.FetchResults(ctx, "alice", 1)
	c.no(err)
	if string(results[0].Data()) != "result" {
		t.Errorf("the result is %q", results[0].Data())
	}
	c.no(results[0].Ack(ctx))
	if claim, err := c.coordinator.ReadClaim(ctx, euTask); err != nil || claim.Nonce != "first" {
		t.Errorf("the coordinator reads the claim %+v: %v", claim, err)
	}

	outgoing, _ := c.coordinator.TaskBlobs("eu")
	for _, way := range []struct{ from, to wire.Blobs }{
		{outgoing, worker}, {worker.PoolBlobs("eu"), c.coordinator.PoolBlobs("eu")},
	} {
		data := []byte(strings.Repeat("0123456789abcdef", 1<<18)) // 4 MiB
		data = append(data, fmt.Sprintf("%p", way.to)...)
		sum := sha256.Sum256(data)
		name := hex.EncodeToString(sum[:])
		c.no(way.from.PutBlob(ctx, name, data))
		got, err := way.to.GetBlob(ctx, name)
		c.no(err)
		if len(got) != len(data) {
			t.Errorf("it has %d bytes", len(got))
		}
	}

	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		served <- worker.Serve(serving, "eu", 1, func(_ context.Context, data []byte) []byte { return data })
	}()
	until(t, func() error {
		_, err := c.coordinator.Call(ctx, "eu", []byte("x"))
		return err
	})
	for _, who := range []*jet.Conn{c.coordinator, c.connect("observer")} {
		until(t, func() error {
			c.no(worker.Beat(ctx, wire.Heartbeat{Worker: "w", Pools: []string{"eu"}}))
			workers, err := who.Workers(ctx)
			if err == nil && (len(workers) != 1 || workers[0].Worker != "w") {
				err = fmt.Errorf("the workers are %v", workers)
			}
			return err
		})
	}
	stop()
	c.no(<-served)
	mark, err := c.coordinator.HighWater(ctx, []string{"eu", "us"})
	c.no(err)
	if len(mark.Stores) != 2 || mark.Stores["eu"] != "" || mark.Stores["us"] != "" {
		t.Errorf("the stores are %v", mark.Stores)
	}
	c.no(c.coordinator.PurgeRun(ctx, euTask.Run, []string{"eu"}))
}

func TestARegionBehindACutLineGoesOn(t *testing.T) {
	c := found(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	worker := c.worker("eu")
	us := euTask
	us.Pool = "us"
	c.no(c.coordinator.PublishTask(ctx, euTask, []byte("task")))
	tasks, err := worker.FetchTasks(ctx, "eu", 1)
	c.no(err)
	c.lines["eu"].sever(true)
	_, err = worker.Claim(ctx, euTask, wire.Claim{Nonce: "n", Worker: "w"})
	c.no(err)
	c.no(tasks[0].Ack(ctx))
	c.no(worker.PublishResult(ctx, euTask, []byte("result")))
	c.no(c.coordinator.PublishTask(ctx, us, []byte("task")))
	mark, err := c.coordinator.HighWater(ctx, []string{"eu", "us"})
	c.no(err)
	if mark.Stores["eu"] == "" || mark.Stores["us"] != "" {
		t.Errorf("the stores are %v", mark.Stores)
	}
	c.lines["eu"].sever(false)
	began := time.Now()
	results, err := c.coordinator.FetchResults(ctx, "alice", 1)
	c.no(err)
	t.Logf("%s: %s after the line was there again", results[0].Data(), time.Since(began))
	c.no(results[0].Ack(ctx))
}

// An attacker who has everything of a region has the server of that region, its data and its credentials: those of the
// leaf node as well. With their own server they can declare any domain and any stream.
func TestWhoOwnsARegionReachesNothingOfAnotherAndNothingOfTheHub(t *testing.T) {
	c := found(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	us := euTask
	us.Pool = "us"
	c.no(c.coordinator.PublishTask(ctx, us, []byte("for us")))
	_, err := c.coordinator.DeclareLimit(ctx, wire.Limit{Name: "default", Slots: 7})
	c.no(err)
	c.regions["eu"].Shutdown()
	c.regions["eu"].WaitForShutdown()

	// Their server takes the place of the region's, in the domain of the other one, with streams for everything.
	file := filepath.Join(t.TempDir(), "own.conf")
	c.no(os.WriteFile(file, []byte(fmt.Sprintf(`
		server_name: captured
		listen: "127.0.0.1:-1"
		jetstream { store_dir: %q, domain: us }
		accounts { ALL { jetstream: enabled, users: [{ user: me, password: me }] } }
		leafnodes { reconnect: "100ms", remotes: [{ url: "nats-leaf://region-eu:region-eu@%s", account: ALL }] }
	`, t.TempDir(), c.leaves)), 0o600))
	own := serve(t, file, "", "")
	nc, err := nats.Connect(own.ClientURL(), nats.UserInfo("me", "me"))
	c.no(err)
	defer nc.Close()
	until(t, func() error {
		if own.NumLeafNodes() == 0 {
			return errors.New("the captured server is not connected")
		}
		return nil
	})
	js, err := jetstream.New(nc)
	c.no(err)
	for name, subjects := range map[string][]string{
		"TASKS-us": {"task.us.>"}, "CLAIMS-us": {"claim.us.>", "done.us.*"}, "KEYS-us": {"key.us.>"},
		"RESULTS-us": {"result.us.>"}, "OBJ_BLOB_us": {"$O.BLOB_us.>"}, "ADMIT": {"admit.>"}, "OBJ_BLOB": {"$O.BLOB.>"},
		"POOLS": {"pools", "left.>"},
	} {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: subjects})
		c.no(err)
	}
	heard := make(chan *nats.Msg, 1024)
	for _, subject := range []string{"task.>", "claim.>", "key.>", "result.>", "admit.>", "call.us.>", "hand.us.>",
		"hb.us.>", "ev.us.>", "$O.>", "pools", "ctl.coordinator.>", "$JS.ACK.>", "$JS.us.API.>", "$JS.hub.API.>"} {
		_, err := nc.ChanSubscribe(subject, heard)
		c.no(err)
	}
	c.no(nc.Flush())

	before, err := c.coordinator.HighWater(ctx, []string{"us"})
	c.no(err)
	for subject, request := range map[string]string{
		"$JS.hub.API.INFO": "", "$JS.hub.API.STREAM.NAMES": "", "$JS.hub.API.STREAM.DELETE.ADMIT": "",
		"$JS.hub.API.STREAM.PURGE.POOLS": "", "$JS.hub.API.STREAM.MSG.GET.ADMIT": `{"seq":1}`,
		"$JS.hub.API.DIRECT.GET.OBJ_BLOB": `{"seq":1}`,
		"$JS.eu.API.INFO":                 "",
	} {
		if m, err := nc.Request(subject, []byte(request), 200*time.Millisecond); !refusal(err) {
			t.Errorf("%s: %v %s", subject, err, m.Data)
		}
	}
	const reply = "task.us.alice.run-1.reply"
	// Their own streams answer these; what matters is that those of the others do not have them.
	for _, subject := range []string{"task.us.alice.run-1.forged", "claim.us.run-1.a1", "claim.us.run-1.a2",
		"done.us.run-1", "key.us.run-1.all", "result.us.alice.run-1.a1", "admit.default.alice.r", "pools", "left.us.x", "$O.BLOB.C.x",
		"$O.BLOB_us.C.x", "hb.us.w", "hb.hub.w", "ev.us.run-1", "ctl.all.cancel", "ctl.pool.us.cancel",
		"ctl.coordinator.alice.permit", wire.CallSubject("us", wire.ProtocolVersion), "hand.us.w", "$JS.ACK.TASKS-us.pool-us.1.1.1.1.0",
		"$JS.ACK.RESULTS-us.coordinator-alice.1.1.1.1.0", "$JS.ACK.ADMIT.limit-default.1.1.1.1.0"} {
		c.no(nc.PublishRequest(subject, reply, []byte("forged")))
	}
	c.no(nc.Flush())
	for len(heard) > 0 {
		<-heard // their own messages
	}

	// The other pool works as before, and nothing of it is heard.
	worker := c.worker("us")
	next := us
	next.Attempt = "a2"
	c.no(c.coordinator.PublishTask(ctx, next, []byte("secret of us")))
	c.no(c.coordinator.PutKey(ctx, "us", "run-1", "W", []byte("secret of us")))
	tasks, err := worker.FetchTasks(ctx, "us", 2)
	c.no(err)
	for len(tasks) < 2 {
		more, err := worker.FetchTasks(ctx, "us", 2)
		c.no(err)
		tasks = append(tasks, more...)
	}
	for _, d := range tasks {
		if text := string(d.Data()); text != "for us" && text != "secret of us" {
			t.Errorf("a task is %q", text)
		}
		_, err := worker.Claim(ctx, d.Ref(), wire.Claim{Nonce: "n", Worker: "w"})
		c.no(err)
		c.no(d.Ack(ctx))
		c.no(worker.PublishResult(ctx, d.Ref(), []byte("secret of us")))
	}
	for n := 0; n < 2; {
		results, err := c.coordinator.FetchResults(ctx, "alice", 2)
		c.no(err)
		for _, d := range results {
			if string(d.Data()) != "secret of us" {
				t.Errorf("a result is %q", d.Data())
			}
			c.no(d.Ack(ctx))
			n++
		}
	}
	permit, err := c.coordinator.Acquire(ctx, "default", wire.PermitRequest{ID: "r", Coordinator: "alice", Run: "run-1"})
	c.no(err)
	c.no(permit.Release(ctx))
	after, err := c.coordinator.HighWater(ctx, []string{"us"})
	c.no(err)
	if before.Lost(after) || after.Queues["us"].Last != before.Queues["us"].Last+1 || after.Claims["us"].Last !=
		before.Claims["us"].Last+2 || after.Outcomes["us"].Last != before.Outcomes["us"].Last+2 {
		t.Errorf("the streams of us were at %+v, and are at %+v", before, after)
	}
	if domains, err := c.coordinator.Domains(ctx); err != nil || domains["us"] != "us" {
		t.Errorf("the settings of pools are %v: %v", domains, err)
	}
	// What is for their own region they hear, behind all the rest.
	c.no(c.raw("coordinator").Publish("task.eu.alice.run-1.last", []byte("for eu")))
	for last := false; !last; {
		select {
		case m := <-heard:
			last = strings.HasPrefix(m.Subject, "task.eu.")
			if !last && m.Subject != reply {
				t.Errorf("it hears %s: %.40q", m.Subject, m.Data)
			}
		case <-ctx.Done():
			t.Fatal("they do not hear what is for their own region")
		}
	}
	workers, err := c.coordinator.Workers(ctx)
	c.no(err)
	for _, w := range workers {
		t.Errorf("a worker is believed to be there: %+v", w)
	}
}

// A server handles the API of all accounts in one queue: 200 requests a second from one pool stopped it for all. The
// API of a region is that of its own server.
func TestAFloodOfRequestsHitsTheServerOfTheRegionAlone(t *testing.T) {
	c := found(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c.no(c.coordinator.PublishTask(ctx, euTask, nil))
	us := euTask
	us.Pool = "us"
	c.no(c.coordinator.PublishTask(ctx, us, nil))
	flooding, stop := context.WithCancel(ctx)
	var flood sync.WaitGroup
	for range 4 {
		nc, err := nats.Connect(c.regions["eu"].ClientURL(), nats.UserInfo("worker-eu", "worker-eu"))
		c.no(err)
		defer nc.Close()
		flood.Go(func() {
			for flooding.Err() == nil {
				_ = nc.PublishRequest("$JS.API.STREAM.PURGE.OBJ_BLOB_eu", "_INBOX.none", nil)
				_ = nc.PublishRequest("$JS.API.STREAM.MSG.GET.CLAIMS-eu", "_INBOX.none", []byte(`{"seq":1}`))
				_ = nc.PublishRequest("$JS.API.STREAM.INFO.OBJ_BLOB_eu", "_INBOX.none", nil)
				_ = nc.Flush()
			}
		})
	}
	defer flood.Wait()
	defer stop()
	worker := c.worker("us")
	slowest := time.Duration(0)
	for i := range 50 {
		began := time.Now()
		ref := us
		ref.Attempt = wire.AttemptID(fmt.Sprint("b", i))
		c.no(c.coordinator.PublishTask(ctx, ref, nil))
		_, err := worker.Claim(ctx, ref, wire.Claim{Nonce: "n"})
		c.no(err)
		_, err = c.coordinator.ReadClaim(ctx, ref)
		c.no(err)
		slowest = max(slowest, time.Since(began))
	}
	t.Logf("the slowest of 50 tasks of the other pool took %s", slowest)
	if slowest > 2*time.Second {
		t.Errorf("a task of the other pool took %s", slowest)
	}
}
