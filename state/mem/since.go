package mem

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

// subject identifies the subject of a difference.
type subject struct {
	instance, output string
	checks           bool
}

func subjectOf(d state.Difference) subject {
	if d.Output != "" || d.Checks {
		return subject{output: d.Output, checks: d.Checks}
	}
	return subject{instance: d.Instance.String()}
}

// Since returns the changes since a version. Unlike in the store on disk, the cost is proportional to the size of
// the state.
func (s *Store) Since(ctx context.Context, name, lineage string, serial uint64) (list []journal.Difference, err error) {
	err = s.look(ctx, func() error {
		w, err := s.workspace(name)
		if err != nil {
			return err
		}
		at := -1
		for i, v := range w.versions {
			if v.info.Serial != serial || v.info.Lineage != lineage {
				continue
			}
			if at >= 0 {
				return fmt.Errorf("several versions of workspace %q have serial %d: %w", name, serial,
					journal.ErrVersion)
			}
			at = i
		}
		then := state.Empty()
		switch {
		case at >= 0:
			then = w.versions[at].s
		case lineage != "" || serial != 0:
			return fmt.Errorf("serial %d of workspace %q: %w", serial, name, journal.ErrVersion)
		}
		// Each version is recorded for its changes; the last one remains.
		by, touchedBy := map[subject]journal.VersionInfo{}, map[subject]journal.VersionInfo{}
		var touched []addr.Instance
		touch := func(list []addr.Instance, by journal.VersionInfo) {
			for _, a := range list {
				touchedBy[subject{instance: a.String()}] = by
			}
			touched = append(touched, list...)
		}
		before := then
		for _, v := range w.versions[at+1:] {
			for _, d := range state.Differences(before, v.s) {
				by[subjectOf(d)] = v.info
				if d.Output == "" && !d.Checks {
					touched = append(touched, d.Instance)
				}
			}
			before = v.s
			touch(v.touched, v.info)
		}
		touch(w.touched, journal.VersionInfo{})
		for _, d := range state.Differences(before, w.now) {
			by[subjectOf(d)] = journal.VersionInfo{}
		}
		for id, changes := range w.noted {
			r, _, _ := s.disk.requests.Get(name, id)
			making := w.last().Clone()
			making.Apply(changes...)
			for _, d := range state.Differences(w.last(), making) {
				by[subjectOf(d)] = journal.VersionInfo{Run: r.Run, Who: r.Who}
			}
			touch(w.notedTouched[id], journal.VersionInfo{Run: r.Run, Who: r.Who})
		}
		for _, d := range state.Differences(then, w.now.Clone(), touched...) {
			who, changed := by[subjectOf(d)]
			if !changed {
				who = touchedBy[subjectOf(d)]
			}
			list = append(list, journal.Difference{Difference: d, By: who})
		}
		return nil
	})
	return list, err
}

// applyTo applies changes to a state, and returns the instances that were changed.
func applyTo(s *state.State, changes []state.Change) (touched []addr.Instance) {
	for _, c := range changes {
		var about []addr.Instance
		switch c := c.(type) {
		case state.SetObject:
			about = []addr.Instance{c.Addr}
		case state.MoveInstance:
			about = []addr.Instance{c.From, c.To}
		}
		before := make([]*state.Instance, len(about))
		for i, a := range about {
			if there := s.Instance(a); there != nil {
				before[i] = &state.Instance{Current: there.Current, Deposed: maps.Clone(there.Deposed)}
			}
		}
		s.Apply(c)
		for i, a := range about {
			if !s.Instance(a).Same(before[i]) && !slices.Contains(touched, a) {
				touched = append(touched, a)
			}
		}
	}
	return touched
}
