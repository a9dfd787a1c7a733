package addr

import (
	"slices"
	"sort"
)

// SortedInstances sorts a list of instances as OpenTofu lists them, in place, and removes duplicates.
func SortedInstances(list []Instance) []Instance {
	slices.SortFunc(list, Instance.Compare)
	return slices.Compact(list)
}

// Compare orders instances as OpenTofu lists them.
func (i Instance) Compare(o Instance) int {
	switch {
	case i == o:
		return 0
	case i.Less(o):
		return -1
	}
	return 1
}

// ContainsInstance reports whether a sorted list has an instance.
func ContainsInstance(sorted []Instance, i Instance) bool {
	at := sort.Search(len(sorted), func(n int) bool { return !sorted[n].Less(i) })
	return at < len(sorted) && sorted[at] == i
}
