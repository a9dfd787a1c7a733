package syntax_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/millipede-iac/millipede/lang/syntax"
)

var digits = strings.Repeat("9", 2*syntax.MaxDigits)

// Reading the digits of a number takes time with their square, and nothing interrupts it: a file of 10 MB took minutes,
// and one of 64 MB hours. A number with a great exponent took hundreds of MiB as soon as anything was added to it, and
// hours to become text.
func TestNumbersInATextAreRefusedAtTheirPlace(t *testing.T) {
	for _, number := range []string{digits, "0." + digits, "1e600000000", "1E+600000", "2.5e-600000",
		strings.Repeat(strings.Repeat("1", 90_000)+" + ", 125) + "1"} {
		_, diags := syntax.ParseConfig([]byte("\na = [f("+number+")]\n"), "a.tf", hcl.InitialPos)
		refused(t, number, diags)
		if len(diags) > 0 && diags[0].Subject.Start.Line != 2 {
			t.Errorf("%.30s...: it is at %s", number, diags[0].Subject)
		}
		_, diags = syntax.ParseTraversalAbs([]byte("a["+number+"]"), "", hcl.InitialPos)
		refused(t, number, diags)
		_, diags = syntax.ParseJSON([]byte(`{"a":"${`+number+`}"}`), "a.tf.json")
		refused(t, number, diags)
		list := "[" + strings.ReplaceAll(strings.ToLower(number), " + ", ",") + "]"
		_, diags = syntax.ParseJSON([]byte(`{"a":`+list+`}`), "a.tf.json")
		refused(t, number, diags)
	}
	for _, fine := range []string{"1e1000", "1e-999999999", "123456789.123456789", `"` + digits + `"`, `"1e600000000"`,
		"a.b1e600000000", "# 1e600000000"} {
		if _, diags := syntax.ParseConfig([]byte("a = ["+fine+"\n]\n"), "a.tf", hcl.InitialPos); diags.HasErrors() {
			t.Errorf("%.30s: %.300s", fine, diags)
		}
		if strings.HasPrefix(fine, `"`) {
			if _, diags := syntax.ParseJSON([]byte(`{"a":`+fine+`}`), "a.tf.json"); diags.HasErrors() {
				t.Errorf("%.30s: %.300s", fine, diags)
			}
		}
	}
}

func evaluate(t *testing.T, expression string) (cty.Value, hcl.Diagnostics) {
	t.Helper()
	e, diags := syntax.ParseExpression([]byte(expression), "a.tf", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatalf("%s: %v", expression, diags)
	}
	text := cty.StringVal(digits)
	return e.Value(&hcl.EvalContext{
		Variables: map[string]cty.Value{"digits": text, "great": cty.StringVal("1e600000000"), "word": cty.StringVal("a"),
			"list": cty.TupleVal([]cty.Value{text}), "map": cty.MapVal(map[string]cty.Value{"1e600000000": cty.True}),
			"each": cty.ObjectVal(map[string]cty.Value{"key": cty.StringVal("1e600000000")}), "secret": text.Mark("secret"), "none": cty.UnknownVal(cty.String),
			"long": cty.StringVal(digits[:syntax.MaxDigits])},
		Functions: map[string]function.Function{"abs": stdlib.AbsoluteFunc, "max": stdlib.MaxFunc, "upper": stdlib.UpperFunc,
			"join": stdlib.JoinFunc, "numbers": function.New(&function.Spec{
				Params: []function.Parameter{{Name: "list", Type: cty.List(cty.Number)}}, Type: function.StaticReturnType(cty.Bool),
				Impl: func([]cty.Value, cty.Type) (cty.Value, error) { return cty.True, nil },
			})},
	})
}

// The same texts as operands, arguments and indexes: the language reads them as numbers without a word.
func TestTextsThatBecomeNumbersAreRefusedBeforeTheyAreRead(t *testing.T) {
	for _, expression := range []string{"1 + digits", "digits * 2", "-digits", "digits > 1", "1 <= secret", "great + 1",
		"abs(digits)", "abs(great)", `abs("${digits}")`, "max(1, digits)", "max(1, list...)", "abs(secret)", "[1][digits]",
		"[1][great]", "list[great]", `[1]["1e600000000"]`, `list["1e600000000"]`, `list["1E-600000000"]`, "list[each.key]",
		`[for a in ["1e600000000"] : list[a]]`, `upper("a")[great]`, "([1])[great]",
		"numbers(list)", "[for x in list : abs(x)]", `[for a in [1] : a if great > 1]`} {
		_, diags := evaluate(t, expression)
		if len(diags) != 1 || !strings.Contains(diags[0].Detail, "more than 100000 digits") || !syntax.Exceeds(diags[0]) {
			t.Errorf("%s: %.300s", expression, diags)
		}
	}
	for _, fine := range []string{"digits == 1", `"${digits}"`, "upper(digits)", "upper(great)", `"1" + "2"`, "abs(none)",
		`join("", [digits, great])`, "{ (great) = 1 }[great]", "true ? digits : 1",
		`map["1e600000000"]`, "map[great]", `{ "1e600000000" = 1 }["1e600000000"]`, "map[each.key]",
		`{ for k, v in map : k => v }[great]`, "(map)[great]", `{ a = map }.a["1e600000000"]`, "abs(long)", "list[0]"} {
		if _, diags := evaluate(t, fine); diags.HasErrors() {
			t.Errorf("%s: %.300s", fine, diags)
		}
	}
}

