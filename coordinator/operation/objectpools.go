package operation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// A worker that is asked for a schema, a validation or a function is trusted: it gets configurations with credentials
// and passwords, and says which attributes are sensitive. So a provider is asked only in the pools in which its objects
// are placed. They must be known before there are schemas, so they are computed from the constants, variables and
// locals of the configuration, and from the objects in the state.

// Places remembers the pools of a session's objects for all questions of its operations. The zero value is ready.
type Places struct {
	mu    sync.Mutex // guards the fields below
	tree  *config.Tree
	prior *state.State
	live  string
	found *poolsOfObjects
}

// pools counts, by pool, the blocks and objects that belong there.
type pools map[string]int

// sorted returns the pools, those with the most objects first.
func (p pools) sorted() []string {
	return slices.SortedFunc(maps.Keys(p), func(a, b string) int {
		return cmp.Or(cmp.Compare(p[b], p[a]), strings.Compare(a, b))
	})
}

// poolsOfObjects has the pools of the objects of a configuration and a state, as far as they are known: by resource
// block, by provider configuration, and by provider.
type poolsOfObjects struct {
	blocks    map[addr.ConfigResource]pools
	configs   map[addr.ProviderConfig]pools
	providers map[addr.Provider]pools
}

func add[K comparable](to map[K]pools, key K, pool string) {
	if to[key] == nil {
		to[key] = pools{}
	}
	to[key][pool]++
}

// objectPools returns the pools of the objects of the session's configuration and of a state; prior may be nil.
func (s *Session) objectPools(ctx context.Context, prior *state.State) (*poolsOfObjects, func(pool string) bool,
	error) {
	live, err := s.livePools(ctx)
	if err != nil {
		return nil, nil, err
	}
	if prior == nil {
		prior = s.Prior
	}
	isLive := func(pool string) bool { return slices.Contains(live, pool) }
	key := strings.Join(live, "\x00")
	if s.Places == nil {
		return (&placer{s: s, live: live, isLive: isLive}).compute(prior), isLive, nil
	}
	p := s.Places
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found == nil || p.tree != s.Tree || p.prior != prior || p.live != key {
		p.found = (&placer{s: s, live: live, isLive: isLive}).compute(prior)
		p.tree, p.prior, p.live = s.Tree, prior, key
	}
	return p.found, isLive, nil
}

