package state

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
)

var (
	thing     = addr.Resource{Mode: addr.Managed, Type: "test_thing", Name: "a"}.Absolute(addr.RootInstance)
	one       = thing.Instance(addr.IntKey(1))
	two       = thing.Instance(addr.IntKey(2))
	elsewhere = addr.Resource{Mode: addr.Managed, Type: "test_thing", Name: "b"}.Absolute(addr.RootInstance.Child("m",
		addr.StringKey("k"))).Instance(addr.NoKey)
	provider = addr.ProviderConfig{Provider: addr.DefaultProvider("test")}.Instance(addr.RootInstance, addr.NoKey)
	object   = &Object{Status: Ready, Attrs: []byte(`{"n":1}`)}
)

func put(a addr.Instance, key DeposedKey) Change {
	return SetObject{Addr: a, Deposed: key, Provider: provider, Object: object}
}

func after(changes ...Change) *State {
	s := Empty()
	s.Apply(changes...)
	return s
}

func TestWhatHasNothingInItDisappears(t *testing.T) {
	s := after(put(one, ""), put(one, "00000001"), put(two, ""))
	s.Apply(SetObject{Addr: one})
	if s.Instance(one) == nil {
		t.Error("the instance is gone, although it has a deposed object")
	}
	s.Apply(SetObject{Addr: one, Deposed: "00000001"})
	if s.Instance(one) != nil || s.Instance(two) == nil {
		t.Errorf("there is %v", s.Addrs())
	}
	s.Apply(SetObject{Addr: two}, SetObject{Addr: two}, SetObject{Addr: elsewhere})
	if !s.IsEmpty() || len(s.Resources) != 0 {
		t.Errorf("there is %v", s.Resources)
	}
}

func TestAMoveTakesEverythingAlong(t *testing.T) {
	s := after(put(one, ""), put(one, "00000001"))
	p := provider
	p.Key = addr.StringKey("west")
	s.Apply(SetObject{Addr: one, Provider: p, Object: object}, MoveInstance{From: one, To: elsewhere})
	if s.Object(elsewhere, "") == nil || s.Object(elsewhere, "00000001") == nil || len(s.Resources) != 1 ||
		s.ProviderOf(elsewhere) != p {
		t.Errorf("there is %v with the provider %s", s.Addrs(), s.ProviderOf(elsewhere))
	}
}

func TestAnImpossibleMoveIsABug(t *testing.T) {
	for claim, m := range map[string]MoveInstance{
		"of nothing":              {From: elsewhere, To: two},
		"to an occupied address":  {From: one, To: two},
		"of a key that is absent": {From: thing.Instance(addr.IntKey(9)), To: elsewhere},
	} {
		t.Run(claim, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it did not panic")
				}
			}()
			after(put(one, ""), put(two, "")).Apply(m)
		})
	}
}

func TestACloneAndItsOriginalDoNotDisturbEachOther(t *testing.T) {
	checks := SetChecks{[]CheckResult{{Kind: "check", Config: "check.c", Status: CheckPass}}}
	s := after(put(one, ""), put(one, "00000001"), SetOutput{Name: "o", Output: &Output{Value: cty.True}}, checks)
	s.Lineage, s.Serial, s.EngineVersion = "l", 7, "v"
	c := s.Clone()
	if !c.SameContent(s) || c.Lineage != "l" || c.Serial != 7 || c.EngineVersion != "v" {
		t.Errorf("the clone is %+v", c)
	}
	c.Apply(put(one, "00000002"), put(two, ""), SetObject{Addr: one}, SetOutput{Name: "o"}, SetChecks{})
	if !s.SameContent(after(put(one, ""), put(one, "00000001"), SetOutput{Name: "o", Output: &Output{Value: cty.True}},
		checks)) {
		t.Errorf("the original became %+v", s)
	}
}

