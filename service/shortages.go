package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/timelines"
	"github.com/millipede-iac/millipede/service/turn"
)

// Wait says what a run waits for. The zero value means nothing. For a run in progress whose operations wait, Kind is
// that of the first of the shortages.
type Wait struct {
	turn.Wait
	// Shortages are the limits and pools that operations of the run wait for.
	Shortages []Shortage
}

// Shortage is a limit or a pool for which operations of a run in progress wait, because others have all of it.
type Shortage struct {
	// Kind is "permit" (of a limit), "place" (a slot in a pool whose workers are busy), "worker" (of a pool
	// without a live one) or "region" (of a pool, which is cut off).
	Kind string
	// Name is the name of the limit or of the pool.
	Name  string
	Since time.Time
	// Operations is how many operations wait for it; Example is the address of one.
	Operations int
	Example    string
	// Slots is the size of a limit; 0 if unknown. InDoubt are the addresses of the operations in doubt that hold
	// its permits.
	Slots   int
	InDoubt []string
	// Halt is the drain of a pool without a worker; nil if the pool is not drained.
	Halt *record.Halt
	// Held are the permits of a limit, or the places in a pool, by run. They are known only to Waits.
	Held []Permit
}

// shortages returns what the operations of the current phase of a run wait for.
func (s *Pools) shortages(r *record.Run) (out []Shortage, err error) {
	b := s.timelines.Recorder(timelines.CurrentPhase(r).ID)
	if b == nil {
		return nil, nil
	}
	begun, list := b.Shortages()
	if len(list) == 0 {
		return nil, nil
	}
	drains, err := s.drains()
	if err != nil {
		return nil, err
	}
	for _, x := range list {
		l := Shortage{Kind: x.Kind, Name: x.Name, Since: time.UnixMilli(begun + x.Since).UTC(),
			Operations: x.Vertices, Example: x.Example, Slots: x.Slots, InDoubt: x.InDoubt}
		if x.Kind == "worker" {
			l.Halt = drains[x.Name]
		}
		out = append(out, l)
	}
	return out, nil
}

// shortageWait returns the wait of a run whose operations lack something; the zero value if they lack nothing.
func shortageWait(list []Shortage) Wait {
	if len(list) == 0 {
		return Wait{}
	}
	var text []string
	since := list[0].Since
	for _, x := range list {
		text = append(text, x.String())
		if x.Since.Before(since) {
			since = x.Since
		}
	}
	return Wait{turn.Wait{Kind: list[0].Kind, On: list[0].Name, Since: since, Text: strings.Join(text, "; ")}, list}
}

// String describes it for people.
func (x Shortage) String() string {
	n := "1 operation waits"
	if x.Operations != 1 {
		n = fmt.Sprintf("%d operations wait", x.Operations)
	}
	switch {
	case x.Halt != nil:
		return n + " for " + drainedText(x.Name, x.Halt)
	case x.Kind == "region":
		return fmt.Sprintf("%s for the region of the pool %s, which is cut off", n, x.Name)
	case x.Kind == "worker":
		return fmt.Sprintf("%s for a worker of the pool %s, which has none", n, x.Name)
	case x.Kind == "place":
		return fmt.Sprintf("%s for a slot in the pool %s, which is full", n, x.Name)
	}
	text := fmt.Sprintf("%s for a permit of the limit %s", n, x.Name)
	if len(x.InDoubt) > 0 {
		text += fmt.Sprintf(", of which operations in doubt hold %d", len(x.InDoubt))
	}
	return text
}

// addHolders completes a wait with the runs that hold what it lacks. The details of a run are shown to actors who
// may see it.
func (s *Pools) addHolders(ctx context.Context, a *rights.Actor, w *Wait) error {
	held := func(x Shortage) bool { return x.Kind == "permit" || x.Kind == "place" }
	if s.capacity == nil || !slices.ContainsFunc(w.Shortages, held) {
		return nil
	}
	all, err := s.capacity.Limits(ctx)
	if err != nil {
		return err
	}
	known := map[string]*RunView{}
	return tables.Translated(s.store.View(func(tx *store.Tx) error {
		for i := range w.Shortages {
			x := &w.Shortages[i]
			at := slices.IndexFunc(all, func(l Limit) bool {
				return x.Kind == "place" && l.Pool == x.Name || x.Kind == "permit" && l.Name == x.Name
			})
			if at < 0 {
				continue
			}
			x.Slots, x.Held = all[at].Slots, all[at].Held
			for j := range x.Held {
				x.Held[j].Of = s.runOfEngine(tx, a, x.Held[j].Run, known)
			}
		}
		return nil
	}))
}

// Holder is a run with its permits of one limit.
type Holder struct {
	Of      *RunView  // nil if the actor may not see it, or if it is a run of another program
	Permits int       // how many it holds
	Since   time.Time // when it got the first one of them
}

// Holders returns the holders of permits, in the order of their first permits. The runs that the actor may not see
// are distinguished by their runs of the engine.
func Holders(all []Permit) (out []Holder) {
	at := map[string]int{}
	for _, p := range all {
		i, known := at[p.Run]
		if !known {
			i = len(out)
			at[p.Run] = i
			out = append(out, Holder{Of: p.Of, Since: p.Since})
		}
		out[i].Permits++
		if p.Since.Before(out[i].Since) {
			out[i].Since = p.Since
		}
	}
	return out
}
