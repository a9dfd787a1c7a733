package planning

import (
	"testing"

	"github.com/millipede-iac/millipede/lang/addr"
)

func targetsOf(t *testing.T, list ...string) (out []addr.Target) {
	t.Helper()
	for _, text := range list {
		parsed, diags := addr.ParseTarget(text)
		if diags.HasErrors() {
			t.Fatal(diags.Err())
		}
		out = append(out, parsed)
	}
	return out
}

func TestAPartialPlanCoversInstancesByTargetsDependenciesAndExcludes(t *testing.T) {
	resources := func(list ...string) map[addr.ConfigResource]bool {
		out := map[addr.ConfigResource]bool{}
		for _, text := range list {
			out[located(t, text).Config()] = true
		}
		return out
	}
	for sentence, c := range map[string]struct {
		scope          Scope
		at             string
		covered, named bool
	}{
		"a whole plan has everything":  {Scope{}, "t.a", true, true},
		"a target":                     {Scope{targets: targetsOf(t, "t.a[0]")}, "t.a[0]", true, true},
		"another instance of a target": {Scope{targets: targetsOf(t, "t.a[0]")}, "t.a[1]", false, false},
		"an instance in a module": {
			Scope{targets: targetsOf(t, "module.m")}, `module.m["x"].t.a`, true, true,
		},
		"a dependency of a target": {
			Scope{targets: targetsOf(t, "t.a"), needed: resources("t.b")}, "t.b[3]", true, false,
		},
		"a resource that no target depends on": {
			Scope{targets: targetsOf(t, "t.a"), needed: resources("t.b")}, "t.c", false, false,
		},
		"an excluded instance":               {Scope{excludes: targetsOf(t, "t.a[0]")}, "t.a[0]", false, false},
		"an instance beside an excluded one": {Scope{excludes: targetsOf(t, "t.a[0]")}, "t.a[1]", true, true},
		"a resource that depends on an excluded one": {
			Scope{excludes: targetsOf(t, "t.a"), dropped: resources("t.b")}, "t.b", false, false,
		},
		"an instance to read": {Scope{reads: map[addr.Instance]bool{located(t, "t.a"): true}}, "t.a", true, true},
		"another instance, when only some are read": {
			Scope{reads: map[addr.Instance]bool{located(t, "t.a"): true}}, "t.b", false, false,
		},
		"data, when only some instances are read": {
			Scope{reads: map[addr.Instance]bool{located(t, "t.a"): true}}, "data.t.b", true, true,
		},
	} {
		at := located(t, c.at)
		if covered, named := c.scope.Instance(at), c.scope.Deposed(at); covered != c.covered || named != c.named {
			t.Errorf("%s: covered %t, named %t", sentence, covered, named)
		}
	}
}
