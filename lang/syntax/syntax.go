// Package syntax parses the language's two syntaxes within bounds.
//
// HCL's parsers, and the evaluation of their results, recurse: a file of 100,000 nested parentheses overflows the
// stack, and a Go program cannot recover from that. So texts are measured before they are parsed, without recursion,
// and those beyond the bounds are refused with a diagnostic at the place. Loops and templates that are parsed here also
// count what they produce (see For and Template). The package knows neither blocks nor references.
package syntax

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"

	"github.com/millipede-iac/millipede/internal/bounds"
)

// The bounds of a text. They are far above what people and programs write, and far below what overflows the stack
// (measured: 500,000 parentheses).
const (
	// MaxDepth is how deep brackets, blocks, templates and values may be nested.
	MaxDepth = bounds.Depth
	// MaxChain is how many operators may follow each other in one expression: a + a + ..., a ? b : c ? d : ..., !!a.
	MaxChain = 10_000
	// MaxTokens bounds the size of a text.
	MaxTokens = 8_000_000
)

// ParseConfig parses a file in the native syntax.
func ParseConfig(src []byte, name string, start hcl.Pos) (*hcl.File, hcl.Diagnostics) {
	if diags := CheckConfig(src, name, start); diags.HasErrors() {
		return nil, diags
	}
	f, diags := hclsyntax.ParseConfig(src, name, start)
	if f != nil {
		if body, ok := f.Body.(*hclsyntax.Body); ok {
			countBody(body)
		}
	}
	return f, diags
}

// CheckConfig reports whether a file in the native syntax is within the bounds.
func CheckConfig(src []byte, name string, start hcl.Pos) hcl.Diagnostics {
	return check(src, name, start, hclsyntax.LexConfig)
}

// ParseExpression parses an expression in the native syntax.
func ParseExpression(src []byte, name string, start hcl.Pos) (hclsyntax.Expression, hcl.Diagnostics) {
	if diags := check(src, name, start, hclsyntax.LexExpression); diags.HasErrors() {
		return nil, diags
	}
	e, diags := hclsyntax.ParseExpression(src, name, start)
	return counted(e, false), diags
}

// ParseTemplate parses a template in the native syntax.
func ParseTemplate(src []byte, name string, start hcl.Pos) (hclsyntax.Expression, hcl.Diagnostics) {
	if diags := CheckTemplate(src, name, start); diags.HasErrors() {
		return nil, diags
	}
	e, diags := hclsyntax.ParseTemplate(src, name, start)
	return counted(e, false), diags
}

// CheckTemplate reports whether a template is within the bounds.
func CheckTemplate(src []byte, name string, start hcl.Pos) hcl.Diagnostics {
	return check(src, name, start, hclsyntax.LexTemplate)
}

// ParseTraversalAbs parses an absolute traversal, such as an address.
func ParseTraversalAbs(src []byte, name string, start hcl.Pos) (hcl.Traversal, hcl.Diagnostics) {
	if diags := check(src, name, start, hclsyntax.LexExpression); diags.HasErrors() {
		return nil, diags
	}
	return hclsyntax.ParseTraversalAbs(src, name, start)
}

// ParseJSON parses a file in the JSON syntax, whose strings are templates.
func ParseJSON(src []byte, name string) (*hcl.File, hcl.Diagnostics) {
	if diags := checkJSON(src, name); diags.HasErrors() {
		return nil, diags
	}
	return json.Parse(src, name)
}

// class are the kinds of bytes that matter for a first look at a text.
var class = func() (c [256]byte) {
	for _, b := range []byte("([{") {
		c[b] = 1
	}
	for _, b := range []byte("+-*/%&|<>=!?:.") {
		c[b] = 2
	}
	for _, b := range []byte(",;)]}\"\n") {
		c[b] = 3
	}
	return c
}()

// scanner is one of HCL's scanners.
type scanner func(src []byte, name string, start hcl.Pos) (hclsyntax.Tokens, hcl.Diagnostics)

// portion is how many brackets and templates are scanned at a time. HCL's scanner takes time and memory with the square
// of the depth of templates, and its tokens take a hundred times the memory of the text.
const portion = 20_000

