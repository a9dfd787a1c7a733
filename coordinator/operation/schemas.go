package operation

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/bug"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// need is the part of a provider's schemas that a run needs.
type need struct {
	managed, data, ephemeral map[string]bool
}

func (n *need) add(r addr.Resource) {
	m := map[addr.Mode]*map[string]bool{addr.Managed: &n.managed, addr.Data: &n.data,
		addr.Ephemeral: &n.ephemeral}[r.Mode]
	if *m == nil {
		*m = map[string]bool{}
	}
	(*m)[r.Type] = true
}

func sorted(m map[string]bool) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// needs returns the parts of each provider's schemas that a configuration and a state use: only these are loaded.
func needs(tree *config.Tree, prior *state.State) map[addr.Provider]*need {
	out := map[addr.Provider]*need{}
	of := func(p addr.Provider) *need {
		if out[p] == nil {
			out[p] = &need{}
		}
		return out[p]
	}
	if tree != nil {
		for p := range tree.Requirements() {
			of(p)
		}
		for _, b := range tree.Root.Module.Imports {
			if b.StaticTo.Module.IsRoot() && tree.Root.Module.Resources[b.StaticTo.Resource] == nil {
				of(tree.Root.ProviderFor(b.Provider).Provider).add(b.StaticTo.Resource) // its block may be generated
			}
		}
		for _, n := range tree.Modules {
			for r, c := range n.Module.Resources {
				of(c.Source).add(r)
			}
		}
	}
	if prior != nil {
		for a, r := range prior.Resources {
			of(r.Provider.Provider).add(a.Resource)
		}
	}
	return out
}

// Schemas requests the schemas that the session's configuration and a state use from workers. The schemas of a
// locked package never change, so the store caches them; an unlocked package (a development override) is asked each
// time.
func (s *Session) Schemas(ctx context.Context, prior *state.State) (schemas *values.Schemas, diags diag.List) {
	defer caught(&diags)
	var mu sync.Mutex // guards out and diags
	out := map[addr.Provider]*provider.Schemas{}
	needed := needs(s.Tree, prior)
	s.warm(ctx, slices.SortedFunc(maps.Keys(needed), func(a, b addr.Provider) int {
		return cmp.Compare(a.String(),
			b.String())
	}))
	group, ctx := errgroup.WithContext(ctx)
	for p, n := range needed {
		group.Go(func() error {
			return bug.Catch(func() error {
				task := &wire.SchemaTask{Managed: sorted(n.managed), Data: sorted(n.data),
					Ephemeral: sorted(n.ephemeral)}
				schemas, more := s.ProviderSchemas(ctx, p, task)
				mu.Lock()
				defer mu.Unlock()
				diags = diags.Append(more)
				if schemas != nil {
					out[p] = schemas
				}
				return nil
			})
		})
	}
	if err := group.Wait(); err != nil { // the calls return diagnostics, so this is a bug
		return values.NewSchemas(out), diags.Append(runFailed(err))
	}
	return values.NewSchemas(out), diags
}

// warm asks all workers to download and start the providers that the session will use. Otherwise each worker does so
// during the run, with its first operation. It is only a request.
func (s *Session) warm(ctx context.Context, needed []addr.Provider) {
	if s.Environment != nil {
		return // processes that are started without it cannot be used
	}
	if s.Embedded {
		return // there is only one worker, which is asked for the schemas anyway
	}
	m := wire.Control{Kind: "warm"}
	for _, p := range needed {
		if !p.IsBuiltin() {
			m.Providers = append(m.Providers, wire.Provider{Package: s.Package(p), Address: p.String(), Dir: s.Dir})
		}
	}
	if len(m.Providers) > 0 {
		_ = s.Hub.Control(ctx, "", m)
	}
}

// ProviderSchemas requests the schemas of one provider from a worker.
func (s *Session) ProviderSchemas(ctx context.Context, p addr.Provider, task *wire.SchemaTask) (*provider.Schemas,
	diag.List) {
	pkg := s.Package(p)
	key := ""
	if pkg.Unlocked == "" && s.Store != nil && len(pkg.Hashes) > 0 {
		key = fmt.Sprintf("%s %v %v %v %v %v", pkg.Key(), pkg.Hashes[0], task.Managed, task.Data,
			task.Ephemeral, task.All)
		if coded, err := s.Store.GetValue(ctx, "schemas", key); err == nil && coded != nil {
			if schemas, err := wire.DecodeSchemas(coded); err == nil {
				return forConfiguration(schemas), nil
			}
		}
	}
	res, diags := s.call(ctx, &wire.Task{Address: p.Display(), Provider: wire.Provider{Package: pkg,
		Address: p.String(), Dir: s.Dir}, Schema: task})
	if diags.HasErrors() {
		return nil, diags
	}
	if res.Schema == nil {
		return nil, diags.Append(diag.New(diag.Error, "Failed to obtain provider schema",
			fmt.Sprintf("The worker's answer holds no schema of %s.", p.Display()), nil))
	}
	schemas, err := wire.DecodeSchemas(res.Schema.Schemas)
	if err != nil {
		return nil, diags.Append(diag.New(diag.Error, "Failed to obtain provider schema",
			fmt.Sprintf("Decoding the schema of %s: %s.", p.Display(), err), nil))
	}
	if key != "" {
		if err := s.Store.PutHint(ctx, "schemas", key, res.Schema.Schemas); err != nil {
			return nil, diags.Append(diag.New(diag.Error, "Failed to keep a provider's schema", err.Error(), nil))
		}
	}
	return forConfiguration(schemas), diags
}

