package operation

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/internal/bug"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// need is the part of a provider's schemas that a run needs.
type need struct {
	managed, data, ephemeral, lists, actions map[string]bool
}

func (n *need) add(r addr.Resource) {
	if r.Mode == addr.List {
		n.add(addr.Resource{Mode: addr.Managed, Type: r.Type}) // what is listed
	}
	m := map[addr.Mode]*map[string]bool{addr.Managed: &n.managed, addr.Data: &n.data,
		addr.Ephemeral: &n.ephemeral, addr.List: &n.lists, addr.Action: &n.actions}[r.Mode]
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
	s.warm(ctx, prior, slices.SortedFunc(maps.Keys(needed), func(a, b addr.Provider) int {
		return cmp.Compare(a.String(), b.String())
	}))
	group, ctx := errgroup.WithContext(ctx)
	for p, n := range needed {
		group.Go(func() error {
			return bug.Catch(func() error {
				task := &wire.SchemaTask{Managed: sorted(n.managed), Data: sorted(n.data),
					Ephemeral: sorted(n.ephemeral), Lists: sorted(n.lists), Actions: sorted(n.actions)}
				schemas, more := s.providerSchemas(ctx, p, task, prior)
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

// warm asks the workers of the pools in which providers are used to download and start them. Otherwise each worker does
// so during the run, with its first operation. It is only a request.
func (s *Session) warm(ctx context.Context, prior *state.State, needed []addr.Provider) {
	if s.Environment != nil {
		return // processes that are started without it cannot be used
	}
	if s.Embedded {
		return // there is only one worker, which is asked for the schemas anyway
	}
	byPool := map[string][]wire.Provider{}
	for _, p := range needed {
		if p.IsBuiltin() {
			continue
		}
		pools, err := s.asked(ctx, p, prior)
		if err != nil {
			return // the question that follows reports it
		}
		for _, pool := range pools {
			byPool[pool] = append(byPool[pool], wire.Provider{Package: s.Package(p), Address: p.String(), Dir: s.Dir})
		}
	}
	for pool, providers := range byPool {
		_ = s.Hub.Control(ctx, pool, wire.Control{Kind: "warm", Providers: providers})
	}
}

// ProviderSchemas requests the schemas of one provider from workers of the pools in which its objects are placed.
func (s *Session) ProviderSchemas(ctx context.Context, p addr.Provider, task *wire.SchemaTask) (*provider.Schemas,
	diag.List) {
	return s.providerSchemas(ctx, p, task, nil)
}

func (s *Session) providerSchemas(ctx context.Context, p addr.Provider, task *wire.SchemaTask, prior *state.State) (
	*provider.Schemas, diag.List) {
	if schemas, diags, own := s.ownSchemas(ctx, p, task); own {
		return schemas, diags
	}
	var pools []string
	var known answer
	key, diags := s.schemaKey(ctx, p, task)
	if !diags.HasErrors() {
		var err error
		if pools, err = s.asked(ctx, p, prior); err != nil {
			diags = diags.Append(notFound(err))
		}
	}
	if diags.HasErrors() {
		return nil, diags
	}
	if key != "" {
		known = s.storedAnswer(ctx, key)
	}
	if known.schemas != nil && known.good(pools, s.Rules.Fallback()) {
		return forConfiguration(known.schemas), nil
	}
	found, diags := s.compareAnswers(ctx, p, task, pools, known, prior)
	if diags.HasErrors() {
		return nil, diags
	}
	if key != "" {
		if err := s.Store.PutHint(ctx, schemaBucket, key, found.encode()); err != nil {
			return nil, diags.Append(diag.New(diag.Error, "Failed to keep a provider's schema", err.Error(), nil))
		}
	}
	return forConfiguration(found.schemas), diags
}

// ownSchemas returns the schemas of a provider that this process has itself.
func (s *Session) ownSchemas(ctx context.Context, p addr.Provider, task *wire.SchemaTask) (*provider.Schemas,
	diag.List, bool) {
	if s.Own == nil || s.Embedded {
		return nil, nil, false
	}
	res := s.Own(ctx, s.schemaTask(p, task))
	if res == nil {
		return nil, nil, false
	}
	a, diags := answerOf(p, res)
	if diags.HasErrors() {
		return nil, diags, true
	}
	return forConfiguration(a.schemas), diags, true
}

func (s *Session) schemaTask(p addr.Provider, task *wire.SchemaTask) *wire.Task {
	return &wire.Task{Address: p.Display(), Provider: wire.Provider{Package: s.Package(p), Address: p.String(),
		Dir: s.Dir}, Schema: task}
}

// forConfiguration marks the content of provider blocks as not stored.
func forConfiguration(s *provider.Schemas) *provider.Schemas {
	if s.Provider.Block != nil {
		s.Provider.Block.Ephemeral = true
	}
	return s
}