// check measures a text. Most texts are so small that counting their bytes is enough.
func check(src []byte, name string, start hcl.Pos, scan scanner) hcl.Diagnostics {
	var n [4]int
	for _, b := range src {
		n[class[b]]++
	}
	if n[1] <= MaxDepth && n[1]+n[2] <= MaxChain && !hasLong(src) {
		return nil
	}
	if n[1]+n[2]+n[3] > MaxTokens {
		return tooLarge(name)
	}
	for size := portion; ; {
		cut := openings(src, size)
		tokens, _ := scan(src[:cut], name, start) // the parser reports mistakes
		diags, end := measure(tokens)
		switch {
		case diags.HasErrors() || cut == len(src):
			return diags
		case end == nil: // no line ends outside of everything
			size *= 2
		default:
			src, start, size = src[end.Byte-start.Byte:], *end, portion
		}
	}
}

// openings returns the length of the part of a text that has a number of openings.
func openings(src []byte, n int) int {
	for i, b := range src {
		if class[b] == 1 {
			if n--; n < 0 {
				return i
			}
		}
	}
	return len(src)
}

// frame is one open bracket or template.
type frame struct {
	lines bool // a line ends an expression
	chain int
}

// measure finds the first token that is nested too deeply, or that is in too long a chain. end is behind the last line
// that ends outside of everything; nil if there is none.
func measure(tokens hclsyntax.Tokens) (diags hcl.Diagnostics, end *hcl.Pos) {
	open, numerals := []frame{{lines: true}}, Numerals{}
	for i, t := range tokens {
		top := &open[len(open)-1]
		switch t.Type {
		case hclsyntax.TokenOParen, hclsyntax.TokenOBrack, hclsyntax.TokenOBrace, hclsyntax.TokenOQuote,
			hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			top.chain++
			open = append(open, frame{lines: t.Type == hclsyntax.TokenOBrace})
			if len(open) > MaxDepth+1 {
				return tooDeep(t.Range), nil
			}
		case hclsyntax.TokenCParen, hclsyntax.TokenCBrack, hclsyntax.TokenCBrace, hclsyntax.TokenCQuote,
			hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
			if len(open) > 1 {
				open = open[:len(open)-1]
			}
			continue
		case hclsyntax.TokenComma:
			top.chain = 0
		case hclsyntax.TokenNewline:
			if top.lines {
				top.chain = 0
			}
			if len(open) == 1 {
				end = &tokens[i].Range.End
			}
		case hclsyntax.TokenNumberLit:
			if err := numerals.Add(string(t.Bytes)); err != nil {
				return tooGreat(t.Range, err), nil
			}
		case hclsyntax.TokenIdent, hclsyntax.TokenStringLit, hclsyntax.TokenQuotedLit, hclsyntax.TokenComment:
		default:
			top.chain++
		}
		if top.chain > MaxChain {
			return tooLong(t.Range), nil
		}
	}
	return directives(tokens), end
}

// directives finds the first %{ if } or %{ for } of a template that is nested too deeply: they are no brackets.
func directives(tokens hclsyntax.Tokens) hcl.Diagnostics {
	depth := 0
	for i, t := range tokens {
		if t.Type != hclsyntax.TokenTemplateControl || i+1 >= len(tokens) {
			continue
		}
		switch word := string(tokens[i+1].Bytes); word {
		case "if", "for":
			if depth++; depth > MaxDepth {
				return tooDeep(t.Range)
			}
		case "endif", "endfor":
			depth = max(0, depth-1)
		}
	}
	return nil
}

func tooDeep(at hcl.Range) hcl.Diagnostics {
	return problem(at, "Nested too deeply", fmt.Sprintf("Brackets, blocks and templates may be nested in each other up "+
		"to a depth of %d.", MaxDepth))
}

func tooLong(at hcl.Range) hcl.Diagnostics {
	return problem(at, "Expression too long", fmt.Sprintf("One expression may have up to %d operators that follow each "+
		"other. Split it, for example into local values.", MaxChain))
}

func tooLarge(name string) hcl.Diagnostics {
	return problem(hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}, "File too large",
		fmt.Sprintf("A text in the configuration language may have up to %d million words and signs.",
			MaxTokens/1_000_000))
}

func problem(at hcl.Range, summary, detail string) hcl.Diagnostics {
	return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: &at}}
}
