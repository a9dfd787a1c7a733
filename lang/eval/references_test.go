package eval

import (
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

func subjects(refs []Reference) string {
	var out []string
	for _, r := range refs {
		out = append(out, r.Subject.String())
	}
	return strings.Join(out, " ")
}

func TestReferencesOfABodyIncludeThoseOfDynamicBlocks(t *testing.T) {
	refs, diags := BodyReferences(parseBody(t, `
name = var.a
rows {
  must = var.b
  inner {
    must = var.c
  }
}
dynamic "rows" {
  for_each = var.d
  content {
    must = "${rows.value}${var.e}"
    dynamic "inner" {
      for_each = rows.value.x
      iterator = it
      content {
        must = "${it.value}${rows.key}${inner.y.z}"
      }
    }
  }
}
dynamic "map" {
  for_each = map.x.y
  labels   = [map.key, var.f]
  content {
    must = [for rows in var.g : rows.h]
  }
}
`), sink())
	noErrors(t, diags)
	if got, want := subjects(refs), "var.a var.b var.c var.d var.e inner.y map.x var.f var.g"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestReferencesCarryTheirKeys(t *testing.T) {
	for src, want := range map[string]struct {
		key          bool
		byRepetition bool
	}{
		`a_b.c[count.index].id`:         {true, true},
		`a_b.c[each.value.k]`:           {true, true},
		`data.a_b.c[each.key]`:          {true, true},
		`module.m[each.key].out`:        {true, true},
		`a_b.c[var.n + count.index].id`: {true, false},
		`a_b.c.id[count.index]`:         {},
		`a_b.c`:                         {},
		`a_b.c[*].id`:                   {},
		`[for i in [1] : a_b.c[i].id]`:  {},
		`a_b.c[uuid()].id`:              {},
		`local.c[count.index]`:          {},
	} {
		refs, diags := ExprReferences(parseExpr(t, src))
		noErrors(t, diags)
		i := slices.IndexFunc(refs, func(r Reference) bool {
			return strings.Contains(r.Subject.String(), ".c") || strings.Contains(r.Subject.String(), ".m")
		})
		r := refs[i]
		if (r.Key != nil) != want.key || r.KeyByRepetition != want.byRepetition {
			t.Errorf("%s: key %v, by repetition %v", src, r.Key != nil, r.KeyByRepetition)
		}
		if want.byRepetition {
			key, ok := r.InstanceKey(testScope(sinkData()), Repetition{CountIndex: val(7), EachKey: val("k"),
				EachValue: obj("k", "v")})
			if !ok || (key.String() != "[7]" && key.String() != `["k"]` && key.String() != `["v"]`) {
				t.Errorf("%s: instance key %v %v", src, key, ok)
			}
		}
	}
	refs, _ := ExprReferences(parseExpr(t, `a_b.c[3].id`))
	if key, ok := refs[0].InstanceKey(testScope(sinkData()), Once); !ok || key.String() != "[3]" {
		t.Errorf("a constant key is %v %v", key, ok)
	}
}

func TestProviderFunctionsAreFound(t *testing.T) {
	for _, body := range []hcl.Body{
		parseBody(t, `name = provider::p::upper(provider::q::alias::upper("x"))`),
		parseJSONBody(t, `{"name": "${provider::p::upper(provider::q::alias::upper(\"x\"))}"}`),
	} {
		tmpl := PrepareBody(body, sink())
		var got []string
		for _, c := range tmpl.Calls() {
			got = append(got, c.Function.String())
		}
		if strings.Join(got, " ") != "provider::p::upper provider::q::alias::upper" {
			t.Errorf("got %v", got)
		}
		v, diags := tmpl.Eval(testScope(sinkData()), Once, cty.NilVal)
		noErrors(t, diags)
		if !v.GetAttr("name").RawEquals(val("X")) {
			t.Errorf("got %#v", v.GetAttr("name"))
		}
	}
}
