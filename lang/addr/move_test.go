package addr

import "testing"

func move(t *testing.T, in, from, to string) Move {
	t.Helper()
	f, diags := ParseMoveEndpoint(traversal(t, from))
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	o, diags := ParseMoveEndpoint(traversal(t, to))
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	m, ok := NewMove(ModuleOf(splitPath(in)...), f, o)
	if !ok {
		t.Fatalf("%s and %s are no pair", from, to)
	}
	return m
}

func splitPath(in string) []string {
	if in == "" {
		return nil
	}
	return Module(in).Path()
}

func TestMovesRenameInstances(t *testing.T) {
	for name, c := range map[string]struct{ in, from, to, before, after string }{
		"a resource keeps the keys of its instances": {"", "a.b", "a.c", "a.b[2]", "a.c[2]"},
		"a resource without a key moves too":         {"", "a.b", "a.c", "a.b", "a.c"},
		"another resource stays":                     {"", "a.b", "a.c", "a.d", ""},
		"a resource moves into a module": {"", "a.b", "module.m.a.b", `a.b["x"]`,
			`module.m.a.b["x"]`},
		"a resource moves out of a module":          {"", "module.m.a.b", "a.b", "module.m.a.b", "a.b"},
		"a step without a key means just that":      {"", "module.m.a.b", "a.b", "module.m[0].a.b", ""},
		"an instance gets a key":                    {"", "a.b", "a.b[0]", "a.b", "a.b[0]"},
		"a move that gives a key leaves other keys": {"", "a.b", "a.b[0]", "a.b[1]", ""},
		"an instance loses its key":                 {"", "a.b[0]", "a.b", "a.b[0]", "a.b"},
		"an instance changes its key":               {"", "a.b[0]", `a.b["x"]`, "a.b[0]", `a.b["x"]`},
		"an instance moves into a module instance": {"", "a.b[1]", `module.m["k"].a.b`, "a.b[1]",
			`module.m["k"].a.b`},
		"a call takes all its instances": {"", "module.m", "module.n", `module.m["x"].a.b[1]`,
			`module.n["x"].a.b[1]`},
		"a call takes what is below": {"", "module.m", "module.n", "module.m.module.o.a.b",
			"module.n.module.o.a.b"},
		"a module instance gets a key": {"", "module.m", "module.m[0]", "module.m.a.b",
			"module.m[0].a.b"},
		"a module instance with a key is not the one": {"", "module.m", "module.m[0]", "module.m[1].a.b", ""},
		"a module moves into another": {"", "module.m", "module.n.module.o", "module.m[0].a.b",
			"module.n.module.o[0].a.b"},
		"a nested call moves out": {"", "module.m.module.n", "module.n",
			"module.m.module.n[0].a.b", "module.n[0].a.b"},
		"a move in a module applies to each instance": {"m", "a.b", "a.c", `module.m["x"].a.b`,
			`module.m["x"].a.c`},
		"a move in a module leaves the root":              {"m", "a.b", "a.c", "a.b", ""},
		"a move in a module leaves the same names deeper": {"m", "a.b", "a.c", "module.m.module.m.a.b", ""},
		"a move of a call in a module applies to each": {"m", "module.n", "module.o[1]",
			"module.m[3].module.n.a.b", "module.m[3].module.o[1].a.b"},
		"a data source is not the managed resource of that": {"", "a.b", "a.c", "data.a.b", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := move(t, c.in, c.from, c.to).MoveInstance(mustInstance(t, c.before))
			if ok != (c.after != "") {
				t.Fatalf("covered: %v, as %s", ok, got)
			}
			if ok && got.String() != c.after {
				t.Errorf("moved to %s, want %s", got, c.after)
			}
			if !ok && got.String() != c.before {
				t.Errorf("not covered, yet changed to %s", got)
			}
		})
	}
}

func TestAModuleAndAResourceAreNoPair(t *testing.T) {
	a, _ := ParseMoveEndpoint(traversal(t, "module.m"))
	b, _ := ParseMoveEndpoint(traversal(t, "a.b"))
	if _, ok := NewMove(RootModule, a, b); ok {
		t.Error("accepted")
	}
}

