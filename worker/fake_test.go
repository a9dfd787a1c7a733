package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"
	"go.uber.org/goleak"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/worker/journal"
)

func TestMain(m *testing.M) {
	// The compressor is created at its first use and has channels: if it were created inside the bubble of one test,
	// another test could not use it.
	packer := wire.Packer{}
	data, err := packer.Pack(context.Background(), "", make([]byte, 2*wire.CompressOver))
	if err == nil {
		_, err = packer.Unpack(context.Background(), "", data)
	}
	if err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// keys has the key of the run "r".
type keys struct{ sealer *wire.Sealer }

func (k keys) PublicKey() string { return "XPUBLIC" }

func (k keys) Forget(string) {}

func (k keys) Open(_ context.Context, _, run string) (*wire.Sealer, error) {
	if k.sealer == nil || run != "r" {
		return nil, wire.ErrNoKey
	}
	return k.sealer, nil
}

// cloud is a provider of one type with an id and a name.
type cloud struct {
	provider.Provider // methods that are not faked panic

	mu         sync.Mutex
	applied    int
	running    int
	mostAtOnce int
	stopped    int
	configured cty.Value
	// engineVersion is the version that it was told with its configuration.
	engineVersion string
	released      int

	onApply func(context.Context, provider.ApplyRequest) (provider.ApplyResponse, diag.List)
	onPlan  func(context.Context)
	acquire diag.List
	// onInvoke is what the action test_send does.
	onInvoke func(ctx context.Context, progress func(string)) diag.List
	// onList is called, if it is not nil, before an object is listed; listedSize is the length of their names.
	onList     func(ctx context.Context, i int) error
	listedSize int
}

func block() *schema.Block {
	return &schema.Block{Attributes: map[string]*schema.Attribute{
		"id":   {Type: cty.String, Computed: true},
		"name": {Type: cty.String, Optional: true},
	}}
}

func (c *cloud) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.released++
}

func (c *cloud) Schemas(context.Context) (*provider.Schemas, diag.List) {
	return &provider.Schemas{
		Provider: schema.Schema{Block: block()},
		Managed:  map[string]schema.Schema{"test_thing": {Block: block()}, "test_listed": {Block: block()}},
		Lists:    map[string]schema.Schema{"test_listed": {Block: &schema.Block{}}},
		Identities: map[string]schema.Identity{"test_listed": {Body: &schema.Object{Nesting: schema.NestingSingle,
			Attributes: map[string]*schema.Attribute{"name": {Type: cty.String, Required: true}}}}},
		Actions:   map[string]schema.Schema{"test_send": {Block: block()}},
		Ephemeral: map[string]schema.Schema{"test_secret": {Block: block()}},
	}, nil
}

func (c *cloud) Configure(_ context.Context, v cty.Value, engineVersion string) diag.List {
	c.configured, c.engineVersion = v, engineVersion
	return nil
}

func (c *cloud) ValidateResourceConfig(context.Context, string, cty.Value) diag.List { return nil }

func (c *cloud) PlanResourceChange(ctx context.Context, r provider.PlanRequest) (provider.PlanResponse, diag.List) {
	if c.onPlan != nil {
		c.onPlan(ctx)
	}
	vals := r.Proposed.AsValueMap()
	if vals["id"].IsNull() {
		vals["id"] = cty.UnknownVal(cty.String)
	}
	return provider.PlanResponse{Planned: cty.ObjectVal(vals)}, nil
}

func (c *cloud) ApplyResourceChange(ctx context.Context, r provider.ApplyRequest) (provider.ApplyResponse, diag.List) {
	c.mu.Lock()
	c.applied++
	c.running++
	c.mostAtOnce = max(c.mostAtOnce, c.running)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running--
	}()
	if c.onApply != nil {
		return c.onApply(ctx, r)
	}
	return provider.ApplyResponse{Object: made(r.Planned)}, nil
}

