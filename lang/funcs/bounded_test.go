package funcs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/funcs"
)

// A call of one of these took all memory, overflowed the stack, or did not end.
func TestFunctionsRefuseWhatWouldBeTooLarge(t *testing.T) {
	ctx := scope(funcs.Options{})
	numbers := make([]cty.Value, 1000)
	for i := range numbers {
		numbers[i] = cty.NumberIntVal(int64(i))
	}
	shared := cty.True
	for range 18 {
		shared = cty.TupleVal([]cty.Value{shared, shared})
	}
	million := make([]cty.Value, 600_000)
	for i := range million {
		million[i] = cty.True
	}
	text := func(v string) cty.Value { return cty.StringVal(v) }
	ctx.Variables["r"] = cty.TupleVal(numbers)
	ctx.Variables["shared"] = shared
	ctx.Variables["many"] = cty.ListVal(million)
	ctx.Variables["mib"] = text(strings.Repeat("x", 1<<20))
	ctx.Variables["lines"] = text(strings.Repeat("\n", 1<<10))
	ctx.Variables["digits"] = text(strings.Repeat("9", 4<<20))
	ctx.Variables["joined"] = text(strings.Repeat("x", 100<<20))
	ctx.Variables["percent"] = text(strings.Repeat("%", 50<<20))
	ctx.Variables["control"] = text(strings.Repeat("\x01", 30<<20))
	ctx.Variables["long"] = text(strings.Repeat("9", 90_000))
	ctx.Variables["great"] = cty.MustParseNumberVal("1e200000")
	ctx.Variables["deep"] = text(strings.Repeat("[", 3_000_000))
	ctx.Variables["bomb"] = text(yamlBomb(12))
	for expr, tooLarge := range map[string]bool{
		`setproduct(r, r, r)`: true, `setproduct(r, slice(r, 0, 5))`: false, `setproduct(r, [])`: false,
		`concat(many, many)`: true, `concat(r, r)`: false, `flatten([shared, shared, shared])`: true, `flatten([r, r])`: false,
		`jsonencode([shared, shared, shared])`: true, `yamlencode([shared, shared, shared])`: true, `jsonencode(r)`: false,
		`jsondecode(deep)`: true, `jsondecode("[[1]]")`: false, `yamldecode(deep)`: true, `yamldecode(bomb)`: true,
		`yamldecode("a: [&x 1, *x]")`: false,
		`range(2000000)`:              true, `range(1000)`: false,
		`format("%2000000s", "x")`: true, `format("%.2000000f", 1)`: true, `format("%1000s", "x")`: false,
		`formatlist("%1000000d", r)`: true, `formatlist("%d", r)`: false,
		`indent(1000000, lines)`: true, `indent(2, lines)`: false,
		`join(mib, [for x in r : "x"])`: true, `join(",", ["a", "b"])`: false,
		`replace(mib, "x", mib)`: true, `replace(mib, "/x/", mib)`: true, `replace(mib, "x", "yy")`: false,
		`tonumber(digits)`: true, `parseint(digits, 10)`: true, `parseint("ff", 16)`: false,
		`regex("(?: ?){990}c", mib)`: true, `regexall("(?: ?){990}c", mib)`: true, `replace(mib, "/(?: ?){990}c/", "")`: true,
		`length(regexall("[a-w]+[0-9]{1,20}", mib))`: false, `regex(join("|", [for i in r : mib]), "x")`: true,
		`base64encode(joined)`: true, `base64encode(mib)`: false, `urlencode(percent)`: true, `urlencode(mib)`: false,
		`jsonencode(percent)`: false, `jsonencode(control)`: true,
		`regex(mib, "x")`: true, `tonumber("1e600000000")`: true, `sum([digits])`: true, `format("%d", digits)`: true,
		`format("%s", digits)`:       false,
		`formatlist("%d", [digits])`: true, `jsondecode(digits)`: true, `jsondecode("[1e600000000]")`: true,
		`jsondecode("\"${digits}\"")`: false, `jsondecode("[${join(",", [for x in r : long])}]")`: true,
		`yamldecode(digits)`: true, `yamldecode("a: 1e600000000")`: true, `yamldecode("a: '1e600000000'")`: false,
		`yamldecode(join("_", [digits, 1]))`: true, `flatten([for i in slice(r, 0, 600) : r])`: true,
		`tostring(great)`: true, `jsonencode(great)`: true, `bcrypt("x", 17)`: true,
	} {
		_, diags := eval(t, ctx, expr)
		if diags.HasErrors() != tooLarge {
			t.Errorf("%s: %.300s", expr, diags)
		} else if tooLarge && strings.Contains(diags.Error(), "panic") {
			t.Errorf("%s panicked: %.300s", expr, diags)
		}
	}
}

// distinct compared each element with all others: a list of 600,000 took hours.
func TestDistinctOfALongListEnds(t *testing.T) {
	ctx := scope(funcs.Options{})
	numbers := make([]cty.Value, 20_000)
	for i := range numbers {
		numbers[i] = cty.StringVal(fmt.Sprint(i % 15_000))
	}
	ctx.Variables["long"] = cty.ListVal(numbers)
	v, diags := eval(t, ctx, `length(distinct(long))`)
	if diags.HasErrors() || !v.RawEquals(cty.NumberIntVal(15_000)) {
		t.Errorf("%#v %s", v, diags)
	}
}

func yamlBomb(levels int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range levels {
		fmt.Fprintf(&b, "a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	return b.String()
}
