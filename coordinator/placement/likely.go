package placement

import "github.com/millipede-iac/millipede/coordinator/program"

// Unknown lists the facts about a vertex that are not known when Likely places it.
type Unknown struct {
	// Region is set if the vertex has a region that is not known.
	Region bool
	// Config has the arguments of the provider's configuration that are set to values that are not known.
	Config map[string]bool
}

// region reports whether the region in the provider's configuration is not known.
func (u Unknown) region() bool { return u.Config["region"] || u.Config["location"] }

// Likely returns the pool that Place would return, for a vertex whose properties are not all known yet. It returns
// false if the pool depends on an unknown property; it never guesses.
func (r *Rules) Likely(p program.Placement, u Unknown, live func(pool string) bool) (pool string, ok bool) {
	if r != nil {
		for i := range r.Pools {
			m := r.Pools[i].Matcher
			if len(u.Config) > 0 && m.depends(u) {
				m.Config = m.without(u)
				if m.matches(p, "") {
					return "", false
				}
				continue
			}
			if m.matches(p, "") {
				return r.Pools[i].Name, true
			}
		}
	}
	for _, in := range []struct {
		region  string
		unknown bool
	}{{p.Region, u.Region}, {p.ProviderRegion, u.region()}} {
		switch {
		case in.unknown:
			return "", false
		case in.region != "" && live(in.region):
			return in.region, true
		}
	}
	return DefaultPool, true
}

// depends reports whether the matcher looks at arguments that are not known.
func (m *Matcher) depends(u Unknown) bool {
	for name := range m.Config {
		if u.Config[name] {
			return true
		}
	}
	return false
}

// without returns the patterns for the arguments that are known.
func (m *Matcher) without(u Unknown) map[string]string {
	known := map[string]string{}
	for name, pattern := range m.Config {
		if !u.Config[name] {
			known[name] = pattern
		}
	}
	return known
}

// Fallback returns the pool that is asked about a provider if the pools of all its objects are unknown.
func (r *Rules) Fallback() string {
	if r != nil && r.Schemas != "" {
		return r.Schemas
	}
	return DefaultPool
}

// ConfigNames returns the arguments of provider configurations that the placement of vertices depends on.
func (r *Rules) ConfigNames() []string {
	names := []string{"region", "location"}
	if r != nil {
		for i := range r.Pools {
			for name := range r.Pools[i].Config {
				names = append(names, name)
			}
		}
	}
	return names
}