// While a pool has no worker, a call is retried after a pause that doubles between these bounds: an embedded worker
// is ready within a millisecond or two, one that is started by hand is not.
const (
	firstPause = time.Millisecond
	lastPause  = 200 * time.Millisecond
)

// A lost call is retried this often, after a pause that doubles each time.
const (
	lostCalls      = 7
	firstLostPause = 20 * time.Millisecond
)

// forConfiguration marks the content of provider blocks as not stored.
func forConfiguration(s *provider.Schemas) *provider.Schemas {
	if s.Provider.Block != nil {
		s.Provider.Block.Ephemeral = true
	}
	return s
}

// call makes one call on the fast lane outside of a run: to the default pool or, if no worker serves it, to any
// other. A stop of the session ends it, because nothing is lost.
func (s *Session) call(ctx context.Context, task *wire.Task) (*wire.Result, diag.List) {
	ctx, release := s.unlessStopped(ctx)
	defer release()
	return s.callWith(ctx, ctx, task, s.callAny)
}

// callWith calls once until it reaches a worker, or waiting for one is pointless. It ends with ctx, and does not
// retry after again has ended. The call itself may have crashed the worker of a lost call, so a lost call is
// retried only lostCalls times, after pauses.
func (s *Session) callWith(ctx, again context.Context, task *wire.Task,
	once func(context.Context, *wire.Task) (*wire.Result, error)) (*wire.Result, diag.List) {
	deadline := time.Now().Add(s.WorkerWait)
	absent, lost := firstPause, firstLostPause
	for losses := 0; ; {
		res, err := once(ctx, task)
		if err == nil && res.NotStarted {
			err = wire.ErrLostCall // the worker is stopping; another one may accept it
		}
		var pause time.Duration
		switch {
		case err == nil:
			return res, wire.DiagsFromWire(res.Diagnostics)
		case ctx.Err() != nil:
			return nil, diag.Errors("Operation interrupted", sentence(context.Cause(ctx)), nil)
		case errors.Is(err, wire.ErrLostCall) && losses < lostCalls:
			losses++
			pause, lost = lost, 2*lost
		case errors.Is(err, wire.ErrLostCall):
			return nil, diag.Errors("No worker has answered",
				fmt.Sprintf("No worker answered about %s, in %d attempts: the worker, or the provider's plugin with "+
					"it, may end whenever it is asked. Its own log tells more.", task.Address, losses+1), nil)
		case errors.Is(err, wire.ErrNoWorker) && time.Now().Before(deadline):
			pause, absent = absent, min(2*absent, lastPause)
		case errors.Is(err, wire.ErrNoWorker):
			return nil, diag.Errors("No worker is there",
				"There is no live worker in any pool, so the providers' schemas are unknown. Start one: worker -nats "+
					"URL -pool default -slots 10.", nil)
		default:
			return nil, diag.Errors("Failed to reach a worker", err.Error()+".", nil)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-again.Done():
		case <-timer.C:
		}
		timer.Stop()
		if err := cmp.Or(context.Cause(ctx), context.Cause(again)); err != nil {
			return nil, diag.Errors("Operation interrupted", sentence(err), nil)
		}
	}
}

// sentence returns the text of an error as a sentence.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

func (s *Session) callAny(ctx context.Context, task *wire.Task) (*wire.Result, error) {
	res, err := s.callPool(ctx, DefaultPool, task)
	if s.Embedded || !errors.Is(err, wire.ErrNoWorker) {
		return res, err // the embedded worker serves no other pool, and trying others takes 40 ms and more
	}
	workers, werr := s.Hub.Workers(ctx)
	if werr != nil {
		return nil, werr
	}
	for _, w := range workers {
		for _, pool := range w.Pools {
			if res, err = s.callPool(ctx, pool, task); !errors.Is(err, wire.ErrNoWorker) {
				return res, err
			}
		}
	}
	return nil, wire.ErrNoWorker
}

func (s *Session) callPool(ctx context.Context, pool string, task *wire.Task) (*wire.Result, error) {
	held := s.Hub.Room.For(pool)
	defer held.Give()
	packer := wire.Packer{Run: task.Run, Blobs: s.Hub, Incoming: s.Hub.PoolBlobs(pool), Rand: rand.Reader, Held: held}
	sent := *task
	var err error
	if sent.Environment, err = s.Environment.in(ctx, s, pool); err != nil {
		return nil, err
	}
	data, err := packer.Pack(ctx, wire.CallSubject(pool), wire.EncodeTask(&sent))
	if err != nil {
		return nil, err
	}
	answer, err := s.Hub.Call(ctx, pool, data)
	if err != nil {
		return nil, err
	}
	if answer, err = packer.Unpack(ctx, wire.CallSubject(pool), answer); err != nil {
		return nil, err
	}
	return wire.DecodeResult(answer)
}
