package funcs_test

import (
	"testing"

	"github.com/millipede-iac/millipede/lang/funcs"
)

// pow computed whole numbers in 64-bit floats: the number had 53 bits, so sums were rounded to them, and the text of
// the number was the shortest that tells it from its neighbours in 53 bits. OpenTofu still computes so.
func TestWholeNumbersAreExactWhenTheyAreComputedAndWhenTheyAreWritten(t *testing.T) {
	same{
		"a power of two as text": {`tostring(pow(2, 60))`, `"1152921504606846976"`},
		"in a template":          {`"${pow(2, 63)}!"`, `"9223372036854775808!"`},
		"in JSON": {`jsonencode([pow(2, 63), -pow(2, 100)])`,
			`"[9223372036854775808,-1267650600228229401496703205376]"`},
		"in YAML": {`yamlencode([pow(2, 63)])`, `"- 9223372036854775808\n"`},
		"in a format": {`format("%d %s %v", pow(2, 63), pow(2, 63), pow(2, 53))`,
			`"9223372036854775808 9223372036854775808 9.007199254740992e+15"`},
		"as an element of text": {`join(",", [pow(2, 60)])`, `"1152921504606846976"`},
		"as a key":              {`{ (pow(2, 60)) = 1 }`, `{ "1152921504606846976" = 1 }`},
		"a power that no float has": {`[pow(10, 25), pow(-3, 61)]`,
			`[10000000000000000000000000, -127173474825648610542883299603]`},
		"a base that no float has": {`pow(9007199254740993, 1)`, `9007199254740993`},
		"a large power of one":     {`[pow(-1, 1000000000000000001), pow(0, 99999999999), pow(1, 1e300)]`, `[-1, 0, 1]`},
		"a sum beyond 53 bits":     {`pow(2, 60) + pow(2, 0)`, `1152921504606846977`},
		"a product beyond 64 bits": {`parseint("ffffffffffffffff", 16) * parseint("ffffffffffffffff", 16)`,
			`340282366920938463426481119284349108225`},
		"a sum beyond 64 bits": {`sum([for x in ["ffffffffffffffff", "ffffffffffffffff", "1"] : parseint(x, 16)])`,
			`36893488147419103231`},
		"a remainder beyond 64 bits":  {`123456789012345678901234567891 % 10`, `1`},
		"the greatest":                {`tostring(max(pow(2, 60), 1))`, `"1152921504606846976"`},
		"a float that is whole":       {`tostring(pow(4, 30.5))`, `"2305843009213693952"`},
		"decoded from JSON":           {`tostring(jsondecode("9223372036854775809"))`, `"9223372036854775809"`},
		"decoded from YAML":           {`tostring(yamldecode("9223372036854775809"))`, `"9223372036854775809"`},
		"converted from text":         {`tostring(tonumber("9223372036854775809"))`, `"9223372036854775809"`},
		"and it is equal to its text": {`pow(2, 63) == 9223372036854775808`, `true`},
		"also in 512 bits": {`tostring(pow(2, 511) + 1)`,
			`"67039039649712985497870124991029230637396829102961966888617807` +
				`21860882015036773488400937149083451713845015929093243025426876941405973284973216824503042049"`},
		"and what is longer is rounded once": {`tonumber(tostring(pow(7, 300))) == pow(7, 300)`, `true`},
	}.prove(t, funcs.Options{})
}

func TestNumbers(t *testing.T) {
	same{
		"ceil rounds up, also below zero":    {`[ceil(1.2), ceil(-1.2)]`, `[2, -1]`},
		"floor rounds down, also below zero": {`[floor(1.7), floor(-1.2)]`, `[1, -2]`},
		"abs works beyond 64 bits": {`abs(-123456789012345678901234567890)`,
			`123456789012345678901234567890`},
		"strings that hold numbers count as numbers": {`max("2", 10)`, `10`},
		"fractional powers go through 64-bit floats": {`pow(2, -2)`, `0.25`},
		"log takes any base":                         {`log(8, 2)`, `3`},
		"signum tells the sign":                      {`[signum(-3), signum(0), signum(9)]`, `[-1, 0, 1]`},
		"parseint reads bases up to 62": {`[parseint("ff", 16), parseint("Z", 62), parseint("-101", 2)]`,
			`[255, 61, -5]`},
		"parseint reads numbers beyond 64 bits": {`parseint("99999999999999999999999", 10)`,
			`99999999999999999999999`},
		"a sensitive base makes the number sensitive":  {`parseint("10", sensitive(2))`, `sensitive(2)`},
		"an unknown number is never null":              {`parseint(unknown, 10) == null`, `false`},
		"a power beyond what 64 bits hold is infinite": {`pow(10, 400)`, `1 / 0`},
	}.prove(t, funcs.Options{})
	refused{
		"a fraction has no signum": {`signum(0.5)`, badCall, "whole number", ""},
		"a digit that the base lacks": {`parseint("12", 2)`, badArgument,
			`"12" is not a whole number in base 2`, ""},
		"a base of 1":         {`parseint("1", 1)`, badArgument, "from 2 to 62", ""},
		"a base in fractions": {`parseint("1", 2.5)`, badArgument, "whole number", ""},
		"parseint of a number": {`parseint(10, 10)`, badArgument, "a string is required, not number",
			""},
		"parseint of a secret hides it": {`parseint(secret, 10)`, badArgument, "(sensitive value) is not a " +
			"whole number", "hunter2"},
		"parseint of a token hides it": {`parseint(token, 10)`, badArgument, "(ephemeral value)", "t0k3n"},
		"parseint of what is both hides it": {`parseint(both, 10)`, badArgument, "(ephemeral sensitive value)",
			"b0th"},
		"the logarithm of a negative number":  {`log(-1, 10)`, badCall, "not defined", ""},
		"a fractional power of a negative":    {`pow(-8, 0.5)`, badCall, "not defined", ""},
		"max of a list that is not expanded":  {`max([1, 2])`, badArgument, "number required", ""},
		"max of nothing":                      {`max()`, badCall, "must pass at least one number", ""},
		"more arguments than there are names": {`abs(1, 2)`, "Too many function arguments", "", ""},
	}.prove(t, funcs.Options{})
}
