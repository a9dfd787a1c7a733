package hostile

import (
	"fmt"
	"strings"
)

func large() []Case {
	list := func(name, expression string) Case { return Case{Name: name, Files: output(expression)} }
	million := `setproduct(range(1000), range(1000))`
	loops := `length([for a in range(1000) : [for b in range(1000) : [for c in range(1000) : 0]]])`
	return []Case{
		list("a product", `length(setproduct(range(1000), range(1000), range(1000)))`),
		list("loops", loops),
		list("loops in an object", `length({ for a in range(1000) : a => [for b in range(1000) : [for c in range(1000) : 0]] })`),
		list("loops in a template", `length("%{for a in range(1000)}%{for b in range(1000)}%{for c in range(1000)}x%{endfor}%{endfor}%{endfor}")`),
		list("loops with a condition", `length([for a in range(1000) : [for b in range(1000) : [for c in range(1000) : 0 if false]]])`),
		{Name: "a product of a product", Files: chain(million, "PREV", 1, "length(setproduct(LAST, LAST))")},
		{Name: "loops in JSON syntax", Files: map[string]string{"main.tf.json": `{"output":{"x":{"value":"${` + loops + `}"}}}`}},
		{Name: "locals that double a text", Files: chain(`"aaaaaaaaaa"`, `"${PREV}${PREV}"`, 40, "length(LAST)")},
		{Name: "locals that double a list", Files: chain(`["a"]`, `concat(PREV, PREV)`, 40, "length(LAST)")},
		{Name: "locals that share a list", Files: chain(`["a"]`, `[PREV, PREV]`, 40, "jsonencode(LAST)")},
		{Name: "locals that share an object", Files: chain(`{ a = 1 }`, `{ a = PREV, b = PREV }`, 40, "LAST")},
		{Name: "locals that double a number", Files: chain(`10`, `PREV * PREV`, 40, `"${LAST}"`)},
		list("a text that doubles", `length(`+let(`"a"`, `"${v}${v}"`, 40)+`)`),
		list("a list that doubles", `length(`+let(`[1]`, `concat(v, v)`, 40)+`)`),
		list("a list that is shared", `jsonencode(`+let(`[1]`, `[v, v]`, 40)+`)`),
		list("joined texts", `length(join(format("%1000000s", ""), [for i in range(1000) : "x"]))`),
		list("a format's width", `length(format("%999999999d", 1))`),
		list("a format's precision", `length(format("%.999999999f", 1))`),
		list("many widths", `length(format("`+strings.Repeat("%[1]1000000d", 1000)+`", 1))`),
		list("a list of formats", `length(formatlist("%1000000d", range(1000)))`),
		list("an indentation", `length(indent(999999999, "a\nb"))`),
		list("a replacement", `length(replace(format("%1000000s", ""), " ", format("%1000000s", "")))`),
		list("a replacement by a pattern", `length(replace(format("%1000000s", ""), "/ /", format("%1000000s", "")))`),
		list("a number with many digits", `"${1e400000}"`),
		list("a small number with many digits", `jsonencode(1e-400000)`),
		{Name: "a number that is too small", Files: output(`jsonencode(1e-999999999)`), Fine: true}, // it is 0
		{Name: "a costly hash", Files: output(`bcrypt("x", 31)`), Fine: true},                       // a plan computes none
		list("texts in a loop", `length([for i in range(1000) : format("%1000000s", i)])`),
		list("templates in a loop", `length([for i in range(1000) : "${format("%1000000s", "x")}-${i}"])`),
		list("a problem in nested templates", deep(`"${terraform.workspace}${`, "nosuch.x", `}"`, 300)),
		{Name: "a compressed text", Files: with(output(`length(base64gunzip(file("z")))`), "z", zipped(1<<30))},
		{Name: "a YAML bomb", Files: with(output(`length(yamldecode(file("d.yaml")))`), "d.yaml", bomb(12))},
		{Name: "a large JSON text", Files: with(output(`length(jsondecode(file("d.json")))`), "d.json",
			"["+strings.Repeat("0,", 5_000_000)+"0]")},
		{Name: "a large CSV text", Files: with(output(`length(csvdecode(file("d.csv")))`), "d.csv",
			strings.Repeat("a,", 3_000_000)+"a\n")},
		{Name: "many pieces", Files: output(`length(split("", join("", [for i in range(1000) : format("%10000s", "")])))`)},
		{Name: "many matches", Files: output(`length(regexall(".", join("", [for i in range(1000) : format("%10000s", "")])))`)},
	}
}

func outside() []Case {
	var out []Case
	for _, expression := range []string{
		`file("SECRET")`, `filebase64("SECRET")`, `fileexists("SECRET")`, `filesha256("SECRET")`,
		`templatefile("SECRET", {})`, `fileset("/etc", "*")`, `file("/proc/self/environ")`,
		`filebase64("/proc/self/environ")`, `fileexists("/proc/self/mem")`, `fileset("../../..", "**")`,
		`file("${path.module}/../../../../../../../../etc/passwd")`, `file("../run.tfvars")`,
	} {
		out = append(out, Case{Name: "outside: " + expression, Files: output(expression), Confined: true,
			Says: "outside of the configuration"})
	}
	for _, source := range []string{"SECRETDIR", "file://SECRETDIR", "../../../..", "git::file://SECRETDIR"} {
		out = append(out, Case{Name: "a module from " + source, Files: map[string]string{
			"main.tf": fmt.Sprintf("module \"m\" {\n  source = %q\n}\n", source)},
			Confined: true, Says: "only the files of its own"})
	}
	return append(out, Case{Name: "another state", Confined: true, Says: "outside of the configuration",
		Files: map[string]string{"main.tf": "data \"terraform_remote_state\" \"x\" {\n  backend = \"local\"\n" +
			"  config  = { path = \"SECRETDIR/terraform.tfstate\" }\n}\n"}})
}
