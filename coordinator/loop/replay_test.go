package loop

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/test/stage/numbers"
	"github.com/millipede-iac/millipede/wire"
)

// logged is one step of a run.
type logged struct {
	at      time.Time
	in      Input
	actions []Action
}

// eventful returns a world in which most events happen: failures, hidden vertices, several operations each, a worker
// that becomes silent, an interrupt.
func eventful(t *testing.T, seed uint64) *world {
	p := numbers.Random(t, 60, seed)
	p.Lane, p.Stored, p.Ops = program.Safe, true, 1+int(seed%2)
	p.Hidden = func(v int) bool { return v%5 == 1 }
	p.Fails = func(v int) bool { return v == 40 }
	w := newWorld(t, seed, p)
	w.work = func(w *world, id wire.AttemptID) bool {
		if w.serial%17 != 0 {
			return true
		}
		w.claims[id] = wire.Claim{Nonce: "n-dead", Worker: "dead"}
		return false
	}
	if seed%3 == 0 {
		w.later(2*time.Second, func() { w.send(Interrupted{}) })
	}
	return w
}

func TestALogOfInputsReplayedGivesTheSameActions(t *testing.T) {
	for seed := range uint64(12) {
		w := eventful(t, seed)
		var ids []wire.AttemptID
		var settings Settings
		w.change = func(s *Settings) {
			make := s.Attempt
			s.Attempt = func() wire.AttemptID {
				id := make()
				ids = append(ids, id)
				return id
			}
			settings = *s
		}
		var log []logged
		w.log = func(at time.Time, in Input, actions []Action) { log = append(log, logged{at, in, actions}) }
		w.boot()
		w.finish()

		settings.Program = w.program.Again(func(int) uint64 { return 0 })
		settings.Attempt = func() wire.AttemptID {
			id := ids[0]
			ids = ids[1:]
			return id
		}
		again := New(settings)
		kinds := map[string]bool{}
		for i, step := range log {
			actions := slices.Clone(again.Step(step.at, step.in))
			if !reflect.DeepEqual(actions, step.actions) && len(actions)+len(step.actions) > 0 {
				t.Fatalf("seed %d, step %d, %T: the replay wants\n%+v\nthe run wanted\n%+v", seed, i, step.in,
					actions, step.actions)
			}
			for _, a := range actions {
				kinds[fmt.Sprintf("%T", a)] = true
			}
		}
		if !reflect.DeepEqual(again.Outcome(), w.loop.Outcome()) {
			t.Errorf("seed %d: the replay ends with %+v, the run with %+v", seed, again.Outcome(), w.loop.Outcome())
		}
		if len(kinds) < 8 {
			t.Errorf("seed %d: the run had no more than the actions %v", seed, kinds)
		}
	}
}

// The actions that informed views were closures over the loop's memory: a step could be neither compared nor sent.
func TestEveryActionIsPlainData(t *testing.T) {
	for _, a := range []Action{
		Prepare{}, Call{}, Complete{}, Commit{}, Publish{}, Ack{}, ReadClaim{}, Revoke{}, Declare{}, Resize{},
		Acquire{}, Withdraw{},
		Release{}, AskContention{}, FindBlockers{}, Control{}, Shown{},
	} {
		if at := behaviour(reflect.TypeOf(a), map[reflect.Type]bool{}); at != "" {
			t.Errorf("%T%s", a, at)
		}
	}
}

// behaviour returns the path of a part of a type that is not data; "" for none. It does not look behind interfaces, nor
// into the scope of a diagnostic, which is used for its snippet.
func behaviour(t reflect.Type, seen map[reflect.Type]bool) string {
	if seen[t] || t == reflect.TypeFor[hcl.EvalContext]() {
		return ""
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return " is a " + t.String()
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return behaviour(t.Elem(), seen)
	case reflect.Map:
		return behaviour(t.Key(), seen) + behaviour(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.NumField() {
			if at := behaviour(t.Field(f).Type, seen); at != "" {
				return "." + t.Field(f).Name + at
			}
		}
	}
	return ""
}