func made(planned cty.Value) cty.Value {
	vals := planned.AsValueMap()
	vals["id"] = cty.StringVal("i-1")
	return cty.ObjectVal(vals)
}

func (c *cloud) CloseEphemeral(context.Context, string, []byte) diag.List { return nil }

func (c *cloud) Stop(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped++
	return nil
}

// slowApply makes every apply take the given time. An apply whose context ends before has an unknown outcome.
func slowApply(d time.Duration) func(context.Context, provider.ApplyRequest) (provider.ApplyResponse, diag.List) {
	return func(ctx context.Context, r provider.ApplyRequest) (provider.ApplyResponse, diag.List) {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return provider.ApplyResponse{Object: made(r.Planned)}, nil
		case <-ctx.Done():
			return provider.ApplyResponse{}, diag.List{{Severity: diag.Error, Summary: "Plugin did not respond",
				Extra: &provider.Lost{Reason: "the call was cut off"}}}
		}
	}
}

// provisioners executes provision tasks.
type provisioners func(ctx context.Context, emit func(wire.Event)) diag.List

func (p provisioners) Run(ctx context.Context, _ string, _ *wire.ProvisionTask, _ *wire.Variables,
	emit func(wire.Event)) diag.List {
	return p(ctx, emit)
}

// bench is a worker with its environment. drain makes the worker take no more tasks; kill cancels its operations.
type bench struct {
	*testing.T
	bus    *bus
	cloud  *cloud
	sealer *wire.Sealer
	dir    string
	opts   Options
	worker *Worker // since start
	drain  context.CancelFunc
	kill   context.CancelFunc
	done   chan error
}

func newBench(t *testing.T, opts ...func(*Options)) *bench {
	t.Helper()
	sealer, err := wire.NewSealer(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, bus: newBus(), cloud: &cloud{}, sealer: sealer, dir: t.TempDir()}
	n := 0
	var mu sync.Mutex
	b.opts = Options{
		ID: "w1", Pools: []string{"eu"}, Slots: 4, Version: "0.3.0", EngineVersion: "1.12.6", Platform: "plan9_mips",
		Queue: b.bus, Claims: b.bus, Caller: b.bus, Parts: b.bus, Presence: b.bus, Blobs: b.bus, Keys: keys{sealer},
		Providers: leases{b.cloud}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: time.Now,
		Rand: rand.Reader,
		Nonce: func() string {
			mu.Lock()
			defer mu.Unlock()
			n++
			return fmt.Sprintf("nonce-%d", n)
		},
	}
	for _, o := range opts {
		o(&b.opts)
	}
	return b
}

// leases leases out the provider cloud.
type (
	leases struct{ *cloud }
	lease  struct{ *cloud }
)

func (l leases) Acquire(ctx context.Context, _ wire.Provider, _ *wire.Variables, configure Configure) (
	Lease, diag.List) {
	if l.acquire.HasErrors() {
		return nil, l.acquire
	}
	if configure != nil {
		if diags := configure(ctx, l.cloud); diags.HasErrors() {
			return nil, diags
		}
	}
	return lease(l), nil
}

func (l lease) Provider() provider.Provider { return l.cloud }

// start opens the journal and runs the worker until drain or kill.
func (b *bench) start() {
	b.Helper()
	j, _, err := journal.Open(b.dir)
	if err != nil {
		b.Fatal(err)
	}
	if b.opts.Journal == nil {
		b.opts.Journal = j
	}
	taking, drain := context.WithCancel(b.Context())
	working, kill := context.WithCancel(context.Background())
	done := make(chan error, 1)
	b.drain, b.kill, b.done = drain, kill, done
	w := New(b.opts)
	b.worker = w
	go func() {
		err := w.Run(taking, working)
		done <- errors.Join(err, j.Close())
		close(done)
	}()
	b.Cleanup(func() {
		drain()
		kill()
		<-done
	})
}

