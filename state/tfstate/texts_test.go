package tfstate

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

func writeTexts(t *testing.T, of *Texts, s *state.State) string {
	t.Helper()
	var out bytes.Buffer
	if err := of.Write(&out, s, "1.12.6"); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestVersionsThatAreWrittenOneAfterTheOtherAreThoseThatAreWrittenAlone(t *testing.T) {
	provider := addr.ProviderInstance{Provider: addr.DefaultProvider("t")}
	other := addr.ProviderInstance{Provider: addr.DefaultProvider("u"), Alias: "x"}
	keyed := addr.ProviderInstance{Provider: addr.DefaultProvider("t"), Key: addr.StringKey("eu")}
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 0))
		var texts Texts
		s := everything()
		for step := range 25 {
			s = s.Clone()
			for range random.IntN(4) {
				at := instance(fmt.Sprintf("r%d", random.IntN(3)), addr.IntKey(random.IntN(4)))
				set := state.SetObject{Addr: at, Provider: provider, Object: &state.Object{Status: state.Ready,
					Attrs: fmt.Appendf(nil, `{"n":%d}`, random.IntN(100))}}
				switch random.IntN(8) {
				case 0:
					set.Object = nil
				case 1:
					set.Deposed = "0badcafe"
				case 2:
					set.Provider = other
				case 3:
					set.Provider = keyed
				case 4:
					set.Object.Status = state.InDoubt
					set.Object.Doubt = &state.Doubt{Operation: "update", Attempt: "a"}
				case 5:
					if to := instance("moved", addr.IntKey(step)); s.Instance(at) != nil && s.Instance(to) == nil {
						s.Apply(state.MoveInstance{From: at, To: to})
						continue
					}
				}
				s.Apply(set)
			}
			s.Serial++
			if got, want := writeTexts(t, &texts, s), write(t, s, Compact); got != want {
				t.Fatalf("seed %d, step %d: %s", seed, step, firstDifference(got, want))
			}
		}
	}
}

// Each of many runs on one state encoded all of its objects at its end, although it had changed only a few.
func TestOnlyObjectsThatHaveChangedAreEncodedAgain(t *testing.T) {
	provider := addr.ProviderInstance{Provider: addr.DefaultProvider("t")}
	s := state.Empty()
	object := func(text string) *state.Object {
		return &state.Object{Status: state.Ready, Attrs: []byte(`{"x":"` + text + `"}`)}
	}
	old := map[string]*state.Object{}
	for _, name := range []string{"a", "b"} {
		for k := range 2 {
			o := object("old")
			old[fmt.Sprint(name, k)] = o
			s.Apply(state.SetObject{Addr: instance(name, addr.IntKey(k)), Provider: provider, Object: o})
		}
	}
	var texts Texts
	writeTexts(t, &texts, s)
	for _, o := range old {
		copy(o.Attrs, `{"x":"OLD"}`) // nobody does that; it shows who reads the objects again
	}
	next := s.Clone()
	next.Apply(state.SetObject{Addr: instance("a", addr.IntKey(1)), Provider: provider, Object: object("new")})
	got := writeTexts(t, &texts, next)
	if strings.Count(got, `"old"`) != 3 || strings.Count(got, `"new"`) != 1 || strings.Contains(got, `"OLD"`) {
		t.Errorf("after one change the text is %s", got)
	}
}
