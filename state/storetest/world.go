package storetest

import (
	"fmt"
	"math/rand/v2"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// world generates random changes, the same ones for the same seed.
type world struct{ rnd *rand.Rand }

func newWorld(seed uint64) world { return world{rand.New(rand.NewPCG(seed, 0))} }

// The parts of addresses are chosen such that their order and their common prefixes are difficult.
var (
	names = []string{"a", "a-b", "ab", "b"}
	keys  = []addr.Key{addr.NoKey, addr.IntKey(0), addr.IntKey(10), addr.StringKey(""), addr.StringKey("x"),
		addr.StringKey("é\"${\n]")}
	modules = []addr.ModuleInstance{
		addr.RootInstance,
		addr.RootInstance.Child("m", addr.NoKey),
		addr.RootInstance.Child("m", addr.IntKey(1)).Child("n", addr.StringKey("k.[")),
	}
	deposed  = []state.DeposedKey{"", "", "", "0a0b0c0d", "ffffffff"}
	statuses = []state.Status{state.Ready, state.Ready, state.Tainted}
	modes    = []addr.Mode{addr.Managed, addr.Managed, addr.Data}
)

func pick[T any](w world, list []T) T { return list[w.rnd.IntN(len(list))] }

// changes returns n changes that can follow s in this order.
func (w world) changes(s *state.State, n int) []state.Change {
	s = s.Clone()
	var out []state.Change
	for len(out) < n {
		c := w.change(s)
		s.Apply(c)
		out = append(out, c)
	}
	return out
}

func (w world) change(s *state.State) state.Change {
	switch w.rnd.IntN(10) {
	case 0:
		return state.SetOutput{Name: pick(w, names), Output: w.output()}
	case 1:
		return state.SetChecks{Checks: w.checks()}
	case 2:
		if all := s.Addrs(); len(all) > 0 {
			if m := (state.MoveInstance{From: pick(w, all), To: w.instance()}); s.Instance(m.To) == nil {
				return m
			}
		}
	case 3, 4:
		if all := s.Addrs(); len(all) > 0 {
			return state.SetObject{Addr: pick(w, all), Deposed: pick(w, deposed)}
		}
	}
	a := w.instance()
	return state.SetObject{Addr: a, Deposed: pick(w, deposed), Provider: w.provider(), Object: w.object()}
}

func (w world) instance() addr.Instance {
	r := addr.Resource{Mode: pick(w, modes), Type: "test_thing", Name: pick(w, names)}
	return r.Absolute(pick(w, modules)).Instance(pick(w, keys))
}

func (w world) provider() addr.ProviderInstance {
	p := addr.ProviderInstance{Provider: addr.DefaultProvider("test")}
	if w.rnd.IntN(2) == 0 {
		p.Alias, p.Key, p.Module = "west", pick(w, keys), pick(w, modules)
	}
	return p
}

func (w world) object() *state.Object {
	o := &state.Object{
		Status: pick(w, statuses), SchemaVersion: int64(w.rnd.IntN(3)),
		CreateBeforeDestroy: w.rnd.IntN(3) == 0, SkipDestroy: w.rnd.IntN(5) == 0,
	}
	switch w.rnd.IntN(8) {
	case 0:
		o.Flatmap = map[string]string{"id": "x", "list.#": "0"}
	case 1:
		o.Status = state.InDoubt
		o.Doubt = &state.Doubt{
			Run: "r", Attempt: fmt.Sprint(w.rnd.IntN(9)), Worker: "w", Pool: "eu", Operation: "create", Started: now(1),
			Reason: "lost", Sent: []byte(`{"a":1}`), Before: state.Ready,
		}
	default:
		o.Attrs = fmt.Appendf(nil, `{"n":%d,"s":"é<"}`, w.rnd.IntN(1000))
	}
	if w.rnd.IntN(3) == 0 {
		o.Private = []byte{0, 255, byte(w.rnd.IntN(256))}
	}
	if w.rnd.IntN(3) == 0 {
		o.Identity, o.IdentityVersion = []byte(`{"id":"i"}`), int64(w.rnd.IntN(3))
	}
	if w.rnd.IntN(3) == 0 {
		o.Sensitive = []cty.Path{
			cty.GetAttrPath("a").IndexString("k").GetAttr("b"),
			cty.GetAttrPath("list").IndexInt(w.rnd.IntN(9)),
		}
	}
	var on []state.Dependency
	for _, name := range names {
		for _, m := range modules {
			if w.rnd.IntN(4) == 0 {
				on = append(on, state.DependOn(addr.Resource{Mode: addr.Managed, Type: "test_thing",
					Name: name}.In(m.Module())))
			}
		}
	}
	o.Dependencies = state.DependenciesOn(on...)
	return o
}

func (w world) output() *state.Output {
	values := []cty.Value{
		cty.StringVal("s"),
		cty.MustParseNumberVal("7227701560655103598123456789.125"),
		cty.NullVal(cty.DynamicPseudoType),
		cty.NullVal(cty.List(cty.String)),
		cty.ObjectVal(map[string]cty.Value{"a": cty.True, "b": cty.SetVal([]cty.Value{cty.StringVal("x")})}),
		cty.TupleVal([]cty.Value{cty.EmptyObjectVal, cty.MapValEmpty(cty.Number)}),
	}
	if w.rnd.IntN(4) == 0 {
		return nil
	}
	return &state.Output{Value: pick(w, values), Sensitive: w.rnd.IntN(2) == 0}
}

func (w world) checks() []state.CheckResult {
	var out []state.CheckResult
	for i := range w.rnd.IntN(3) {
		out = append(out, state.CheckResult{
			Kind: "check", Config: fmt.Sprint("check.c", i), Status: state.CheckFail,
			Objects: []state.CheckObject{{Address: fmt.Sprint("check.c", i), Status: state.CheckFail,
				Failures: []string{"no"}}},
		})
	}
	return out
}