// livePools returns the pools that have live workers of this version, sorted.
func (s *Session) livePools(ctx context.Context) ([]string, error) {
	workers, err := s.Hub.Workers(ctx)
	if err != nil {
		return nil, err
	}
	set := map[string]bool{}
	for _, w := range workers {
		if w.Since < wire.DeadAfter && wire.Spoken().Meets(w.Versions()) {
			for _, pool := range w.Pools {
				set[pool] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(set)), nil
}

// asked returns the pools that may be asked about a provider. prior is the state whose objects count; nil for that of
// the session.
func (s *Session) asked(ctx context.Context, p addr.Provider, prior *state.State) ([]string, error) {
	if s.Embedded {
		return []string{DefaultPool}, nil
	}
	found, live, err := s.objectPools(ctx, prior)
	if err != nil {
		return nil, err
	}
	return s.trusted(live, p, found.providers[p]), nil
}

// aboutBlock returns the pools that may be asked about the block of a resource or of a provider: where its own objects
// are placed, if that is known, and else as for its provider.
func (s *Session) aboutBlock(found *poolsOfObjects, live func(string) bool, n *graph.Node) []string {
	if n.Kind == graph.ProviderNode {
		p := n.ProviderAddr.Provider
		return s.trusted(live, p, found.configs[n.ProviderAddr], found.providers[p])
	}
	p := n.Resource.Source
	return s.trusted(live, p, found.blocks[n.ConfigResource()], found.configs[n.ProviderAddr], found.providers[p])
}

// poolsFor returns the pools that may be asked about an object with a placement: its own pool or, if no rule names one
// and its region is not known, those of its block.
func (s *Session) poolsFor(ctx context.Context, at program.Placement, of addr.ConfigResource) ([]string, diag.List) {
	if s.Embedded {
		return []string{DefaultPool}, nil
	}
	found, live, err := s.objectPools(ctx, nil)
	if err != nil {
		return nil, notFound(err)
	}
	pool, _ := s.Rules.Place(at, live)
	if own := found.blocks[of]; pool == placement.DefaultPool && len(own) > 0 {
		return own.sorted(), nil
	}
	return []string{pool}, nil
}

// notFound is the diagnostic of a session that cannot find out which workers there are.
func notFound(err error) diag.List {
	return diag.Errors("Failed to look for workers", err.Error()+".", nil)
}

// trusted returns the first of the sets that is not empty; if all are, the pool in which the rules place an object
// whose provider alone is known.
func (s *Session) trusted(live func(string) bool, p addr.Provider, sets ...pools) []string {
	for _, set := range sets {
		if len(set) > 0 {
			return set.sorted()
		}
	}
	at := program.Placement{Provider: addr.ProviderInstance{Provider: p}}
	if pool, ok := s.Rules.Likely(at, placement.Unknown{}, live); ok && pool != placement.DefaultPool {
		return []string{pool}
	}
	return []string{s.Rules.Fallback()}
}

// placer computes the pools of objects.
type placer struct {
	s      *Session
	live   []string
	isLive func(pool string) bool
	args   map[addr.ProviderConfig][]arguments
}

// arguments are the values of a provider configuration that placement depends on.
type arguments struct {
	known   map[string]string
	unknown map[string]bool
}

func (a arguments) region() string { return cmp.Or(a.known["region"], a.known["location"]) }

func (p *placer) compute(prior *state.State) *poolsOfObjects {
	p.args = map[addr.ProviderConfig][]arguments{}
	out := &poolsOfObjects{blocks: map[addr.ConfigResource]pools{}, configs: map[addr.ProviderConfig]pools{},
		providers: map[addr.Provider]pools{}}
	if p.s.Tree != nil {
		for path, n := range p.s.Tree.Modules {
			for r, c := range n.Module.Resources {
				p.block(out, n, addr.ConfigResource{Module: path, Resource: r}, c)
			}
		}
	}
	if prior != nil {
		for a, r := range prior.Resources {
			p.stored(out, a, r)
		}
	}
	return out
}

// block places the objects of a resource block.
func (p *placer) block(out *poolsOfObjects, n *config.Node, at addr.ConfigResource, c *config.Resource) {
	pc := n.ProviderFor(c.Provider)
	for _, region := range p.regions(n, c) {
		for _, args := range p.arguments(pc) {
			where, unknown := p.placement(pc, at.Module.Unkeyed(), at.Resource, region, args)
			if pool, ok := p.s.Rules.Likely(where, unknown, p.isLive); ok {
				add(out.blocks, at, pool)
				add(out.configs, pc, pool)
				add(out.providers, pc.Provider, pool)
			}
		}
	}
}

// stored places the objects of a resource in the state. Their attributes are searched only for pools that have workers
// and are not among those of the provider yet.
func (p *placer) stored(out *poolsOfObjects, a addr.AbsResource, r *state.Resource) {
	for _, args := range p.arguments(r.Provider) {
		at, unknown := p.placement(r.Provider, a.Module, a.Resource, text{}, args)
		pool, ok := p.s.Rules.Likely(at, unknown, func(string) bool { return false })
		if !ok || pool == placement.DefaultPool { // no rule says it, so the region does
			if p.regional(out, r) {
				return
			}
			pool, ok = p.s.Rules.Likely(at, unknown, p.isLive)
		}
		if ok {
			add(out.configs, r.Provider, pool)
			add(out.providers, r.Provider.Provider, pool)
		}
	}
}

// regional adds the pools that the regions of stored objects name. It reports whether there are any.
func (p *placer) regional(out *poolsOfObjects, r *state.Resource) (found bool) {
	for _, i := range r.Instances {
		for _, o := range append(slices.Collect(maps.Values(i.Deposed)), i.Current) {
			if o == nil {
				continue
			}
			for _, pool := range p.live {
				if found && out.configs[r.Provider][pool] > 0 || !mentions(o.Attrs, pool) || regionOf(o.Attrs) != pool {
					continue
				}
				found = true
				add(out.configs, r.Provider, pool)
				add(out.providers, r.Provider.Provider, pool)
			}
		}
	}
	return found
}

// mentions reports whether the JSON of an object has the name of a pool as some region or location: a cheap test, which
// few objects of other pools pass.
func mentions(attrs []byte, pool string) bool {
	quoted, err := json.Marshal(pool)
	return err == nil && (bytes.Contains(attrs, append([]byte(`"region":`), quoted...)) ||
		bytes.Contains(attrs, append([]byte(`"location":`), quoted...)))
}

// regionOf returns the region among the attributes of a stored object.
func regionOf(attrs []byte) string {
	var o struct{ Region, Location *string }
	if json.Unmarshal(attrs, &o) != nil {
		return ""
	}
	if o.Region != nil {
		return *o.Region
	}
	if o.Location != nil {
		return *o.Location
	}
	return ""
}

// text is an argument: its value, or that it is not known. It is empty for one that is not set.
type text struct {
	value   string
	unknown bool
}

func (p *placer) placement(pc addr.ProviderConfig, m addr.ModuleInstance, r addr.Resource, region text,
	args arguments) (program.Placement, placement.Unknown) {
	return program.Placement{
		Provider: pc.Instance(pc.Module.Unkeyed(), addr.NoKey), ResourceType: r.Type, Module: m,
		Region: region.value, ProviderRegion: args.region(), ProviderConfig: args.known,
	}, placement.Unknown{Region: region.unknown, Config: args.unknown}
}

// regions returns the regions of the instances of a resource block.
func (p *placer) regions(n *config.Node, c *config.Resource) []text {
	found := argumentsIn(c.Config, "region", "location")
	if len(found) == 0 {
		return []text{{}}
	}
	var out []text
	for _, each := range p.repetitions(n, c.ForEach) {
		region := text{}
		for _, name := range []string{"region", "location"} {
			if a := found[name]; a != nil && region == (text{}) {
				region = constant(n, a, each)
			}
		}
		out = append(out, region)
	}
	return out
}

// mostRepetitions is the most elements of a for_each whose regions are computed one by one.
const mostRepetitions = 256

// repetitions returns the values of each for the instances of a block: one without a value if it has none, or if they
// are not known.
func (p *placer) repetitions(n *config.Node, e hcl.Expression) []map[string]cty.Value {
	once := []map[string]cty.Value{nil}
	if e == nil {
		return once
	}
	elements, diags := n.Static().ForEach(e, config.StaticUse{Subject: "for_each", Range: e.Range()})
	if diags.HasErrors() || len(elements) == 0 || len(elements) > mostRepetitions {
		return once
	}
	var out []map[string]cty.Value
	for _, key := range slices.Sorted(maps.Keys(elements)) {
		out = append(out, eachOf(key, elements[key]))
	}
	return out
}

func eachOf(key string, value cty.Value) map[string]cty.Value {
	return map[string]cty.Value{"key": cty.StringVal(key), "value": value}
}

// arguments returns those of each instance of a provider configuration.
func (p *placer) arguments(pc addr.ProviderConfig) []arguments {
	if done, ok := p.args[pc]; ok {
		return done
	}
	out := []arguments{{}}
	if p.s.Tree != nil {
		if n := p.s.Tree.Modules[pc.Module]; n != nil {
			if block := n.ProviderBlock(pc.Provider, pc.Alias); block != nil && block.Config != nil {
				out = p.argumentsOf(n, block)
			}
		}
	}
	p.args[pc] = out
	return out
}

func (p *placer) argumentsOf(n *config.Node, block *config.ProviderConfig) []arguments {
	eaches := []map[string]cty.Value{nil}
	if block.ForEach != nil {
		eaches = eaches[:0]
		instances := n.ProviderInstances[block.Local()]
		for _, key := range slices.Sorted(maps.Keys(instances)) {
			eaches = append(eaches, eachOf(key, instances[key]))
		}
	}
	found := argumentsIn(block.Config, p.s.Rules.ConfigNames()...)
	var out []arguments
	for _, each := range eaches {
		a := arguments{known: map[string]string{}, unknown: map[string]bool{}}
		for name, attribute := range found {
			switch t := constant(n, attribute, each); {
			case t.unknown:
				a.unknown[name] = true
			case t.value != "":
				a.known[name] = t.value
			}
		}
		out = append(out, a)
	}
	return out
}

// argumentsIn returns those of the named arguments that a body sets. Other problems of the body are reported when it is
// evaluated.
func argumentsIn(body hcl.Body, names ...string) hcl.Attributes {
	schema := &hcl.BodySchema{}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: name})
	}
	content, _, _ := body.PartialContent(schema)
	if content == nil {
		return nil
	}
	return content.Attributes
}