func TestAMoveOfAResourceMovesNoModule(t *testing.T) {
	m := move(t, "", "module.m.a.b", "a.b")
	if got, ok := m.MoveModule(ModuleInstanceOf(Step{"m", NoKey})); ok {
		t.Error(got)
	}
}

func TestMovesThatFollowEachOther(t *testing.T) {
	for name, c := range map[string]struct {
		first, second [2]string
		chain         bool
	}{
		"the same resource":            {[2]string{"a.b", "a.c"}, [2]string{"a.c", "a.d"}, true},
		"another resource":             {[2]string{"a.b", "a.c"}, [2]string{"a.x", "a.d"}, false},
		"the same instance":            {[2]string{"a.b[0]", "a.c"}, [2]string{"a.c", "a.c[1]"}, true},
		"a whole resource is no part":  {[2]string{"a.b[0]", "a.c"}, [2]string{"a.c", "a.d"}, false},
		"the same call":                {[2]string{"module.m", "module.n"}, [2]string{"module.n", "module.o"}, true},
		"a call and its instance":      {[2]string{"module.m", "module.n"}, [2]string{"module.n[0]", "module.o"}, true},
		"modules chain with no object": {[2]string{"module.m", "module.n"}, [2]string{"module.n.a.b", "a.b"}, false},
	} {
		a, b := move(t, "", c.first[0], c.first[1]), move(t, "", c.second[0], c.second[1])
		if got := b.ChainsFrom(a); got != c.chain {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// An inner module was moved after its outer one, when it was no longer there: module.m.a.b, which was to become a.z,
// was moved along into module.n.
func TestMovesInsideOfOthersComeFirst(t *testing.T) {
	outer := move(t, "", "module.m", "module.n")
	for from, want := range map[string]bool{
		"module.m.a.b": true, "module.m[1].a.b[0]": true, "module.m.module.o": true,
		"module.x.a.b": false, "a.b": false,
	} {
		to := "a.z"
		if from == "module.m.module.o" {
			to = "module.z"
		}
		inner := move(t, "", from, to)
		if got := outer.DependsOn(inner); got != want {
			t.Errorf("%s comes first: %v", from, got)
		}
		if inner.DependsOn(outer) {
			t.Errorf("%s comes last, too", from)
		}
	}
	instance, resource := move(t, "", "a.b[0]", "a.c"), move(t, "", "a.b", "a.d")
	if !resource.DependsOn(instance) || instance.DependsOn(resource) {
		t.Error("an instance is moved out of its resource first")
	}
	if move(t, "", "a.b", "a.c").DependsOn(resource) {
		t.Error("a resource is not inside of itself")
	}
	within := move(t, "", "module.m.a.b[1]", "module.n.a.b[3]")
	if !outer.DependsOn(within) || !within.DependsOn(outer) {
		t.Error("what is moved with its module into the same module, but elsewhere, has no order")
	}
	own := move(t, "m", "a.b", "a.c")
	rekeyed := move(t, "", "module.m", "module.m[0]")
	if !own.DependsOn(rekeyed) || rekeyed.DependsOn(own) {
		t.Error("what a module says of itself comes after the new key of the module")
	}
}

func TestRemovedBlocksNameWholeThings(t *testing.T) {
	for text, want := range map[string]string{
		"a.b":                   "",
		"module.m":              "",
		"module.m.module.n.a.b": "",
		"module.m[0]":           "Module instance address with keys is not allowed",
		"module.m.module.n[0]":  "Module instance address with keys is not allowed",
		"a.b[0]":                "Resource instance address with keys is not allowed",
		"a.b[0].c":              "Invalid address",
		"data.a.b":              "Data source address is not allowed",
		"ephemeral.a.b":         "Ephemeral resource address is not allowed",
		"a":                     "Invalid address",
	} {
		got, diags := ParseRemoveTarget(traversal(t, text))
		if summaries(diags) != want {
			t.Errorf("%s: %q, want %q", text, summaries(diags), want)
		}
		if want == "" && got.String() != text {
			t.Errorf("%s prints as %s", text, got)
		}
	}
	got, _ := ParseRemoveTarget(traversal(t, "module.m.module.n.a.b"))
	if m := got.ModuleFrom(ModuleOf("l")); m != ModuleOf("l", "m", "n") {
		t.Errorf("the address is relative to the module of the block, and not in %s", m)
	}
}