func TestAddressesAreSorted(t *testing.T) {
	data := addr.Resource{Mode: addr.Data, Type: "z", Name: "z"}.Absolute(addr.RootInstance).Instance(addr.NoKey)
	s := after(put(elsewhere, ""), put(thing.Instance(addr.StringKey("x")), ""), put(thing.Instance(addr.IntKey(10)),
		""), put(two, ""), put(data, ""))
	want := `[data.z.z test_thing.a[2] test_thing.a[10] test_thing.a["x"] module.m["k"].test_thing.b]`
	if got := fmt.Sprint(s.Addrs()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Objects that differ in any field are not equal. New fields must be added to Equal.
func TestObjectsThatDifferInAnythingAreNotEqual(t *testing.T) {
	full := func() *Object {
		return &Object{
			Status: InDoubt, SchemaVersion: 1, Attrs: []byte("{}"), Flatmap: map[string]string{"a": "b"},
			Sensitive: []cty.Path{cty.GetAttrPath("a")}, Private: []byte{1}, Identity: []byte("{}"), IdentityVersion: 1,
			Dependencies: DependenciesOn(DependOn(thing.Config())), CreateBeforeDestroy: true, SkipDestroy: true,
			Doubt: &Doubt{
				Run: "r", Attempt: "a", Worker: "w", Pool: "p", Operation: "create",
				Started: time.Unix(1, 0), Reason: "x",
				Sent: []byte("{}"), Before: Ready, Answer: &Answer{Known: []byte("{}"), Private: []byte{1},
					Raw: []byte{1}},
			},
		}
	}
	if !full().Equal(full()) {
		t.Fatal("an object is not equal to itself")
	}
	differ := func(of string, n int, clear func(o *Object) reflect.Value) {
		for i := range n {
			o := full()
			f := clear(o).Field(i)
			if f.IsZero() {
				t.Errorf("%s field %d is not set by the test", of, i)
			}
			f.SetZero()
			if o.Equal(full()) || full().Equal(o) {
				t.Errorf("without %s.%s it is equal", of, clear(o).Type().Field(i).Name)
			}
		}
	}
	differ("Object", reflect.TypeFor[Object]().NumField(),
		func(o *Object) reflect.Value { return reflect.ValueOf(o).Elem() })
	differ("Doubt", reflect.TypeFor[Doubt]().NumField(),
		func(o *Object) reflect.Value { return reflect.ValueOf(o.Doubt).Elem() })
	differ("Answer", reflect.TypeFor[Answer]().NumField(),
		func(o *Object) reflect.Value { return reflect.ValueOf(o.Doubt.Answer).Elem() })
	if full().Equal(nil) || (*Object)(nil).Equal(full()) || !(*Object)(nil).Equal(nil) {
		t.Error("nothing is equal to something")
	}
}

func TestStatesThatDifferInAnythingHaveOtherContent(t *testing.T) {
	p := provider
	p.Alias = "west"
	base := func() *State {
		return after(put(one, ""), SetOutput{Name: "o", Output: &Output{Value: cty.True}}, SetChecks{[]CheckResult{
			{Kind: "check", Config: "check.c", Status: CheckPass,
				Objects: []CheckObject{{Address: "check.c", Status: CheckPass}}},
		}})
	}
	for claim, change := range map[string]Change{
		"an instance more": put(two, ""),
		"a deposed object": put(one, "00000001"),
		"an instance less": SetObject{Addr: one},
		"another provider": SetObject{Addr: one, Provider: p, Object: object},
		"another object": SetObject{Addr: one, Provider: provider, Object: &Object{Status: Tainted,
			Attrs: object.Attrs}},
		"a sensitive value": SetOutput{Name: "o", Output: &Output{Value: cty.True, Sensitive: true}},
		"another value":     SetOutput{Name: "o", Output: &Output{Value: cty.False}},
		"an output less":    SetOutput{Name: "o"},
		"no checks":         SetChecks{},
		"a failed check": SetChecks{[]CheckResult{
			{Kind: "check", Config: "check.c", Status: CheckPass,
				Objects: []CheckObject{{Address: "check.c", Status: CheckPass, Failures: []string{"x"}}}},
		}},
	} {
		s := base()
		s.Apply(change)
		if s.SameContent(base()) || base().SameContent(s) {
			t.Errorf("%s makes no difference", claim)
		}
	}
	s := base()
	s.Serial, s.Lineage, s.EngineVersion = 9, "l", "v"
	if !s.SameContent(base()) {
		t.Error("the serial makes a difference")
	}
}

// A state that Terraform has written contains its registry, whose packages are not available to OpenTofu's users:
// init looked for them there, and failed in every directory that came from Terraform.
func TestObjectsOfTerraformsProvidersBelongToOpenTofusUnlessTheConfigurationNamesThem(t *testing.T) {
	old := addr.Provider{Host: addr.PredecessorHost, Namespace: "hashicorp", Type: "test"}
	from := addr.ProviderConfig{Provider: old}.Instance(addr.RootInstance, addr.StringKey("west"))
	s := after(SetObject{Addr: one, Provider: from, Object: object}, SetObject{Addr: one, Deposed: "00000001",
		Provider: from, Object: object})
	if changes := Succession(s, func(p addr.Provider) bool { return p == old }); changes != nil {
		t.Errorf("the configuration names the provider, and there are changes: %v", changes)
	}
	s.Apply(Succession(s, func(addr.Provider) bool { return false })...)
	want := from
	want.Provider = addr.DefaultProvider("test")
	if got := s.ProviderOf(one); got != want || s.Object(one, "00000001") == nil || s.Object(one, "") == nil {
		t.Errorf("the provider is %s, want %s", got, want)
	}
	if changes := Succession(s, func(addr.Provider) bool { return false }); changes != nil {
		t.Errorf("a state that was taken over is to be changed again: %v", changes)
	}
}

// A copy shares its content with the original: a change of one must not affect the other.
func TestACopyAndItsOriginalGoTheirOwnWays(t *testing.T) {
	changes := map[string]Change{
		"an object is put":         SetObject{Addr: one, Provider: provider, Object: &Object{Status: Tainted}},
		"another instance is put":  put(thing.Instance(addr.IntKey(3)), ""),
		"a deposed object is put":  put(one, "00000002"),
		"a deposed object goes":    SetObject{Addr: one, Deposed: "00000001"},
		"an instance goes":         SetObject{Addr: two},
		"an instance is moved":     MoveInstance{From: two, To: elsewhere},
		"an instance is moved to":  MoveInstance{From: two, To: thing.Instance(addr.IntKey(4))},
		"an output is put":         SetOutput{Name: "o", Output: &Output{Value: cty.True}},
		"an output goes":           SetOutput{Name: "p"},
		"results of checks change": SetChecks{},
	}
	begin := []Change{put(one, ""), put(one, "00000001"), put(two, ""), SetOutput{Name: "p", Output: &Output{
		Value: cty.True}}, SetChecks{Checks: []CheckResult{{Config: "check.c"}}}}
	for sentence, change := range changes {
		t.Run(sentence, func(t *testing.T) {
			original, want := after(begin...), after(begin...)
			c := original.Clone()
			c.Apply(change)
			if !original.SameContent(want) {
				t.Errorf("the original changes with its copy: %v", Differences(want, original))
			}
			if c.SameContent(original) {
				t.Error("the copy does not change")
			}
			other := original.Clone()
			original.Apply(change)
			if !other.SameContent(want) {
				t.Errorf("the copy changes with its original: %v", Differences(want, other))
			}
		})
	}
}