// constant evaluates an argument that may refer to variables, locals and each. As for placement, sensitive values and
// those that are no strings count as not set.
func constant(n *config.Node, a *hcl.Attribute, each map[string]cty.Value) text {
	var uses []hcl.Traversal
	for _, t := range a.Expr.Variables() {
		if t.RootName() != "each" {
			uses = append(uses, t)
		} else if each == nil {
			return text{unknown: true}
		}
	}
	ctx, diags := n.Static().Context(uses, config.StaticUse{Subject: a.Name, Range: a.Range})
	if diags.HasErrors() {
		return text{unknown: true}
	}
	if each != nil {
		ctx.Variables["each"] = cty.ObjectVal(each)
	}
	v, problems := a.Expr.Value(ctx)
	switch {
	case problems.HasErrors():
		return text{unknown: true}
	case marks.Contains(v, marks.Sensitive), marks.Contains(v, marks.Ephemeral):
		return text{}
	}
	v, _ = v.Unmark()
	switch {
	case !v.IsKnown():
		return text{unknown: true}
	case v.IsNull() || v.Type() != cty.String:
		return text{}
	}
	return text{value: v.AsString()}
}

// absentError says that no worker serves any of the pools that may be asked.
type absentError struct {
	pools []string
	// unsuited says why live workers of these pools are asked nothing; nil if there are none.
	unsuited []string
}

