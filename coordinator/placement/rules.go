// Package placement decides, by the rules of millipede.hcl and by regions, which pool a vertex runs in and which
// limits apply to it.
//
// It does not depend on workers or permits: the caller says which pools have live workers, and acquires permits.
package placement

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/wire"
)

// DefaultPool is the pool of everything that no rule assigns to another one.
const DefaultPool = "default"

// Rules is the content of millipede.hcl. Nil Rules mean that there is no file.
type Rules struct {
	Pools  []Pool
	Limits []Limit // narrow first
	// Edges is InstanceEdges unless the file sets ResourceEdges.
	Edges string
	// Refresh is RefreshAll unless the file sets RefreshChanged.
	Refresh string
	// NATS is the server in the file; nil if there is none.
	NATS *NATS
	// Workers are the public nkeys of the workers that the operator has confirmed, by pool. In other pools, every
	// worker is accepted that the NATS server allows to publish for the pool.
	Workers map[string][]string
	// Environment has patterns for the variables of the coordinator's environment that are sent with tasks; *
	// matches any text.
	Environment []string
	// Schemas is the pool that is asked about providers if the pools of all their objects are unknown; empty is
	// DefaultPool.
	Schemas string
	// DoubtTerm is how long an operation in doubt may still be running, whose worker is silent; zero if the file does not
	// say.
	DoubtTerm time.Duration
	// Parallelism is the size of the default limit according to the file; zero if it has none.
	Parallelism Parallelism
	// Deferral is set if the file allows plans on the command line to leave out what cannot be planned yet.
	Deferral bool
}

// The values of edges: whether a reference to one instance waits for that one, or for all instances of its
// resource.
const (
	InstanceEdges = "instance"
	ResourceEdges = "resource"
)

// The values of refresh: whether a plan reads all existing objects, or only those that a change can affect.
const (
	RefreshAll     = "all"
	RefreshChanged = "changed"
)

// RefreshesChanged reports whether plans read only what a change can affect, unless the command says otherwise.
func (r *Rules) RefreshesChanged() bool { return r != nil && r.Refresh == RefreshChanged }

// AllowsDeferral reports whether plans may leave out what cannot be planned yet, unless the command says otherwise.
func (r *Rules) AllowsDeferral() bool { return r != nil && r.Deferral }

// WholeEdges reports whether a reference to one instance waits for all of its resource.
func (r *Rules) WholeEdges() bool { return r != nil && r.Edges == ResourceEdges }

// Vouches reports whether the operator has confirmed the worker that sent a heartbeat, so that it may receive the
// keys of runs for its pool. The heartbeat has passed wire.ReadHeartbeat.
func (r *Rules) Vouches(h wire.Heartbeat) bool {
	if r == nil {
		return true
	}
	for _, pool := range h.Pools {
		if list, named := r.Workers[pool]; named && !(slices.Contains(list, h.Identity) && h.Proven()) {
			return false
		}
	}
	return true
}

// NATS is a server, and the files with the credentials. Missing settings are empty. Passwords are not supported.
type NATS struct {
	URL, Credentials, NKey, User, CA, Certificate, Key string
}

// Pool assigns the vertices that it matches to a pool.
type Pool struct {
	Name string
	Matcher
}

// Limit bounds how many of the vertices that it matches run at one time.
type Limit struct {
	Name string
	Max  int
	// Key, if set, makes one limit for each value of a property; see keys.
	Key string
	Matcher
}

// Term returns how long an operation in doubt, whose worker is silent, may still be running.
func (r *Rules) Term() time.Duration {
	if r == nil || r.DoubtTerm == 0 {
		return wire.OperationLimit
	}
	return r.DoubtTerm
}

