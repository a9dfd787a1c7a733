package mem_test

import (
	"errors"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/state/log"
	"github.com/millipede-iac/millipede/state/log/logtest"
	"github.com/millipede-iac/millipede/state/log/mem"
)

func TestTheLogInMemoryKeepsTheContract(t *testing.T) {
	logtest.Run(t, func(*testing.T) func(*testing.T) log.Transport {
		l := mem.New()
		return func(*testing.T) log.Transport { return l.Join() }
	})
}

func TestAnEntryWithoutAMajorityIsStoredLateOrNever(t *testing.T) {
	for claim, stores := range map[string]bool{"late": true, "never": false} {
		t.Run(claim, func(t *testing.T) {
			l := mem.New()
			alice, bob := l.Join(), l.Join()
			l.Freeze()
			if _, err := alice.Append(t.Context(), "one", 0, []byte("first")); !errors.Is(err, log.ErrUnanswered) {
				t.Errorf("%v", err)
			}
			for _, m := range []*mem.Member{alice, bob} {
				if _, err := m.Append(t.Context(), "one", 0, []byte("second")); !errors.Is(err, log.ErrUndecided) {
					t.Errorf("%v", err)
				}
			}
			l.Thaw(func(string) bool { return stores })
			_, data, err := bob.Next(t.Context(), "one", 0, 0)
			if stores && string(data) != "first" || !stores && !errors.Is(err, log.ErrNone) {
				t.Errorf("after the thaw: %q, %v", data, err)
			}
		})
	}
}

func TestAServerThatIsCutOffReadsWhatWasAndStoresNothing(t *testing.T) {
	l := mem.New()
	alice, bob := l.Join(), l.Join()
	if _, err := alice.Append(t.Context(), "one", 0, []byte("first")); err != nil {
		t.Fatal(err)
	}
	bob.Cut()
	if _, err := alice.Append(t.Context(), "one", 1, []byte("second")); err != nil {
		t.Fatal(err)
	}
	if _, err := bob.Append(t.Context(), "one", 1, []byte("bob's")); !errors.Is(err, log.ErrUnanswered) {
		t.Errorf("%v", err)
	}
	var refused *log.Refused
	if _, err := bob.Append(t.Context(), "one", 2, []byte("bob's")); !errors.As(err, &refused) || refused.Last != 1 {
		t.Errorf("%v", err)
	}
	if _, _, err := bob.Next(t.Context(), "one", 2, time.Millisecond); !errors.Is(err, log.ErrNone) {
		t.Errorf("%v", err)
	}
	bob.Heal()
	if _, data, err := bob.Next(t.Context(), "one", 2, 0); err != nil || string(data) != "second" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestALossUsesSequencesAgain(t *testing.T) {
	l := mem.New()
	m := l.Join()
	for i := range uint64(3) {
		if _, err := m.Append(t.Context(), "one", i, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if lost := l.Lose(2); lost != 2 {
		t.Errorf("%d entries were lost", lost)
	}
	if sequence, err := m.Append(t.Context(), "one", 1, []byte("y")); sequence != 2 || err != nil {
		t.Errorf("%d, %v", sequence, err)
	}
	m.Silence(1)
	if _, err := m.Append(t.Context(), "one", 2, []byte("z")); !errors.Is(err, log.ErrUnanswered) {
		t.Errorf("%v", err)
	}
	if _, all := l.Entries("one"); len(all) != 3 || string(all[2]) != "z" {
		t.Errorf("%q", all)
	}
}
