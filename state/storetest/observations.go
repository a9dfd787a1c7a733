package storetest

import (
	"testing"

	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

func readsAreKept(t *testing.T, f Fixture) {
	s := open(t, f)
	a, b, c := instance("a").String(), instance("b").String(), instance("c").String()
	commit(t, s, journal.Commit{Changes: append(append(put("a", 1), put("b", 1)...), put("c", 1)...)})
	is(t, must(s.Reads(t.Context(), ws)).At(a).IsZero(), true)
	ok(t, s.NoteReads(t.Context(), ws, now(1), false, []string{a, b}))
	// A read that found a difference is not recorded, and instances that were never read stay so.
	ok(t, s.NoteReads(t.Context(), ws, now(2), true, []string{b, c}))
	commit(t, s, journal.Commit{EndVersion: true}) // without it, a crash would lose the observations
	s = f.Crash(s)
	closeLater(t, s)
	reads := must(s.Reads(t.Context(), ws))
	is(t, []any{reads.At(a), reads.At(b), reads.At(c).IsZero(), reads.At("other")}, []any{now(2), now(1), true, now(2)})
	ok(t, s.NoteReads(t.Context(), ws, now(3), false, []string{a, c}))
	commit(t, s, journal.Commit{Changes: []state.Change{state.MoveInstance{From: instance("a"), To: instance("d")}}})
	commit(t, s, journal.Commit{Changes: remove("b")})
	reads = must(s.Reads(t.Context(), ws))
	is(t, []any{reads.At(c), len(reads.Each), reads.All}, []any{now(3), 1, now(2)})
	ok(t, s.NoteReads(t.Context(), ws, now(4), true, nil))
	is(t, len(must(s.Reads(t.Context(), ws)).Each), 0)
	_, err := s.Reads(t.Context(), "nowhere")
	isError(t, err, journal.ErrNoWorkspace)
}

func verdictsAreKept(t *testing.T, f Fixture) {
	s := open(t, f)
	a, b, c := instance("a").String(), instance("b").String(), instance("c").String()
	commit(t, s, journal.Commit{Changes: append(append(put("a", 1), put("b", 1)...), put("c", 1)...)})
	is(t, len(must(s.Verdicts(t.Context(), ws))), 0)
	ok(t, s.NoteVerdicts(t.Context(), ws, map[string]journal.Verdict{a: {1}, b: {2}, c: {3}}))
	ok(t, s.NoteVerdicts(t.Context(), ws, map[string]journal.Verdict{b: {4}}))
	commit(t, s, journal.Commit{Changes: put("c", 2)})
	s = f.Crash(s)
	closeLater(t, s)
	is(t, must(s.Verdicts(t.Context(), ws)), map[string]journal.Verdict{a: {1}, b: {4}, c: {3}})
	commit(t, s, journal.Commit{Changes: append(remove("a"), put("b", 7)...)})
	ok(t, s.Replace(t.Context(), ws, "", after(put("b", 8)), journal.Because("state push")))
	is(t, must(s.Verdicts(t.Context(), ws)), map[string]journal.Verdict{b: {4}})
	_, err := s.Verdicts(t.Context(), "nowhere")
	isError(t, err, journal.ErrNoWorkspace)
}