func (e *absentError) Error() string {
	if len(e.unsuited) > 0 {
		return fmt.Sprintf("no live worker of this version serves %s: %s", named(e.pools), strings.Join(e.unsuited, "; "))
	}
	return fmt.Sprintf("no live worker serves %s", named(e.pools))
}

// note keeps the reason of an error of one of the pools.
func (e *absentError) note(err error) {
	if other := (*wire.UnsuitedError)(nil); errors.As(err, &other) {
		e.unsuited = append(e.unsuited, other.Why)
	}
}

func (e *absentError) Unwrap() error { return wire.ErrNoWorker }

// named names pools in a sentence.
func named(list []string) string {
	quoted := make([]string, len(list))
	for i, pool := range list {
		quoted[i] = fmt.Sprintf("%q", pool)
	}
	if len(quoted) == 1 {
		return "the pool " + quoted[0]
	}
	return "one of the pools " + strings.Join(quoted, ", ")
}

// version returns the version of the protocol for a call to a pool. The error is a *wire.UnsuitedError if only workers
// of other versions serve it.
func (s *Session) version(ctx context.Context, pool string) (int, error) {
	newest := wire.Spoken().Highest
	if s.Embedded { // the worker is of this program
		return newest, nil
	}
	workers, err := s.Hub.Workers(ctx)
	if err != nil {
		return 0, err
	}
	version := versionFor(pool, workers)
	if version > 0 {
		return version, nil
	}
	if why := unsuited(pool, workers); why != "" {
		return 0, &wire.UnsuitedError{Pool: pool, Why: why}
	}
	return newest, nil // for a worker that has just started
}

// versionFor returns the version of the protocol for a pool, as its live workers speak it; 0 if there is none.
func versionFor(pool string, workers []wire.Worker) int {
	return wire.Spoken().Choose(func(yield func(wire.Versions, int) bool) {
		for _, w := range workers {
			if w.Since < wire.DeadAfter && !w.Draining && w.Pools[0] == pool && !yield(w.Versions(), w.Slots) {
				return
			}
		}
	})
}

// unsuited returns why the live workers of a pool are asked nothing; empty if there are none.
func unsuited(pool string, workers []wire.Worker) string {
	var why []string
	for _, w := range workers {
		if w.Since < wire.DeadAfter && w.Pools[0] == pool {
			if text := w.Unsuited(wire.Spoken()); text != "" {
				why = append(why, text)
			}
		}
	}
	return strings.Join(why, "; ")
}
