package funcs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/lang/funcs"
)

func TestTemplates(t *testing.T) {
	dir := directory(t, map[string]string{
		"greet.tftpl":  "Hello, ${name}!",
		"number.tftpl": "${n}",
		"loop.tftpl":   "%{ for k, v in m ~}\n${k}=${upper(v)};\n%{ endfor ~}\n",
		"outer.tftpl":  `[${templatefile("greet.tftpl", {name = core::upper(name)})}]`,
		"broken.tftpl": "${",
		"fails.tftpl":  "${nope(1)}",
		"again.tftpl":  `${core::templatefile("again.tftpl", {})}`,
		"chain.tftpl":  `${n == 0 ? "end" : templatefile("chain.tftpl", {n = n - 1})}`,
		"secret.tftpl": "${a}${b}",
	})
	o := funcs.Options{BaseDir: dir}
	same{
		"a file is rendered with its variables": {`templatefile("greet.tftpl", {name = "Jo"})`,
			`"Hello, Jo!"`},
		"a map will do": {`templatefile("greet.tftpl", tomap({name = "Jo"}))`,
			`"Hello, Jo!"`},
		"a template of one interpolation keeps its type": {
			`[templatefile("number.tftpl", {n = 5}), templatestring("$${n}", {n = [1]})]`, `[5, [1]]`},
		"such a template can be null": {`templatestring("$${n}", {n = null})`, `null`},
		"directives and functions work": {`templatefile("loop.tftpl", {m = {a = "x", b = "y"}})`,
			`"a=X;\nb=Y;\n"`},
		"templates can render templates": {`templatefile("outer.tftpl", {name = "Jo"})`,
			`"[Hello, JO!]"`},
		"strings can render strings": {
			`templatestring("$${templatestring(t, {x = 1})}", {t = "<$${x}>"})`, `"<1>"`},
		"strings can render files": {
			`templatestring("$${templatefile(f, {name = 1})}", {f = "greet.tftpl"})`, `"Hello, 1!"`},
		"what is unknown in the variables is unknown outside": {`templatefile("greet.tftpl", {name = unknown})`,
			`"Hello, ${unknown}!"`},
		"unknown variables":   {`templatefile("greet.tftpl", untyped)`, `untyped`},
		"an unknown template": {`templatestring(unknown, {})`, `untyped`},
		"a file marks by all its variables": {
			`issensitive(templatefile("greet.tftpl", {name = "a", other = secret}))`, `true`},
		"a string marks by those that it shows": {
			`[issensitive(templatestring("$${a}", {a = 1, b = secret})), ` +
				`issensitive(templatestring("$${b}", {a = 1, b = secret}))]`, `[false, true]`},
		"the mark of the path, the text or all variables": {
			`[issensitive(templatefile(sensitive("greet.tftpl"), {name = 1})), ` +
				`issensitive(templatestring(sensitive("a"), {})), issensitive(templatestring("a", sensitive({})))]`,
			`[true, true, true]`},
		"a secret that is shown": {`templatefile("secret.tftpl", {a = "x", b = secret})`,
			`sensitive("xhunter2")`},
		"nesting takes as many levels as the template needs": {`templatefile("chain.tftpl", {n = 1024})`, `"end"`},
		"try catches what a template refuses": {`try(templatefile("again.tftpl", {}), "caught")`,
			`"caught"`},
		"names of variables may have dashes":   {`templatestring("$${a-b}", {"a-b" = 1})`, `1`},
		"an empty template is an empty string": {`templatestring("", {})`, `""`},
	}.prove(t, o)
	refused{
		"a variable that is not given": {`templatefile("greet.tftpl", {})`, badArgument,
			`refers to "name" (at greet.tftpl:1,10-14)`, ""},
		"a name that no template can refer to": {`templatestring("a", {"1a" = 1})`, badArgument,
			`"1a" cannot name a variable`, ""},
		"variables that are no map": {`templatestring("a", ["b"])`, badArgument, "not tuple", ""},
		"variables that are null":   {`templatestring("a", null)`, badArgument, "must not be null", ""},
		"a file that is not there": {`templatefile("nope", {})`, badArgument,
			`there is no file "nope"`, ""},
		"a template that is broken": {`templatefile("broken.tftpl", {})`, badCall,
			"broken.tftpl:1,3-3", ""},
		"a secret path in a broken template": {`templatefile(sensitive("broken.tftpl"), {})`, badCall,
			"(sensitive value):1,3-3", "broken.tftpl"},
		"a function that does not exist": {`templatefile("fails.tftpl", {})`, badCall,
			`There is no function named "nope"`, ""},
		"a suggestion for a function": {`templatestring("$${uper(1)}", {})`, badCall,
			`Did you mean "upper"?`, ""},
		"null inside text": {`templatestring("x$${a}", {a = null})`, badCall, "", ""},
		"a file that renders itself": {`templatefile("again.tftpl", {})`, badCall,
			"more than 1024 levels deep, by the calls at again.tftpl:1,3-22", ""},
		"a string that renders itself": {
			`templatestring("$${templatestring(t, {t = t})}", {t = "$${templatestring(t, {t = t})}"})`, badCall,
			"more than 1024 levels deep", ""},
		"one level more than there may be": {`templatefile("chain.tftpl", {n = 1025})`, badCall,
			"more than 1024 levels deep", ""},
		"a template does not see what is around": {`templatestring("$${secret}", {})`, badArgument,
			`refers to "secret"`, ""},
	}.prove(t, o)
}

func TestTheDepthOfTemplatesCanBeSet(t *testing.T) {
	dir := directory(t, map[string]string{
		"chain.tftpl": `${n == 0 ? "end" : templatefile("chain.tftpl", {n = n - 1})}`})
	o := funcs.Options{BaseDir: dir, TemplateDepth: 2}
	same{"as deep as allowed": {`templatefile("chain.tftpl", {n = 2})`, `"end"`}}.prove(t, o)
	refused{"deeper": {`templatefile("chain.tftpl", {n = 3})`, badCall, "more than 2 levels deep", ""}}.prove(t, o)
}

// A function that renders once for the type of its result and once for the value doubles the work with each level, so
// that twenty levels took a million renderings.
func TestEachLevelOfTemplatesIsRenderedOnce(t *testing.T) {
	files := map[string]string{"20.tftpl": "${timestamp()}"}
	for level := range 20 {
		files[fmt.Sprintf("%d.tftpl", level)] = fmt.Sprintf("${templatefile(\"%d.tftpl\", {})}", level+1)
	}
	calls := 0
	ctx := scope(funcs.Options{BaseDir: directory(t, files), Now: func() time.Time { calls++; return noon }})
	if _, diags := eval(t, ctx, `templatefile("0.tftpl", {})`); diags.HasErrors() {
		t.Fatal(diags)
	}
	if calls != 1 {
		t.Fatalf("the innermost template was rendered %d times", calls)
	}
}
