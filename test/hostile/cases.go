// Package hostile has configurations that attack the program that plans them: by depth, by size, and by files that are
// not theirs. Its tests plan each on the command line and in a service.
//
// It generates what it needs, so that no large file is part of the project.
package hostile

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

// Case is a hostile configuration.
type Case struct {
	Name  string
	Files map[string]string
	// Says is in the diagnostic; empty for the many forms that the refusal of a size has.
	Says string
	// Fine: the configuration is large but harmless, and is planned.
	Fine bool
	// Confined: only a service refuses it, since the command line may read all files of its user.
	Confined bool
}

// deep returns n openings, a middle, and n closings.
func deep(open, middle, closing string, n int) string {
	return strings.Repeat(open, n) + middle + strings.Repeat(closing, n)
}

// output is a configuration with one output.
func output(expression string) map[string]string {
	return map[string]string{"main.tf": "output \"x\" {\n  value = " + expression + "\n}\n"}
}

// with adds a file to a configuration.
func with(files map[string]string, name, text string) map[string]string {
	files[name] = text
	return files
}

// chain is a configuration with local values, each made from the one before it.
func chain(first, next string, n int, last string) map[string]string {
	var b strings.Builder
	b.WriteString("locals {\n  v0 = " + first + "\n")
	for i := range n {
		fmt.Fprintf(&b, "  v%d = %s\n", i+1, strings.ReplaceAll(next, "PREV", fmt.Sprintf("local.v%d", i)))
	}
	b.WriteString("}\n")
	return map[string]string{"main.tf": b.String() + "output \"x\" {\n  value = " +
		strings.ReplaceAll(last, "LAST", fmt.Sprintf("local.v%d", n)) + "\n}\n"}
}

// let is an expression that applies next to a value n times, each time to the result before.
func let(first, next string, n int) string {
	out := "[" + first + "]"
	for range n {
		out = "[for v in " + out + " : " + next + "]"
	}
	return out + "[0]"
}

// bomb is a YAML text whose aliases stand for a power of elements.
func bomb(levels int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range levels {
		fmt.Fprintf(&b, "a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	return b.String()
}

// zipped is a text of n bytes, compressed, in base64.
func zipped(n int) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	chunk := bytes.Repeat([]byte("a"), 1<<20)
	for range n >> 20 {
		if _, err := z.Write(chunk); err != nil {
			panic(err) // a buffer takes everything
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

const big = 100_000

// Cases returns all cases.
func Cases() []Case {
	return slices.Concat(deepTexts(), deepValues(), large(), numbers(), endless(), outside())
}

func deepTexts() []Case {
	native := func(name, text string) Case { return Case{Name: name, Files: map[string]string{"main.tf": text}} }
	list := func(name, expression string) Case { return Case{Name: name, Files: output(expression)} }
	return []Case{
		list("parentheses", deep("(", "1", ")", big)),
		list("brackets", deep("[", "1", "]", big)),
		list("objects", deep("{a=", "1", "}", big)),
		list("unclosed parentheses", strings.Repeat("(", big)),
		list("calls", deep("abs(", "1", ")", big)),
		list("templates", deep(`"${`, "1", `}"`, big)),
		list("negations", strings.Repeat("!", big)+"true"),
		list("minus signs", strings.Repeat("-", big)+"1"),
		list("a sum", "1"+strings.Repeat("+1", big)),
		list("a choice of choices", strings.Repeat("true?1:", big)+"1"),
		list("indexes", "tolist([])"+strings.Repeat("[0]", big)),
		list("splats", "[]"+strings.Repeat("[*]", big)),
		list("for expressions", deep("[for x in [1] : ", "1", "]", big)),
		list("conditions in a template", `"`+deep("%{if true}", "x", "%{endif}", big)+`"`),
		list("a heredoc in a heredoc", deep("<<A\n${", "1", "}\nA\n", big)),
		native("blocks", deep("a {\n", "", "}\n", big)),
		native("blocks of a line", strings.Repeat("a {", big)),
		native("a type", "variable \"x\" {\n  type = "+deep("list(", "string", ")", big)+"\n}\n"),
		native("a type of 5,000 lists", "variable \"x\" {\n  type = "+
			deep("list(", "string", ")", 5000)+"\n  default = null\n}\n"),
		native("an address", "moved {\n  from = a.b"+strings.Repeat("[0]", big)+"\n  to = a.c\n}\n"),
		{Name: "JSON syntax", Files: map[string]string{"main.tf.json": `{"output":{"x":{"value":` + deep("[", "1", "]", big) + "}}}"}},
		{Name: "a template in JSON syntax", Files: map[string]string{"main.tf.json": `{"output":{"x":{"value":"${` +
			deep("(", "1", ")", big) + `}"}}}`}},
		{Name: "values of variables", Files: map[string]string{"main.tf": "variable \"x\" {}\n",
			"terraform.tfvars": "x = " + deep("[", "1", "]", big) + "\n"}},
		{Name: "values of variables in JSON", Files: map[string]string{"main.tf": "variable \"x\" {}\n",
			"terraform.tfvars.json": `{"x":` + deep("[", "1", "]", big) + "}"}},
		{Name: "a template file", Files: with(output(`templatefile("t", {})`), "t", deep("${(", "1", ")}", big))},
		{Name: "a template that is its own", Files: with(output(`templatefile("t", { f = "t" })`), "t",
			`${templatefile(f, { f = f })}`)},
		{Name: "rules of pools", Files: with(output("1"), "millipede.hcl", "a = "+deep("(", "1", ")", big))},
	}
}

func deepValues() []Case {
	return []Case{
		{Name: "jsondecode", Files: with(output(`can(jsondecode(file("d.json")))`), "d.json", strings.Repeat("[", 3_000_000)),
			Fine: true}, // it cannot be decoded, and that is the answer
		{Name: "jsondecode alone", Files: with(output(`jsondecode(file("d.json"))`), "d.json", deep("[", "", "]", big))},
		{Name: "20,000 nested lists", Files: with(output(`jsondecode(file("d.json"))`), "d.json", deep("[", "", "]", 20_000))},
		{Name: "objects in jsondecode", Files: with(output(`jsondecode(file("d.json"))`), "d.json", deep(`{"a":`, "1", "}", big))},
		{Name: "yamldecode of brackets", Files: with(output(`yamldecode(file("d.yaml"))`), "d.yaml", deep("[", "", "]", big))},
		{Name: "yamldecode of dashes", Files: with(output(`yamldecode(file("d.yaml"))`), "d.yaml", strings.Repeat("- ", big)+"x")},
		{Name: "yamldecode of quoted brackets", Files: with(output(`yamldecode(file("d.yaml"))`), "d.yaml",
			strings.Repeat("[\"]\",\n", big))},
		{Name: "a chain of lists", Files: chain("1", "[PREV]", 5000, "LAST")},
		{Name: "a chain of resources", Files: map[string]string{"main.tf": strings.Join(resources(1100), "")}},
		{Name: "900 nested lists", Files: output(deep(`jsondecode("`, deep("[", "", "]", 900), `")`, 1)), Fine: true},
	}
}

// resources are objects, each with the one before it inside its value.
func resources(n int) []string {
	out := []string{"resource \"terraform_data\" \"r0\" {\n  input = [1]\n}\n"}
	for i := range n {
		out = append(out, fmt.Sprintf("resource \"terraform_data\" \"r%d\" {\n  input = [terraform_data.r%d.input]\n}\n",
			i+1, i))
	}
	return out
}