// stop drains the worker and returns the result of Run.
func (b *bench) stop() error {
	b.drain()
	err := <-b.done
	b.opts.Journal = nil
	return err
}

func (b *bench) seal(ref wire.TaskRef, data []byte) []byte {
	b.Helper()
	out, err := wire.Packer{Run: ref.Run, Sealer: b.sealer, Rand: rand.Reader}.Pack(context.Background(),
		wire.TaskSubject(ref), data)
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// applies returns deliveries of n creations.
func (b *bench) applies(n int) []*delivery {
	b.Helper()
	var out []*delivery
	for i := range n {
		out = append(out, b.task(i, applyTask(fmt.Sprintf("thing %d", i))))
	}
	return out
}

func (b *bench) task(i int, t *wire.Task) *delivery {
	ref := wire.TaskRef{Pool: "eu", Coordinator: "c", Run: "r", Attempt: wire.AttemptID(fmt.Sprintf("a%d", i))}
	return &delivery{bus: b.bus, ref: ref, data: b.seal(ref, wire.EncodeTask(t))}
}

func applyTask(name string) *wire.Task {
	ty := block().ImpliedType()
	config := cty.ObjectVal(map[string]cty.Value{"id": cty.NullVal(cty.String), "name": cty.StringVal(name)})
	planned := cty.ObjectVal(map[string]cty.Value{"id": cty.UnknownVal(cty.String), "name": cty.StringVal(name)})
	return &wire.Task{
		Run: "r", Address: "test_thing.a",
		Provider: wire.Provider{Package: wire.Package{Source: "example.com/acme/test"}},
		Apply: &wire.ApplyTask{Type: "test_thing", Action: plan.Create, Config: encode(config, ty),
			Planned: encode(planned, ty)},
	}
}

func planTask(name string) *wire.Task {
	ty := block().ImpliedType()
	config := cty.ObjectVal(map[string]cty.Value{"id": cty.NullVal(cty.String), "name": cty.StringVal(name)})
	return &wire.Task{
		Run: "r", Address: "test_thing.a",
		Provider: wire.Provider{Package: wire.Package{Source: "example.com/acme/test"}},
		Plan:     &wire.PlanTask{Type: "test_thing", Config: encode(config, ty)},
	}
}

func encode(v cty.Value, ty cty.Type) []byte {
	data, err := coding.EncodeValue(v, ty)
	if err != nil {
		panic(err)
	}
	return data
}

// results returns the published results as the coordinator reads them, by attempt.
func (b *bench) results() []*wire.Result {
	b.Helper()
	b.bus.mu.Lock()
	all := slices.Clone(b.bus.results)
	b.bus.mu.Unlock()
	var out []*wire.Result
	for _, p := range all {
		plain, err := wire.Packer{Run: p.ref.Run, Sealer: b.sealer, Blobs: b.bus, Rand: rand.Reader}.Unpack(
			context.Background(), wire.ResultSubject(p.ref), p.data)
		if err != nil {
			b.Fatal(err)
		}
		r, err := wire.DecodeResult(plain)
		if err != nil {
			b.Fatal(err)
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *wire.Result) int { return slices.Compare([]byte(a.Attempt), []byte(b.Attempt)) })
	return out
}

// last returns the last heartbeat.
func (b *bench) last() wire.Heartbeat {
	b.Helper()
	all := b.bus.said()
	return all[len(all)-1]
}

// one returns the only result.
func (b *bench) one() *wire.Result {
	b.Helper()
	all := b.results()
	if len(all) != 1 {
		b.Fatalf("%d results were published, want one", len(all))
	}
	return all[0]
}

// pending returns the entries of the journal after the worker has ended.
func (b *bench) pending() []journal.Entry {
	b.Helper()
	j, _, err := journal.Open(b.dir)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := j.Close(); err != nil {
			b.Error(err)
		}
	}()
	return j.Pending()
}

// elapse waits in virtual time.
func elapse(d time.Duration) { _ = sleep.For(context.Background(), d) }
