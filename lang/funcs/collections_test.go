package funcs_test

import (
	"testing"

	"github.com/millipede-iac/millipede/lang/funcs"
)

func TestCollections(t *testing.T) {
	same{
		"alltrue holds of nothing, anytrue does not": {`[alltrue([]), anytrue([])]`, `[true, false]`},
		"null is not true": {`[alltrue([true, null]), anytrue([null, true])]`,
			`[false, true]`},
		"alltrue waits for what is unknown": {`alltrue([undecided, false])`,
			`strcontains(unknown, "x")`},
		"anytrue needs one only": {`anytrue([undecided, true])`, `true`},
		"anytrue waits when none is known": {`anytrue([undecided, false])`,
			`strcontains(unknown, "x")`},
		"coalesce skips null and empty strings":    {`coalesce(null, "", "a", "b")`, `"a"`},
		"coalesce converts to the common type":     {`coalesce(null, 5, "a")`, `"5"`},
		"coalesce waits for what may be empty":     {`coalesce(unknown, "a") == null`, `false`},
		"coalesce makes maps of differing objects": {`coalesce({a = 1}, {b = 2})`, `tomap({a = 1})`},
		"contains finds null": {`[contains(["a", null], null), contains(["a"], null), contains([], null), ` +
			`contains(tolist(["a", null]), null), contains(toset(["a"]), null)]`, `[true, false, false, true, false]`},
		"contains works on lists, sets and tuples": {`[contains(["a", 1], 1), contains(toset(["a"]), "b")]`,
			`[true, false]`},
		"index gives the first place":     {`index(["b", "a", "a"], "a")`, `1`},
		"index waits for what is unknown": {`index([unknown], "a") == null`, `false`},
		"length counts elements, attributes, characters": {
			`[length(toset([1, 1])), length({a = 1, b = 2}), length("e\u0301a")]`, `[1, 2, 2]`},
		"length of an unknown list is never null":      {`length(ids) == null`, `false`},
		"length of what has no type yet is never null": {`length(untyped) == null`, `false`},
		"lookup finds attributes and elements": {
			`[lookup({a = 1}, "a", "x"), lookup(tomap({a = "y"}), "a")]`, `[1, "y"]`},
		"lookup gives the default its own type for objects": {`lookup({a = 1}, "b", "x")`, `"x"`},
		"lookup converts the default for maps":              {`lookup(tomap({a = "y"}), "b", 1)`, `"1"`},
		"lookup gives a null that is there":                 {`lookup({a = null}, "a", "x")`, `null`},
		"lookup takes null as a default":                    {`lookup(tomap({a = "y"}), "b", null)`, `tostring(null)`},
		"matchkeys keeps what has a wanted key": {`matchkeys(["a", "b", "c"], ["x", "y", "x"], ["x"])`,
			`tolist(["a", "c"])`},
		"matchkeys compares across types": {`matchkeys(["a", "b"], ["1", "2"], [2])`,
			`tolist(["b"])`},
		"matchkeys finds nulls": {`matchkeys(["a", "b"], [null, "x"], [null, "y"])`,
			`tolist(["a"])`},
		"matchkeys waits for unknown keys": {`matchkeys(["a"], [unknown], ["x"]) == null`, `false`},
		"one of one, and of none": {`[one([1]), one(toset(["a"])), one([])]`,
			`[1, "a", null]`},
		"sum converts and adds exactly":  {`sum([0.1, "0.2"])`, `0.3`},
		"sum of a set with one infinity": {`sum([1, 1 / 0])`, `1 / 0`},
		"sum waits for what is unknown":  {`sum([1, unknown]) == null`, `false`},
		"transpose turns a map around": {`transpose({b = ["x"], a = ["x", "y"]})`,
			`tomap({x = tolist(["a", "b"]), y = tolist(["a"])})`},
		"transpose of nothing":        {`jsonencode(transpose({a = []}))`, `"{}"`},
		"range counts down by itself": {`range(-3)`, `tolist([0, -1, -2])`},
		"merge gives an object unless the types agree": {`merge(tomap({a = 1}), tomap({b = "x"}))`,
			`{a = 1, b = "x"}`},
		"sort turns numbers into strings": {`sort([10, 9, 1])`, `tolist(["1", "10", "9"])`},
		"setproduct of lists is a list": {`setproduct(["a"], ["x", "y"])`,
			`tolist([["a", "x"], ["a", "y"]])`},
	}.prove(t, funcs.Options{})
	refused{
		"coalesce of empty things only":            {`coalesce(null, "")`, badCall, "null or an empty string", ""},
		"coalesce of types that do not mix":        {`coalesce("a", [])`, badCall, "no type in common", ""},
		"contains does not look into null":         {`contains(null, "a")`, badArgument, "must not be null", ""},
		"index of what is not there":               {`index(["a"], "b")`, badCall, "no element", ""},
		"index in a set":                           {`index(toset(["a"]), "a")`, badCall, "only a list or a tuple", ""},
		"the length of a number":                   {`length(5)`, badCall, "not number", ""},
		"lookup of an attribute that is not there": {`lookup({a = 1}, "b")`, badArgument, `no attribute "b"`, ""},
		"lookup of an element that is not there":   {`lookup(tomap({a = 1}), "b")`, badCall, `no element "b"`, ""},
		"lookup by a secret key hides it": {`lookup(tomap({a = 1}), secret)`, badCall,
			"(sensitive value)", "hunter2"},
		"lookup of a secret attribute hides it": {`lookup({a = 1}, secret)`, badArgument,
			"(sensitive value)", "hunter2"},
		"lookup with a default of another type": {`lookup(tomap({a = 1}), "a", "x")`, badArgument,
			"element type, number", ""},
		"lookup with four arguments": {`lookup({a = 1}, "a", 1, 2)`, badCall, "4 arguments", ""},
		"lookup in a list": {`lookup(["a"], "a", 1)`, badArgument,
			"a map is required, not tuple", ""},
		"matchkeys of different lengths": {`matchkeys(["a"], ["x", "y"], ["x"])`, badCall,
			"2 keys for 1 values", ""},
		"matchkeys of types that do not mix": {`matchkeys(["a"], [{}], ["x"])`, badCall, "of one type", ""},
		"one of two":                         {`one([1, 2])`, badArgument, "no or one element", ""},
		"one of a list of two":               {`one(toset(["a", "b"]))`, badArgument, "no or one element", ""},
		"the sum of nothing":                 {`sum([])`, badArgument, "an empty list has no sum", ""},
		"the sum of strings":                 {`sum([1, "a"])`, badArgument, "element 1 is not", ""},
		"the sum of a map":                   {`sum({a = 1})`, badArgument, "not object", ""},
		"the sum of opposite infinities":     {`sum([1 / 0, -1 / 0])`, badCall, "opposite infinities", ""},
		"transpose of a null list": {`transpose({a = null})`, badArgument,
			`the list under "a" is null`, ""},
		"transpose of a null string": {`transpose({a = ["x", null]})`, badArgument,
			`element 1 of the list under "a"`, ""},
	}.prove(t, funcs.Options{})
}

