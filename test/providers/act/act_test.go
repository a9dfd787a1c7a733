package act

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/test/providers/record"
)

// stage returns a stage with a separate record, and the recorded lines.
func stage(t *testing.T) (*Stage, func() []record.Call) {
	t.Helper()
	env := Env{Record: filepath.Join(t.TempDir(), "record"), Worker: "w", Pool: "p"}
	s, err := env.Open("fleet", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s.Complaints = io.Discard
	s.Exit = func(code int) { t.Errorf("the process exits with %d", code) }
	t.Cleanup(func() {
		if err := s.Log.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, func() []record.Call {
		r, err := record.ReadFile(env.Record)
		if err != nil {
			t.Fatal(err)
		}
		return r.Calls()
	}
}

var creation = record.Entry{Op: record.Create, Type: "thing", Name: "a"}

func TestACallIsOnTheRecord(t *testing.T) {
	s, calls := stage(t)
	err := s.Do(t.Context(), creation, Script{}, func(e *record.Entry) error {
		e.ID = "a-1"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := calls(); len(got) != 1 || got[0].Outcome != record.End || got[0].ID != "a-1" || got[0].Worker != "w" ||
		got[0].Pool != "p" || got[0].Provider != "fleet" {
		t.Errorf("the record has %+v", got)
	}
}

func TestTroubleComesBeforeOrAfterTheEffect(t *testing.T) {
	for moment, happens := range map[string]bool{"create": false, "create_after": true} {
		s, calls := stage(t)
		did := false
		err := s.Do(t.Context(), creation, Script{Fail: []string{moment}}, func(*record.Entry) error {
			did = true
			return nil
		})
		if err == nil || did != happens {
			t.Errorf("%s: the error is %v, the effect happened: %t, want %t", moment, err, did, happens)
		}
		if got := calls(); got[0].Outcome != record.Error || got[0].Failure != err.Error() {
			t.Errorf("%s: the record has %+v", moment, got)
		}
	}
}

func TestACrashLeavesAStartWithoutAnEnd(t *testing.T) {
	s, calls := stage(t)
	type exited struct{ code int }
	s.Exit = func(code int) { panic(exited{code}) }
	defer func() {
		if got := recover(); got != (exited{ExitCode}) {
			t.Errorf("the process ended with %v", got)
		}
		if got := calls(); len(got) != 1 || got[0].Outcome != record.Unfinished {
			t.Errorf("the record has %+v", got)
		}
	}()
	_ = s.Do(t.Context(), creation, Script{Crash: []string{"create"}}, func(*record.Entry) error { return nil })
}

func TestTroubleStopsAfterItsTimes(t *testing.T) {
	s, _ := stage(t)
	failures := 0
	for range 5 {
		if s.Do(t.Context(), creation, Script{Fail: []string{"create"}, Times: 2},
			func(*record.Entry) error { return nil }) != nil {
			failures++
		}
	}
	if failures != 2 {
		t.Errorf("%d failures, want 2", failures)
	}
}

func TestSleepAndHangHeedCancellation(t *testing.T) {
	for name, script := range map[string]Script{
		"sleep": {Last: map[record.Op]time.Duration{record.Create: time.Hour}},
		"hang":  {Hang: []string{"create"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := stage(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			before := time.Now()
			err := s.Do(ctx, creation, script, func(*record.Entry) error { return errors.New("the effect happened") })
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			if lasted := time.Since(before); lasted != time.Minute {
				t.Errorf("%s: lasted %s", name, lasted)
			}
		})
	}
}

func TestTheDeafSleepOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := stage(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		before := time.Now()
		script := Script{Last: map[record.Op]time.Duration{record.Create: time.Hour}, Deaf: true}
		if err := s.Do(ctx, creation, script, func(*record.Entry) error { return nil }); err != nil {
			t.Error(err)
		}
		if lasted := time.Since(before); lasted != time.Hour {
			t.Errorf("lasted %s", lasted)
		}
	})
}

func TestOnlyMomentsAreMoments(t *testing.T) {
	if err := CheckMoments([]string{"create", "delete_after"}, record.Create, record.Delete); err != nil {
		t.Error(err)
	}
	if err := CheckMoments([]string{"renew"}, record.Create); err == nil || !strings.Contains(err.Error(), "renew") {
		t.Errorf("renew: %v", err)
	}
}

func TestKnobsMayHaveAnotherName(t *testing.T) {
	s := Script{Fail: []string{"read", "read_after"}, Last: map[record.Op]time.Duration{record.Read: 5}}.As(
		record.Read, record.Lookup)
	if got := strings.Join(s.Fail, " "); got != "lookup lookup_after" || s.Last[record.Lookup] != 5 {
		t.Errorf("the script is %+v", s)
	}
}
