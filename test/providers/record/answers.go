package record

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
)

// Record has the lines that providers have written, in their order.
type Record []Entry

// ReadFile returns the record at path. A missing file is an empty record: no provider was called. A line at the file's
// end that is still being written is left out.
func ReadFile(path string) (Record, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the record: %w", err)
	}
	var r Record
	for number := 1; ; number++ {
		line, rest, whole := bytes.Cut(text, []byte{'\n'})
		if !whole {
			return r, nil
		}
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("reading line %d of the record %s: %w", number, path, err)
		}
		r, text = append(r, e), rest
	}
}

// Call is one call of a provider. Its Entry is its first line; the id is the second line's, if there is one.
type Call struct {
	Entry
	Outcome Phase  // End, Error or Unfinished
	Failure string // why, if the outcome is Error
	// Ended is when the second line was written. An unfinished call's is the last sign of life of its process: that
	// is the least that can be said.
	Ended int64

	log *Log
}

// Filter chooses calls.
type Filter func(Call) bool

// Ops chooses calls of some operations.
func Ops(ops ...Op) Filter { return func(c Call) bool { return slices.Contains(ops, c.Op) } }

// Changes chooses the operations that change the world.
func Changes() Filter { return Ops(Create, Update, Delete) }

// Types chooses calls for some resource types, data sources or functions.
func Types(types ...string) Filter {
	return func(c Call) bool { return slices.Contains(types, c.Type) }
}

// Names chooses calls for objects of some names.
func Names(names ...string) Filter {
	return func(c Call) bool { return slices.Contains(names, c.Name) }
}

// Providers chooses calls of some providers.
func Providers(providers ...string) Filter {
	return func(c Call) bool { return slices.Contains(providers, c.Provider) }
}

// Pools chooses calls in some pools.
func Pools(pools ...string) Filter {
	return func(c Call) bool { return slices.Contains(pools, c.Pool) }
}

// Workers chooses calls at some workers.
func Workers(workers ...string) Filter {
	return func(c Call) bool { return slices.Contains(workers, c.Worker) }
}

// Outcomes chooses calls that ended in one of some ways.
func Outcomes(outcomes ...Phase) Filter {
	return func(c Call) bool { return slices.Contains(outcomes, c.Outcome) }
}

// also returns a new slice.
func also(filters []Filter, more ...Filter) []Filter { return slices.Concat(filters, more) }

// Calls returns the calls that pass all filters, in the order of their starts.
func (r Record) Calls(filters ...Filter) []Call {
	type key struct {
		pid  int
		call int64
	}
	lastSign := map[int]int64{}
	for _, e := range r {
		lastSign[e.PID] = max(lastSign[e.PID], e.Time)
	}
	var calls []Call
	open := map[key]int{} // to indexes of calls
	for _, e := range r {
		k := key{e.PID, e.Call}
		if e.Phase == Start {
			open[k] = len(calls)
			calls = append(calls, Call{Entry: e, Ended: lastSign[e.PID]})
			continue
		}
		i, ok := open[k]
		if !ok {
			continue // the record was cut at its beginning
		}
		delete(open, k)
		c := &calls[i]
		c.Outcome, c.Failure, c.Ended = e.Phase, e.Error, e.Time
		c.ID = cmp.Or(e.ID, c.ID)
	}
	calls = slices.DeleteFunc(calls, func(c Call) bool {
		return slices.ContainsFunc(filters, func(keep Filter) bool { return !keep(c) })
	})
	slices.SortStableFunc(calls, func(a, b Call) int { return cmp.Compare(a.Time, b.Time) })
	return calls
}

// Count returns how many calls of an operation were started, of those that pass all filters.
func (r Record) Count(op Op, filters ...Filter) int {
	return len(r.Calls(also(filters, Ops(op))...))
}

// ByName counts the calls that pass all filters for each object's name.
func (r Record) ByName(filters ...Filter) map[string]int {
	counts := map[string]int{}
	for _, c := range r.Calls(filters...) {
		counts[c.Name]++
	}
	return counts
}

// Created returns how many creations were finished for each name.
func (r Record) Created(filters ...Filter) map[string]int {
	return r.ByName(also(filters, Ops(Create), Outcomes(End))...)
}

// Repeated returns the names for which an operation was started more than once, in order. An engine that never starts
// a creation twice leaves it empty for Create.
func (r Record) Repeated(op Op, filters ...Filter) []string {
	var names []string
	for name, n := range r.ByName(also(filters, Ops(op))...) {
		if n > 1 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// MaxConcurrent returns the largest number of calls that ran at one moment, of those that pass all filters. A call
// that ends at the very moment at which another starts does not run beside it. For unfinished calls see Call.Ended.
func (r Record) MaxConcurrent(filters ...Filter) int {
	type edge struct {
		time  int64
		delta int
	}
	var edges []edge
	for _, c := range r.Calls(filters...) {
		edges = append(edges, edge{c.Time, 1}, edge{max(c.Ended, c.Time+1), -1})
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.delta, b.delta))
	})
	running, most := 0, 0
	for _, e := range edges {
		running += e.delta
		most = max(most, running)
	}
	return most
}

// Span is from the first start to the last end, in nanoseconds since 1970.
type Span struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Summary has the data of a record that most tests need, in one object.
type Summary struct {
	Calls         int                   `json:"calls"`
	Ops           map[Op]map[string]int `json:"ops"` // outcome ("unfinished" too) to number
	Created       map[string]int        `json:"created"`
	Repeated      map[Op][]string       `json:"repeated"` // of creations, updates and deletions
	MaxConcurrent map[string]int        `json:"max_concurrent"`
	Pools         map[string]int        `json:"pools"`
	Workers       map[string]int        `json:"workers"`
	Span          Span                  `json:"span"`
}

// Summarize answers all of a Summary for the calls that pass all filters. MaxConcurrent has the keys "all" and
// "changes", and one for each pool and provider.
func (r Record) Summarize(filters ...Filter) Summary {
	s := Summary{
		Ops: map[Op]map[string]int{}, Created: r.Created(filters...), Repeated: map[Op][]string{},
		MaxConcurrent: map[string]int{}, Pools: map[string]int{}, Workers: map[string]int{},
	}
	providers := map[string]bool{}
	s.Span.From = math.MaxInt64
	for _, c := range r.Calls(filters...) {
		s.Calls++
		if s.Ops[c.Op] == nil {
			s.Ops[c.Op] = map[string]int{}
		}
		s.Ops[c.Op][cmp.Or(string(c.Outcome), "unfinished")]++
		s.Pools[c.Pool]++
		s.Workers[c.Worker]++
		providers[c.Provider] = true
		s.Span.From, s.Span.To = min(s.Span.From, c.Time), max(s.Span.To, c.Ended)
	}
	if s.Calls == 0 {
		s.Span.From = 0
	}
	for _, op := range []Op{Create, Update, Delete} {
		if names := r.Repeated(op, filters...); names != nil {
			s.Repeated[op] = names
		}
	}
	s.MaxConcurrent["all"] = r.MaxConcurrent(filters...)
	s.MaxConcurrent["changes"] = r.MaxConcurrent(also(filters, Changes())...)
	for pool := range s.Pools {
		s.MaxConcurrent["pool "+pool] = r.MaxConcurrent(also(filters, Pools(pool))...)
	}
	for provider := range providers {
		s.MaxConcurrent["provider "+provider] = r.MaxConcurrent(also(filters, Providers(provider))...)
	}
	return s
}
