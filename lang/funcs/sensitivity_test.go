package funcs_test

import (
	"testing"

	"github.com/millipede-iac/millipede/lang/funcs"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/zclconf/go-cty/cty"
)

func TestSensitivity(t *testing.T) {
	same{
		"sensitive marks, nonsensitive takes away": {
			`[issensitive(sensitive("a")), issensitive(nonsensitive(secret))]`, `[true, false]`},
		"nonsensitive of what is not sensitive": {`nonsensitive("a")`, `"a"`},
		"nonsensitive leaves other marks":       {`nonsensitive(both)`, `substr("b0th${token}", 0, 4)`},
		"issensitive looks at the value only":   {`issensitive([secret])`, `false`},
		"nonsensitive too":                      {`issensitive(nonsensitive([secret])[0])`, `true`},
		"null can be sensitive":                 {`issensitive(sensitive(null))`, `true`},
		"what is unknown may still lose its mark": {`issensitive(undecided ? secret : "a")`,
			`strcontains(unknown, "x")`},
		"the length of a list says nothing of a member": {`issensitive(length([secret]))`, `false`},
		"the length of a sensitive list does":           {`issensitive(length(sensitive(["a"])))`, `true`},
		"can says nothing of what it could":             {`issensitive(can(secret))`, `false`},
		"a default that is not used leaves no mark":     {`issensitive(lookup({a = 1}, "a", secret))`, `false`},
		"a default that is used does":                   {`issensitive(lookup({a = 1}, "b", secret))`, `true`},
		"the key of a lookup marks what is found":       {`issensitive(lookup({hunter2 = 1}, secret))`, `true`},
		"a lookup leaves the marks of neighbours":       {`issensitive(lookup({a = secret, b = 1}, "b"))`, `false`},
		"coalesce marks by what it did not choose":      {`issensitive(coalesce("a", secret))`, `true`},
		"keys of an object with a secret inside":        {`issensitive(keys({a = secret}))`, `false`},
	}.prove(t, funcs.Options{})
}

func TestEphemeralasnullReplacesOnlyWhatIsEphemeral(t *testing.T) {
	eph := func(v cty.Value) cty.Value { return v.Mark(marks.Ephemeral) }
	for claim, c := range map[string]struct{ in, want cty.Value }{
		"a value that is not ephemeral": {cty.StringVal("a"), cty.StringVal("a")},
		"a value that is":               {eph(cty.StringVal("a")), cty.NullVal(cty.String)},
		"an attribute that is": {cty.ObjectVal(map[string]cty.Value{"a": eph(cty.True), "b": cty.True}),
			cty.ObjectVal(map[string]cty.Value{"a": cty.NullVal(cty.Bool), "b": cty.True})},
		"an element that is": {cty.ListVal([]cty.Value{eph(cty.Zero), cty.Zero}),
			cty.ListVal([]cty.Value{cty.NullVal(cty.Number), cty.Zero})},
		"a list that is": {eph(cty.ListVal([]cty.Value{cty.Zero})), cty.NullVal(cty.List(cty.Number))},
		"a null that is": {eph(cty.NullVal(cty.String)), cty.NullVal(cty.String)},
		"other marks stay": {eph(cty.StringVal("a").Mark(marks.Sensitive)),
			cty.NullVal(cty.String).Mark(marks.Sensitive)},
		"what is unknown stays unknown": {eph(cty.UnknownVal(cty.String).RefineNotNull()),
			cty.UnknownVal(cty.String)},
		"a secret that is not": {cty.StringVal("a").Mark(marks.Sensitive),
			cty.StringVal("a").Mark(marks.Sensitive)},
		"a value without a type":          {eph(cty.DynamicVal), cty.DynamicVal},
		"an unknown that is not may come": {cty.UnknownVal(cty.String).RefineNotNull(), cty.UnknownVal(cty.String)},
	} {
		t.Run(claim, func(t *testing.T) {
			got, err := funcs.Table(funcs.Options{})["ephemeralasnull"].Call([]cty.Value{c.in})
			if err != nil {
				t.Fatal(err)
			}
			if !got.RawEquals(c.want) {
				t.Fatalf("got %#v\nwant %#v", got, c.want)
			}
		})
	}
}