// OfOnePool reports whether only operations of one pool need permits of the limit with a name.
func (r *Rules) OfOnePool(limit string) bool {
	if _, place := wire.LimitedPool(limit); place {
		return true
	}
	return r != nil && slices.ContainsFunc(r.Limits, func(l Limit) bool {
		if l.Key == "pool" {
			return strings.HasPrefix(limit, l.Name+"-")
		}
		return len(l.Pools) == 1 && !strings.ContainsAny(l.Pools[0], `*?[{\`) &&
			(limit == l.Name || l.Key != "" && strings.HasPrefix(limit, l.Name+"-"))
	})
}

// Matcher selects vertices: all of its parts must match; an empty part matches everything. Patterns are globs: *
// matches any text without a separator, ** any text. The separator is a slash, and in module paths a dot.
type Matcher struct {
	// Providers match the source address, in full or in the short form.
	Providers []string
	// Config matches arguments of the provider block by name.
	Config map[string]string
	// ResourceTypes match the type; Modules the path of the static module, such as module.a.module.b, with slashes for
	// dots. The root module is the empty path.
	ResourceTypes []string
	Modules       []string
	// Pools match the pool of the vertex (limits only).
	Pools []string
}

// Place returns the pool of a vertex, and the limits of the rules that cover it, narrow first. live reports whether
// a pool has workers.
func (r *Rules) Place(p program.Placement, live func(pool string) bool) (pool string, limits []wire.Limit) {
	pool = r.pool(p, live)
	if r == nil {
		return pool, nil
	}
	for i := range r.Limits {
		l := &r.Limits[i]
		if l.matches(p, pool) {
			limits = append(limits, wire.Limit{Name: l.name(p, pool), Slots: l.Max})
		}
	}
	return pool, limits
}

// Placer returns the function that places a vertex: Place, followed by the limit with the given number of slots
// that covers every vertex. r may be nil.
func (r *Rules) Placer(slots int) func(p program.Placement, live func(pool string) bool) (pool string,
	limits []wire.Limit) {
	widest := wire.Limit{Name: wire.DefaultLimit, Slots: slots}
	return func(p program.Placement, live func(string) bool) (string, []wire.Limit) {
		pool, limits := r.Place(p, live)
		return pool, append(limits, widest)
	}
}

func (r *Rules) pool(p program.Placement, live func(pool string) bool) string {
	if r != nil {
		for i := range r.Pools {
			if r.Pools[i].matches(p, "") {
				return r.Pools[i].Name
			}
		}
	}
	for _, region := range []string{p.Region, p.ProviderRegion} {
		if region != "" && live(region) {
			return region
		}
	}
	return DefaultPool
}

func (m *Matcher) matches(p program.Placement, pool string) bool {
	if len(m.Providers) > 0 && !oneOf(m.Providers, p.Provider.Provider.String()) &&
		!oneOf(m.Providers, p.Provider.Provider.Display()) {
		return false
	}
	if len(m.ResourceTypes) > 0 && !oneOf(m.ResourceTypes, p.ResourceType) {
		return false
	}
	if len(m.Modules) > 0 && !oneOf(m.Modules, segments(p.Module.Module().String())) {
		return false
	}
	if len(m.Pools) > 0 && !oneOf(m.Pools, pool) {
		return false
	}
	for name, pattern := range m.Config {
		value, ok := p.ProviderConfig[name]
		if !ok || !glob(pattern, value) {
			return false
		}
	}
	return true
}

func oneOf(patterns []string, value string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return glob(p, value) })
}

// glob must only be called with patterns that Parse has accepted.
func glob(pattern, value string) bool { return doublestar.MatchUnvalidated(pattern, value) }

// segments converts a module path so that a glob splits it at its dots.
func segments(path string) string { return strings.ReplaceAll(path, ".", "/") }

// keys are the properties by which a limit can be divided; each returns the value of a vertex.
var keys = map[string]func(p program.Placement, pool string) string{
	"provider":        func(p program.Placement, _ string) string { return p.Provider.Provider.Display() },
	"provider_config": func(p program.Placement, _ string) string { return configuration(p) },
	"pool":            func(_ program.Placement, pool string) string { return pool },
	"resource_type":   func(p program.Placement, _ string) string { return p.ResourceType },
	"module":          func(p program.Placement, _ string) string { return p.Module.String() },
}

// configuration identifies provider configurations by their addresses and contents.
func configuration(p program.Placement) string {
	var b strings.Builder
	b.WriteString(p.Provider.String())
	for _, k := range slices.Sorted(maps.Keys(p.ProviderConfig)) {
		b.WriteString("\x00" + k + "=" + p.ProviderConfig[k])
	}
	sum := sha256.Sum256([]byte(b.String()))
	name := p.Provider.Provider.Type
	if p.Provider.Alias != "" {
		name += "-" + p.Provider.Alias
	}
	return name + "-" + hex.EncodeToString(sum[:4]) // the content may be secret
}

// name returns the name of the semaphore of the limit for one vertex. Coordinators share it by this name.
func (l *Limit) name(p program.Placement, pool string) string {
	if l.Key == "" {
		return l.Name
	}
	return l.Name + "-" + short(keys[l.Key](p, pool))
}

// maxKey is the maximum length of the readable part of a keyed limit's name.
const maxKey = 48

// short shortens a text such that different texts stay different.
func short(text string) string {
	if len(text) <= maxKey {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return text[:maxKey-9] + "-" + hex.EncodeToString(sum[:4])
}
