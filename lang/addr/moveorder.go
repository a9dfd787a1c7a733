package addr

import (
	"cmp"
	"slices"
	"strings"
)

// MoveOrder returns the pairs of moves of which the second depends on the first, sorted, as their indexes. It takes
// time with the number of moves and of these pairs, not with the number of all pairs.
func MoveOrder(all []Move) [][2]int {
	x := places{ends: map[string][]end{}, found: map[[2]string]map[string][]int{}}
	for i, m := range all {
		for _, e := range []*MoveEndpoint{m.From, m.To} {
			x.add(m.path(e), i)
		}
	}
	var out [][2]int
	for i, m := range all {
		seen := map[int]bool{i: true}
		for _, e := range []*MoveEndpoint{m.From, m.To} {
			path := m.path(e)
			for n := range path {
				x.each(path[:n+1], func(j int) {
					if seen[j] {
						return
					}
					seen[j] = true
					if m.DependsOn(all[j]) {
						out = append(out, [2]int{j, i})
					}
					if all[j].DependsOn(m) {
						out = append(out, [2]int{i, j})
					}
				})
			}
		}
	}
	slices.SortFunc(out, func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) })
	return slices.Compact(out)
}

// path returns the steps of an endpoint; a resource is the last of them.
func (m Move) path(e *MoveEndpoint) []Step {
	steps := m.steps(e)
	if m.IsModule() {
		return steps
	}
	last := Step{e.Resource.String(), e.Key}
	if m.scope == movesResource {
		last.Key = WildcardKey
	}
	return append(steps, last)
}

// places finds the moves with an endpoint that can match a path.
type places struct {
	ends map[string][]end // by the mask of the path
	// found has the moves by the names and keys of a path. It is filled for each pair of masks, of the endpoints and of
	// the paths that are looked for: keys count where neither has a wildcard.
	found map[[2]string]map[string][]int
}

// end is an endpoint of a move.
type end struct {
	path []Step
	move int
}

// maskOf returns a character for each step of a path: * if it has any key.
func maskOf(path []Step) string {
	mask := make([]byte, len(path))
	for i, s := range path {
		if mask[i] = '.'; s.Key == WildcardKey {
			mask[i] = '*'
		}
	}
	return string(mask)
}

// masked returns the names of a path, and its keys where no mask has a wildcard.
func masked(path []Step, a, b string) string {
	var out strings.Builder
	for i, s := range path {
		out.WriteString(s.Name)
		if a[i] != '*' && b[i] != '*' {
			out.WriteString(s.Key.String())
		}
		out.WriteByte(0)
	}
	return out.String()
}

func (x *places) add(path []Step, move int) {
	mask := maskOf(path)
	x.ends[mask] = append(x.ends[mask], end{path, move})
}

// each calls fn with the moves that have an endpoint which matches the path, some of them twice.
func (x *places) each(path []Step, fn func(move int)) {
	mask := maskOf(path)
	for of, ends := range x.ends {
		if len(of) != len(mask) {
			continue
		}
		pair := [2]string{of, mask}
		if x.found[pair] == nil {
			x.found[pair] = map[string][]int{}
			for _, e := range ends {
				key := masked(e.path, of, mask)
				x.found[pair][key] = append(x.found[pair][key], e.move)
			}
		}
		for _, i := range x.found[pair][masked(path, of, mask)] {
			fn(i)
		}
	}
}

// Place returns where the move finds what it moves, whatever the keys are: one of the Places of each resource that it
// covers.
func (m Move) Place() string {
	var names strings.Builder
	for _, s := range m.path(m.From) {
		names.WriteString(s.Name + "\x00")
	}
	return names.String()
}

// Places returns the modules that contain a resource, and the resource, for Move.Place.
func (r AbsResource) Places() []string {
	var out []string
	names := ""
	for _, s := range r.Module.Steps() {
		names += s.Name + "\x00"
		out = append(out, names)
	}
	return append(out, names+r.Resource.String()+"\x00")
}

// Only returns the key of the instances that the move covers; false if it covers those with any key.
func (m Move) Only() (Key, bool) { return m.From.Key, m.scope == movesInstance }
