package hostile

import (
	"fmt"
	"strings"
)

// huge is a number that takes 240 MiB as soon as 1 is added to it, and days to become text.
const huge = "1e600000000"

// million are the digits of a number that takes minutes to read.
var million = strings.Repeat("9", 5_000_000)

// numbers are numbers that are too great, and texts that would take too long to read as numbers.
func numbers() []Case {
	list := func(name, expression string) Case { return Case{Name: name, Files: output(expression)} }
	file := func(name, expression string) Case {
		return Case{Name: name, Files: with(output(expression), "d", million), Says: "more than 100000 digits"}
	}
	variable := func(name, kind, value string) Case {
		return Case{Name: name, Files: with(map[string]string{"main.tf": "variable \"x\" {\n  type = " + kind + "\n}\n"},
			"terraform.tfvars", "x = "+value+"\n"), Says: "more than 100000 digits"}
	}
	state := func(kind, value string) map[string]string {
		return map[string]string{"main.tf": "data \"terraform_remote_state\" \"x\" {\n  backend = \"local\"\n" +
			"  config  = { path = \"s.tfstate\" }\n}\n", "s.tfstate": `{"version":4,"terraform_version":"1.5.0","serial":1,` +
			`"lineage":"a","outputs":{"x":{"type":` + kind + `,"value":` + value + `}},"resources":[]}`}
	}
	return []Case{
		file("digits that are added", `1 + file("d")`), file("digits that are compared", `file("d") > 1`),
		file("digits of an argument", `abs(file("d"))`), file("digits of one of many arguments", `max(1, file("d"))`),
		file("digits of an index", `["a"][file("d")]`), file("digits in a sum", `sum([file("d")])`),
		file("digits of a format", `format("%d", file("d"))`), file("digits in JSON", `jsondecode(file("d"))`),
		file("digits in YAML", `yamldecode(file("d"))`), list("a number of many digits", million),
		list("many numbers of many digits", "["+strings.Repeat(million[:90_000]+",", 200)+"]"),
		{Name: "digits in JSON syntax", Files: map[string]string{"main.tf.json": `{"output":{"x":{"value":` + million +
			"}}}"}},
		{Name: "a loop over digits", Files: with(output(`length([for i in range(1000) : 1 + file("d")])`), "d",
			million[:90_000])},
		{Name: "digits of a count", Files: map[string]string{"main.tf": "resource \"terraform_data\" \"x\" {\n" +
			"  count = file(\"d\")\n}\n", "d": million}},
		variable("digits of a variable", "number", `"`+million+`"`),
		variable("digits in a list of a variable", "list(number)", `["`+million+`"]`),
		{Name: "digits of a default", Files: map[string]string{"main.tf": "variable \"x\" {\n" +
			"  type = object({ a = optional(number, \"" + million + "\") })\n  default = {}\n}\n"}},
		{Name: "digits in another state", Files: state(`"number"`, million)},
		{Name: "depth in another state", Files: state(`"dynamic"`, deep("[", "1", "]", big))},
		{Name: "a type in another state", Files: state(deep(`["list",`, `"string"`, "]", big), "null")},
		list("a huge number and one", huge+" + 1"), list("a huge remainder", huge+" % 7"),
		list("a huge floor", "floor("+huge+") > 1"), list("a huge key", "length({ ("+huge+") = 1 })"),
		list("a huge key of a loop", "length({ for i in ["+huge+"] : i => 1 })"),
		list("a huge set", "length(toset(["+huge+"]))"),
		list("a huge text", "upper("+huge+")"), list("a huge choice", "length(true ? "+huge+" : \"a\")"),
		list("a huge range", "range(0, "+huge+", "+huge+" / 2)"), list("a huge host", `cidrhost("10.0.0.0/8", `+huge+`)`),
		list("a huge number in a text", `abs("`+huge+`")`), list("a huge number in YAML", `yamldecode("a: `+huge+`").a > 1`),
		list("a huge number in JSON", `jsondecode("[`+huge+`]")[0] > 1`), variable("a huge variable", "string", huge),
	}
}

// endless are searches, derivations and repetitions that would take practically forever, or all memory.
func endless() []Case {
	list := func(name, expression string) Case { return Case{Name: name, Files: output(expression)} }
	mib := `join("", [for i in range(1000) : format("%1000s", i)])`
	derived := func(name, arguments string) Case {
		return Case{Name: name, Files: map[string]string{"main.tf": "terraform {\n  encryption {\n" +
			"    key_provider \"pbkdf2\" \"k\" {\n      passphrase = \"correct-horse-battery\"\n      " + arguments +
			"\n    }\n" +
			"    method \"aes_gcm\" \"m\" {\n      keys = key_provider.pbkdf2.k\n    }\n" +
			"    state {\n      method = method.aes_gcm.m\n    }\n  }\n}\n"}}
	}
	resource := func(name, argument string) Case {
		return Case{Name: name, Files: map[string]string{
			"main.tf": "resource \"terraform_data\" \"x\" {\n  " + argument + "\n}\n"}}
	}
	var circle strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&circle, "  v%d = local.v%d\n", i, (i+1)%20_000)
	}
	return []Case{
		list("a search of many states", `length(regexall("(?: ?){990}c", `+mib+`))`),
		list("a replacement of many states", `length(replace(`+mib+`, "/(?: ?){990}c/", ""))`),
		{Name: "a long pattern", Files: with(output(`length(regexall(file("d"), "x"))`), "d",
			strings.Repeat("(a|b)", 8_000_000))},
		list("a pattern of files with many stars", `fileset(".", "`+strings.Repeat("**/", 1000)+`z")`),
		list("a pattern of files with many alternatives", `fileset(".", "`+strings.Repeat("{m,ma,mai,main}*", 30)+`z")`),
		list("a flat list of lists", `length(flatten([for a in range(1000) : range(1000)]))`),
		derived("a derivation of billions of rounds", "iterations = 2000000000"),
		derived("a derived key of 2 GB", "key_length = 2000000000"), derived("a salt of 2 GB", "salt_length = 2000000000"),
		resource("a count of a billion", "count = 1000000000"),
		{Name: "a circle of locals", Files: map[string]string{"main.tf": "locals {\n" + circle.String() + "}\n"}},
		{Name: "a lock file", Files: with(output("1"), ".terraform.lock.hcl", "x = "+deep("[", "1", "]", big))},
		{Name: "text of accents", Files: with(output(`length(file("d"))`), "d",
			"e"+strings.Repeat("\u0301", 5_000_000)), Fine: true},
		{Name: "a text to trim", Files: with(output(`length(trim(file("d"), "${format("%1000000s", "")}${file("d")}"))`), "d",
			strings.Repeat("é", 10_000_000)), Fine: true},
		{Name: "100,000 subnets", Files: output(`length(cidrsubnets("fc00::/7", flatten([for i in range(100) : ` +
			`[for j in range(1000) : 20]])...))`), Fine: true},
		{Name: "an encoded code of a code", Files: with(output(strings.Repeat("base64encode(", 4)+`file("d")`+
			strings.Repeat(")", 4)), "d", strings.Repeat("a", 60_000_000))},
		{Name: "control characters in JSON", Files: with(output(`jsonencode(file("d"))`), "d", strings.Repeat("\x01", 60_000_000))},
		{Name: "percent signs of percent signs", Files: with(output(`urlencode(urlencode(file("d")))`), "d",
			strings.Repeat("%", 40_000_000))},
		{Name: "files without an end", Files: output(`filesha256("/dev/zero")`)},
	}
}
