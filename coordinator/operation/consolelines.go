package operation

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/millipede-iac/millipede/lang/syntax"
)

// ConsoleLines collects the lines of one expression: it continues while brackets are open, or after a backslash at
// the end of a line. The zero value waits for the first line.
type ConsoleLines struct {
	lines []string
	// depth is the number of open brackets, by kind.
	braces, brackets, parens int
}

// Add adds a line. If open is 0, the expression is complete, and the next line begins another one; otherwise it is
// the number of open brackets.
func (c *ConsoleLines) Add(line string) (expression string, open int) {
	line = strings.TrimSpace(line)
	if strings.HasSuffix(line, `\`) && !strings.HasSuffix(line, `\\`) {
		open++
	}
	if line = strings.TrimSuffix(line, `\`); line != "" {
		c.lines = append(c.lines, line)
		c.count(line)
	}
	if c.braces >= 0 && c.brackets >= 0 && c.parens >= 0 {
		open += c.braces + c.brackets + c.parens
	} else {
		open = 0 // a superfluous bracket is reported by the parser
	}
	if open > 0 {
		return "", open
	}
	expression = strings.Join(c.lines, "\n")
	*c = ConsoleLines{}
	return expression, 0
}

func (c *ConsoleLines) count(line string) {
	if syntax.CheckConfig([]byte(line), ConsoleSource, hcl.InitialPos).HasErrors() {
		return // the parser refuses it, and scanning it would take long
	}
	// the parser reports what is wrong
	tokens, _ := hclsyntax.LexConfig([]byte(line), ConsoleSource, hcl.InitialPos)
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrace:
			c.braces++
		case hclsyntax.TokenCBrace:
			c.braces--
		case hclsyntax.TokenOBrack:
			c.brackets++
		case hclsyntax.TokenCBrack:
			c.brackets--
		case hclsyntax.TokenOParen:
			c.parens++
		case hclsyntax.TokenCParen:
			c.parens--
		}
	}
}
