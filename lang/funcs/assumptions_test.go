package funcs_test

import (
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/lang/funcs"
	"github.com/millipede-iac/millipede/lang/syntax"
)

func TestConvertTakesATypeAsItIsWrittenForAVariable(t *testing.T) {
	same{
		"to a primitive type":  {`[convert("true", bool), core::convert(1, string)]`, `[true, "1"]`},
		"any leaves a value":   {`convert("hello", any)`, `"hello"`},
		"to a collection":      {`convert(["a", 1], list(string))`, `tolist(["a", "1"])`},
		"an optional is null":  {`convert({}, object({name = optional(string)})).name == null`, `true`},
		"an optional default":  {`convert({}, object({name = optional(string, "x")})).name`, `"x"`},
		"others are left out":  {`convert({a = 1, b = 2}, object({a = number}))`, `{a = 1}`},
		"null gets no default": {`convert(null, object({name = optional(string, "x")})) == null`, `true`},
		"unknown has the type": {`length(convert(untyped, object({a = string})).a) == null`, `false`},
		"marks stay":           {`convert({a = secret}, object({a = string})).a`, `secret`},
		"within a loop":        {`[for v in ["1", "2"] : convert(v, number)]`, `[1, 2]`},
	}.prove(t, funcs.Options{})
	refused{
		"what cannot be converted": {`convert("hello", bool)`, badArgument, `must be "true" or "false"`, ""},
		"a secret":                 {`convert(secret, bool)`, badArgument, "sensitive", "hunter2"},
		"what is no type":          {`convert("x", strin)`, "Invalid type specification", "strin", ""},
		"a default that is not constant": {`convert({}, object({a = optional(string, upper("x"))}))`,
			"Function calls not allowed", "", ""},
	}.prove(t, funcs.Options{})
}

func TestTheTypeOfAConversionRefersToNothing(t *testing.T) {
	e, diags := syntax.ParseExpression([]byte(`convert(var.a, object({a = list(string)}))`), "test.tf", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	if all := e.Variables(); len(all) != 1 || all[0].RootName() != "var" {
		t.Errorf("it refers to %d objects: %v", len(all), all)
	}
}

// What must hold is in OpenTofu's documentation of these functions (1.13), and in its tests.
func TestWhatIsAssumedIsKnownWhilePlanning(t *testing.T) {
	same{
		"not null":           {`assumenotnull(unknown) == null`, `false`},
		"not null and known": {`assumenotnull(secret)`, `secret`},
		"a prefix":           {`startswith(assumestringprefix(unknown, "vpc-"), "vpc-")`, `true`},
		"a null string":      {`assumestringprefix(null, "x")`, `tostring(null)`},
		"an unknown prefix":  {`assumestringprefix("foo", unknown)`, `unknown`},
		"a marked string":    {`assumestringprefix(secret, "hunt")`, `secret`},
		"lengths of lists": {`[length(assumelistlengthmin(ids, 1)) > 0, length(assumelistlengthmax(["a"], 1)),
			length(assumelistlength(assumenotnull(ids), 2, 2))]`, `[true, 1, 2]`},
		"lengths of sets and maps": {`[length(assumesetlengthmin(toset(ids), 1)) > 0,
			length(assumesetlength(toset(["a"]), 0, 1)), length(assumesetlengthmax(toset(["a"]), 1)),
			length(assumemaplength({a = 1}, 1, 1)), length(assumemaplengthmin({a = 1}, 1)),
			length(assumemaplengthmax({a = 1}, 1))]`, `[true, 1, 1, 1, 1, 1]`},
		"equal to what is known":   {`assumeequal(unknown, "hello")`, `"hello"`},
		"equal, and known":         {`assumeequal("1", 1)`, `1`},
		"equal to what is unknown": {`assumeequal("hello", unknown)`, `unknown`},
		"equal parts":              {`assumeequal([unknown], tolist(["a"]))`, `tolist(["a"])`},
		"the expected one's secrecy": {`[assumeequal(secret, "hunter2"), assumeequal(token, "t0k3n")]`,
			`["hunter2", "t0k3n"]`},
		"and not less": {`assumeequal("hunter2", secret)`, `secret`},
	}.prove(t, funcs.Options{})
	refused{
		"null":                     {`assumenotnull(tostring(null))`, badArgument, "it is", ""},
		"of an unknown type":       {`assumenotnull(untyped)`, badArgument, "convert", ""},
		"another prefix":           {`assumestringprefix(secret, "x")`, badArgument, "it does not", "hunter2"},
		"a secret prefix":          {`assumestringprefix("x", secret)`, badArgument, "it does not", "hunter2"},
		"a list that is too short": {`assumelistlengthmin(["a"], 2)`, badArgument, "length of this list", ""},
		"a set that is too long":   {`assumesetlengthmax(["a", "b"], 1)`, badArgument, "length of this set", ""},
		"bounds in disorder":       {`assumelistlength(ids, 2, 1)`, badArgument, "less than the minimum", ""},
		"a negative length":        {`assumemaplengthmin({}, -1)`, badArgument, "not negative", ""},
		"half an element":          {`assumemaplengthmin({}, 0.5)`, badArgument, "whole number", ""},
		"another value":            {`assumeequal("howdy", "hello")`, badArgument, "equal", "howdy"},
		"another type":             {`assumeequal(unknown, tolist(["a"]))`, badArgument, "list of string", ""},
	}.prove(t, funcs.Options{})
}
