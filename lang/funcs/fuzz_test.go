package funcs_test

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/reach"
	"github.com/millipede-iac/millipede/lang/funcs"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// What evaluating a text of a stranger may need. The memory is that of the whole process, with what was not collected
// yet. Fuzzing has several processes, and the machine has other work, so that the time is generous.
const (
	fuzzTime   = 20 * time.Second
	fuzzMemory = 1 << 30
)

// within calls fn, and fails if it needs too much time or memory. If it does not end at all, the process does.
func within(t *testing.T, src string, fn func()) {
	t.Helper()
	ended, most := make(chan struct{}), make(chan uint64)
	go func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		peak := uint64(0)
		for {
			select {
			case <-tick.C:
				metrics.Read(sample)
				peak = max(peak, sample[0].Value.Uint64())
			case <-ended:
				most <- peak
				return
			}
		}
	}()
	watchdog := time.AfterFunc(3*fuzzTime, func() { panic(fmt.Sprintf("it does not end: %q", src)) })
	began := time.Now()
	defer func() {
		watchdog.Stop()
		close(ended)
		if peak := <-most; peak > fuzzMemory {
			t.Errorf("it needed %d MiB: %q", peak>>20, src)
			runtime.GC() // so that the next one is not to blame
		}
		if took := time.Since(began); took > fuzzTime {
			t.Errorf("it took %v: %q", took, src)
		}
	}()
	fn()
}

// strange is a scope for texts of strangers, whose functions read the files of an empty directory only.
func strange(f *testing.F) *hcl.EvalContext {
	f.Helper()
	dir := f.TempDir()
	ctx := scope(funcs.Options{BaseDir: dir, Files: reach.Below(dir), Pure: true})
	ctx.Variables["list"] = cty.ListVal([]cty.Value{cty.StringVal("a"), cty.StringVal("e\u0301"), cty.StringVal("")})
	ctx.Variables["map"] = cty.MapVal(map[string]cty.Value{"a": cty.Zero, "b": cty.NumberFloatVal(1.5)})
	ctx.Variables["null"] = cty.NullVal(cty.DynamicPseudoType)
	return ctx
}

// expressions begin the corpus: each function with each of a few arguments, and what has ended a process before.
func expressions() (all []string) {
	for i, name := range funcs.Names() {
		args := []string{`"a"`, `list`, `map, "a"`, `"%s", "x"`, `list, 1, -1`, `unknown`, `null, secret`, `"[0-9]+", "a1"`}
		all = append(all, fmt.Sprintf("%s(%s)", name, args[i%len(args)]))
	}
	return append(all, strings.Repeat("(", 3000)+"1"+strings.Repeat(")", 3000), `1e100000000 + 1`, `format("%1000000000d", 1)`,
		`[for a in range(20) : [for b in range(20) : [for c in range(20) : [a, b, c]]]]`, `range(1e12)`,
		`jsondecode("`+strings.Repeat("[", 20000)+`")`, `yamldecode("a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]")`,
		`setproduct(range(1000), range(1000), range(1000))`, `join("", [for i in range(100000) : "0123456789"])`,
		`replace("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "/(a+)+b/", "x")`, `cidrsubnets("10.0.0.0/8", 1e9)`,
		`templatestring("$${templatestring(a, { a = a })}", { a = "$${a}" })`, `"${[for v in list : "${v}${v}"][*]}"`)
}

// FuzzExpressions evaluates expressions of the native syntax, with all functions.
func FuzzExpressions(f *testing.F) {
	for _, src := range expressions() {
		f.Add(src)
	}
	ctx := strange(f)
	f.Fuzz(func(t *testing.T, src string) {
		within(t, src, func() {
			if e, diags := syntax.ParseExpression([]byte(src), "fuzz.tf", hcl.InitialPos); !diags.HasErrors() {
				_, _ = e.Value(ctx)
			}
		})
	})
}

