package operation_test

import (
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/coordinator/operation"
)

func TestAnExpressionGoesOnWhileSomethingIsOpen(t *testing.T) {
	for _, c := range []struct{ name, lines, open, want string }{
		{"one line", "1 + 2", "0", "1 + 2"},
		{"space around it", "  a ", "0", "a"},
		{"nothing", "", "0", ""},
		{"a list", "[|1,|]", "1 1 0", "[|1,|]"},
		{"three kinds of brackets", "f({|a = [|1]|})", "2 3 2 0", "f({|a = [|1]|})"},
		{"empty lines inside", "[||1]", "1 1 0", "[|1]"},
		{"a backslash at the end", `1 +\|2`, "1 0", "1 +|2"},
		{"two backslashes at the end", `a\\`, "0", `a\`},
		{"brackets in a string", `"[{("`, "0", `"[{("`},
		{"brackets in a template", `"${[1][0]}"`, "0", `"${[1][0]}"`},
		{"a bracket too many", "(|))", "1 0", "(|))"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var lines operation.ConsoleLines
			open := strings.Fields(c.open)
			for i, line := range strings.Split(c.lines, "|") {
				expression, n := lines.Add(line)
				if got := string(rune('0' + n)); got != open[i] {
					t.Errorf("after line %d the open brackets are %s, want %s", i+1, got, open[i])
				}
				if want := strings.ReplaceAll(c.want, "|", "\n"); n == 0 && expression != want {
					t.Errorf("the expression is %q, want %q", expression, want)
				}
			}
			if expression, n := lines.Add("next"); expression != "next" || n != 0 {
				t.Errorf("the next expression is %q, and %d are open", expression, n)
			}
		})
	}
}
