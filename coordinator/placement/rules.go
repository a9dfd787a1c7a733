// Package placement decides by the rules of millipede.hcl, and by regions, in which pool a vertex runs, and which limits
// cover it.
//
// It knows neither workers nor permits: the caller says which pools have live workers, and acquires.
package placement

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/wire"
)

// DefaultPool is where everything runs that nothing places elsewhere.
const DefaultPool = "default"

// Rules are what millipede.hcl says. The nil Rules are those of a missing file.
type Rules struct {
	Pools  []Pool
	Limits []Limit // narrow first
	// Edges is "instance" or "resource": whether a reference to one instance waits for that one alone.
	Edges string
}

// Pool sends what it matches to a pool.
type Pool struct {
	Name string
	Matcher
}

// Limit bounds how much of what it matches runs at one time.
type Limit struct {
	Name string
	Max  int
	// Key, when set, makes one limit for each value: provider, provider_config, pool, resource_type or module.
	Key string
	Matcher
}

// Matcher selects vertices: all of its parts must match; a part that is empty matches everything. All patterns are
// globs, in which * stands for what has no slash, ** for everything.
type Matcher struct {
	// Providers match the source address, written in full or as users shorten it.
	Providers []string
	// Config matches arguments of the provider block by name.
	Config map[string]string
	// ResourceTypes match the type; Modules the static module path (module.a.module.b), empty for the root.
	ResourceTypes []string
	Modules       []string
	// Pools match the pool that the vertex was placed in (limits only).
	Pools []string
}

// Place returns the pool of a vertex, and the limits of the rules that cover it, narrow first. live tells which pools
// have workers.
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
	if len(m.Providers) > 0 && !any(m.Providers, p.Provider.Provider.String()) && !any(m.Providers, p.Provider.Provider.Display()) {
		return false
	}
	if len(m.ResourceTypes) > 0 && !any(m.ResourceTypes, p.ResourceType) {
		return false
	}
	if len(m.Modules) > 0 && !any(m.Modules, modulePath(p.Module)) {
		return false
	}
	if len(m.Pools) > 0 && !any(m.Pools, pool) {
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

func any(patterns []string, value string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return glob(p, value) })
}

// glob is lawful for every pattern that Parse has let through.
func glob(pattern, value string) bool { return doublestar.MatchUnvalidated(pattern, value) }

func modulePath(m addr.ModuleInstance) string { return m.Module().String() }

// name is the semaphore of the limit for one vertex. Coordinators that share a transport share it by this name.
func (l *Limit) name(p program.Placement, pool string) string {
	var key string
	switch l.Key {
	case "":
		return l.Name
	case "provider":
		key = p.Provider.Provider.Display()
	case "provider_config":
		key = configKey(p)
	case "pool":
		key = pool
	case "resource_type":
		key = p.ResourceType
	case "module":
		key = p.Module.String()
	}
	return l.Name + "-" + token(key)
}

// configKey tells provider configurations apart by what they are called and what they hold, so that the same account
// under two names in two estates counts as two, and one name for two accounts too.
func configKey(p program.Placement) string {
	var b strings.Builder
	b.WriteString(p.Provider.String())
	for _, k := range slices.Sorted(maps.Keys(p.ProviderConfig)) {
		b.WriteByte(0)
		b.WriteString(k)
		b.WriteByte('=')
		b.WriteString(p.ProviderConfig[k])
	}
	return b.String()
}

// token makes a text part of a name on the wire: readable when it is short and plain, and always different for
// different texts.
func token(text string) string {
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		case r == 0:
			return -1
		}
		return '_'
	}, text)
	if plain == text && len(text) <= 40 {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return plain[:min(len(plain), 24)] + "-" + hex.EncodeToString(sum[:4])
}