func TestConversions(t *testing.T) {
	same{
		"to list, set and map by kind": {`[tolist([1, "a"]), toset(["b", "b"]), tomap({a = 1})]`,
			`[tolist(["1", "a"]), toset(["b"]), tomap({a = 1})]`},
		"to the primitive types": {`[tostring(1.50), tonumber("1p4"), tobool("true")]`,
			`["1.5", 16, true]`},
		"null stays null and gets a type":      {`tolist(null) == tolist(null)`, `true`},
		"marks inside stay where they are":     {`issensitive(tolist(["a", secret])[0])`, `false`},
		"marks inside a set spread to it":      {`issensitive(toset(["a", secret]))`, `true`},
		"a value of the type is left as it is": {`tostring(secret)`, `secret`},
	}.prove(t, funcs.Options{})
	refused{
		"a word as a bool": {`tobool("yes")`, badArgument,
			`cannot convert "yes" to bool; a string must be "true" or "false"`, ""},
		"a number as a bool": {`tobool(1)`, badArgument, "cannot convert number to bool", ""},
		"a word as a number": {`tonumber("x")`, badArgument, `cannot convert "x" to number`, ""},
		"a secret as a number hides it": {`tonumber(secret)`, badArgument, "cannot convert this sensitive string " +
			"to number", "hunter2"},
		"a token as a number hides it": {`tonumber(token)`, badArgument, "cannot convert this ephemeral string " +
			"to number", "t0k3n"},
		"a list as a string": {`tostring(["a"])`, badArgument, "cannot convert tuple to string", ""},
		"elements that have no common type": {`tolist([true, 1])`, badArgument, "cannot convert tuple to list of any " +
			"single type", ""},
	}.prove(t, funcs.Options{})
}