// FuzzTemplates evaluates templates, as those of a file.
func FuzzTemplates(f *testing.F) {
	for _, src := range []string{"%{ for v in list ~}\n${v}\n%{ endfor ~}", "%{ if unknown == 1 }a%{ else }b%{ endif }",
		"$${a} %%{ ${map.a}", "%{ for a in range(100) }%{ for b in range(100) }${a}${b}%{ endfor }%{ endfor }",
		strings.Repeat("${", 3000), "${templatestring(\"$${a}\", {a = list})}"} {
		f.Add(src)
	}
	ctx := strange(f)
	f.Fuzz(func(t *testing.T, src string) {
		within(t, src, func() {
			if e, diags := syntax.ParseTemplate([]byte(src), "fuzz.tftpl", hcl.InitialPos); !diags.HasErrors() {
				_, _ = e.Value(ctx)
			}
			_, _ = ctx.Functions["templatestring"].Call([]cty.Value{cty.StringVal(src), cty.ObjectVal(ctx.Variables)})
		})
	})
}

// FuzzFilesInJSON evaluates the attributes of files in the JSON syntax, whose texts are templates.
func FuzzFilesInJSON(f *testing.F) {
	for _, src := range []string{`{"a": "${list[0]}", "b": ["${map}", null, 1e3], "c": {"${upper("d")}": true}}`,
		`{"a": "%{ for v in range(1000) }${v}%{ endfor }"}`, `{"a": ` + strings.Repeat("[", 3000), `{"a": 1e100000000}`,
		`{"a": "` + strings.Repeat("${", 2000) + `"}`} {
		f.Add([]byte(src))
	}
	ctx := strange(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		within(t, string(src), func() {
			file, diags := syntax.ParseJSON(src, "fuzz.tf.json")
			if diags.HasErrors() || file == nil {
				return
			}
			attributes, _ := file.Body.JustAttributes()
			for _, a := range attributes {
				_, _ = a.Expr.Value(ctx)
			}
		})
	})
}

// decoding fuzzes a function that decodes a text: what it returns must be within the bounds of values, so that it can
// be stored and encoded again.
func decoding(f *testing.F, name, inverse string, seeds ...string) {
	for _, src := range seeds {
		f.Add(src)
	}
	table := strange(f).Functions
	f.Fuzz(func(t *testing.T, src string) {
		within(t, src, func() {
			v, err := table[name].Call([]cty.Value{cty.StringVal(src)})
			if err != nil {
				return
			}
			if err := syntax.CheckValue(v); err != nil {
				t.Errorf("%v: %q", err, src)
			}
			_, _ = table[inverse].Call([]cty.Value{v})
		})
	})
}

// FuzzJSONDecode decodes JSON.
func FuzzJSONDecode(f *testing.F) {
	decoding(f, "jsondecode", "jsonencode", `{"a":[1,null,true,"\u00e9"],"b":{}}`, `1e100000000`, strings.Repeat("[", 5000),
		strings.Repeat(`{"a":`, 5000), "\xff", `{"a":1,"a":2}`, "1"+strings.Repeat("0", 5000))
}

// FuzzYAMLDecode decodes YAML, whose aliases may grow.
func FuzzYAMLDecode(f *testing.F) {
	var bomb strings.Builder
	bomb.WriteString("l0: &l0 [x, x, x, x, x, x, x, x, x]\n")
	for i := range 12 {
		nine := strings.Join(slices.Repeat([]string{fmt.Sprintf("*l%d", i)}, 9), ", ")
		fmt.Fprintf(&bomb, "l%d: &l%d [%s]\n", i+1, i+1, nine)
	}
	decoding(f, "yamldecode", "yamlencode", bomb.String(),
		"a: &a [1, .inf, 0x1F, ~, 2001-12-14]\nb: *a\n<<: {c: !!binary aGk=}",
		strings.Repeat("[", 3000), strings.Repeat("- ", 3000), "a: &a\n  b: *a", "? [x]\n: y", "1e100000000")
}
