package mem

import (
	"context"
	"maps"
	"time"

	"github.com/millipede-iac/millipede/state/journal"
)

// Reads returns when the instances were last read.
func (s *Store) Reads(ctx context.Context, name string) (reads journal.Reads, err error) {
	err = s.look(ctx, func() error {
		w, err := s.workspace(name)
		if err == nil {
			reads = journal.Reads{All: w.reads.All, Each: maps.Clone(w.reads.Each)}
		}
		return err
	})
	return reads, err
}

// NoteReads records that instances were read.
func (s *Store) NoteReads(ctx context.Context, name string, at time.Time, all bool, list []string) error {
	return s.change(ctx, "NoteReads", name, func() error {
		w, err := s.workspace(name)
		if err == nil {
			w.reads.Note(at, all, list)
		}
		return err
	})
}

// Verdicts returns the verdicts about instances.
func (s *Store) Verdicts(ctx context.Context, name string) (list map[string]journal.Verdict, err error) {
	err = s.look(ctx, func() error {
		w, err := s.workspace(name)
		if err == nil {
			list = maps.Clone(w.verdicts)
		}
		return err
	})
	return list, err
}

// NoteVerdicts records verdicts.
func (s *Store) NoteVerdicts(ctx context.Context, name string, list map[string]journal.Verdict) error {
	return s.change(ctx, "NoteVerdicts", name, func() error {
		w, err := s.workspace(name)
		if err != nil {
			return err
		}
		if w.verdicts == nil {
			w.verdicts = map[string]journal.Verdict{}
		}
		maps.Copy(w.verdicts, list)
		return nil
	})
}

// forget removes the observations about instances that no longer exist.
func (w *workspace) forget(before []string) {
	now := map[string]bool{}
	for _, a := range w.now.Addrs() {
		now[a.String()] = true
	}
	for _, a := range before {
		if !now[a] {
			delete(w.reads.Each, a)
			delete(w.verdicts, a)
		}
	}
}

// instances returns the addresses of all instances.
func (w *workspace) instances() []string {
	var out []string
	for _, a := range w.now.Addrs() {
		out = append(out, a.String())
	}
	return out
}