// Each multiplication doubles the digits: forty of them in one expression took all memory.
func TestAProductOfNumbersIsMeasuredBeforeTheNextOne(t *testing.T) {
	product := "[1e60000]"
	for range 20 {
		product = "[for x in " + product + " : x * x]"
	}
	for _, expression := range []string{product, "1e90000 * 1e90000 > 1", "1e90000 / 1e-90000 > 1"} {
		_, diags := evaluate(t, expression)
		if !strings.Contains(diags.Error(), "more than 100000 digits") {
			t.Errorf("%.50s: %.300s", expression, diags)
		}
	}
	if v, diags := evaluate(t, "6 * 7 / 2"); diags.HasErrors() || !v.RawEquals(cty.NumberIntVal(21)) {
		t.Errorf("%#v, %s", v, diags)
	}
}

// A number of 100,000 digits takes 40 ms to read: a loop over it took as long as it liked.
func TestALoopReadsLongNumbersForALimitedTime(t *testing.T) {
	for _, expression := range []string{"abs(long) + x", "long + x"} {
		_, diags := evaluate(t, "[for x in ["+strings.Repeat("1,", 100)+"] : "+expression+"]")
		if len(diags) != 1 || diags[0].Summary != "Text too long" {
			t.Errorf("%s: %.300s", expression, diags)
		}
	}
}

func TestExpressionsAreKeysOfMaps(t *testing.T) {
	for _, expression := range []string{"a[b]", "a[f(b)]", "1 + a", "a * a", "f(a, b...)", `"${a}${b}"`, "[for x in a : f(x)]"} {
		e, diags := syntax.ParseExpression([]byte(expression), "a.tf", hcl.InitialPos)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		seen := map[hcl.Expression]bool{e: true}
		hclsyntax.VisitAll(e, func(n hclsyntax.Node) hcl.Diagnostics {
			if part, ok := n.(hclsyntax.Expression); ok {
				seen[part] = true
			}
			return nil
		})
		if len(seen) < 2 {
			t.Errorf("%s: %d parts", expression, len(seen))
		}
	}
}

func TestAConversionIsMeasuredAtEveryDepth(t *testing.T) {
	text := cty.StringVal(digits)
	object := cty.ObjectVal(map[string]cty.Value{"a": text, "b": cty.StringVal("1")})
	number := cty.Object(map[string]cty.Type{"a": cty.Number})
	for name, c := range map[string]struct {
		value   cty.Value
		want    cty.Type
		refused bool
	}{
		"a text":                {text, cty.Number, true},
		"a text that stays one": {text, cty.String, false},
		"a list":                {cty.ListVal([]cty.Value{text}), cty.List(cty.Number), true},
		"a list that stays one": {cty.ListVal([]cty.Value{text}), cty.Set(cty.String), false},
		"a tuple":               {cty.TupleVal([]cty.Value{text}), cty.Set(cty.Number), true},
		"an element of a tuple": {cty.TupleVal([]cty.Value{cty.True, text}),
			cty.Tuple([]cty.Type{cty.Bool, cty.Number}), true},
		"an attribute":                 {object, number, true},
		"an element of a map":          {cty.MapVal(map[string]cty.Value{"a": text}), number, true},
		"an object that becomes a map": {object, cty.Map(cty.Number), true},
		"an attribute that is dropped": {object, cty.Object(map[string]cty.Type{"b": cty.Number}), false},
		"a mark":                       {cty.ListVal([]cty.Value{text.Mark(1)}).Mark(2), cty.List(cty.Number), true},
		"an unknown text":              {cty.UnknownVal(cty.String), cty.Number, false},
		"null":                         {cty.NullVal(cty.List(cty.String)), cty.List(cty.Number), false},
		"any type":                     {object, cty.DynamicPseudoType, false},
	} {
		if err := syntax.CheckConversion(c.value, c.want); (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
