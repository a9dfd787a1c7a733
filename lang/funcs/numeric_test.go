package funcs_test

import (
	"testing"

	"github.com/millipede-iac/millipede/lang/funcs"
)

func TestNumbers(t *testing.T) {
	same{
		"ceil rounds up, also below zero":    {`[ceil(1.2), ceil(-1.2)]`, `[2, -1]`},
		"floor rounds down, also below zero": {`[floor(1.7), floor(-1.2)]`, `[1, -2]`},
		"abs works beyond 64 bits": {`abs(-123456789012345678901234567890)`,
			`123456789012345678901234567890`},
		"strings that hold numbers count as numbers": {`max("2", 10)`, `10`},
		"pow goes through 64-bit floats":             {`pow(2, 100)`, `1267650600228229401496703205376`},
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
