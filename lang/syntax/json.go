package syntax

import (
	"bytes"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// checkJSON reports whether a file in the JSON syntax is within the bounds, with the templates in its strings.
func checkJSON(src []byte, name string) hcl.Diagnostics {
	depth, tokens, numerals := 0, 0, Numerals{}
	at := position{Pos: hcl.InitialPos}
	for i := 0; i < len(src); i++ {
		switch src[i] {
		case '[', '{':
			if depth++; depth > MaxDepth {
				return tooDeep(at.move(src, i).at(name))
			}
			tokens++
		case ']', '}':
			depth = max(0, depth-1)
			tokens++
		case ',', ':':
			tokens++
		case '"':
			end := stringEnd(src, i+1)
			tokens++
			if text := src[i+1 : end]; bytes.Contains(text, []byte("${")) || bytes.Contains(text, []byte("%{")) {
				start := at.move(src, i+1)
				diags := check(unescaped(text), name, start.Pos, hclsyntax.LexTemplate)
				if diags.HasErrors() {
					return diags
				}
			}
			i = end
		case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			end := i + NumeralLen(src[i:])
			if err := numerals.Add(string(src[i:end])); err != nil {
				return tooGreat(at.move(src, i).at(name), err)
			}
			i = end - 1
		}
	}
	if tokens > MaxTokens {
		return tooLarge(name)
	}
	return nil
}

// stringEnd returns the index of the quote that ends a string.
func stringEnd(src []byte, i int) int {
	for ; i < len(src); i++ {
		switch src[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(src)
}

// unescaped removes the backslashes of quotes in a string, which the template in it does not have.
func unescaped(text []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(text, []byte(`\"`), []byte(`"`)), []byte(`\n`), []byte("\n"))
}

// position is a place in a text.
type position struct{ hcl.Pos }

// move returns the position of a byte behind p.
func (p *position) move(src []byte, to int) position {
	passed := src[p.Byte:to]
	if lines := bytes.Count(passed, []byte("\n")); lines > 0 {
		p.Line += lines
		p.Column = len(passed) - bytes.LastIndexByte(passed, '\n')
	} else {
		p.Column += len(passed)
	}
	p.Byte = to
	return *p
}

func (p position) at(name string) hcl.Range {
	end := p.Pos
	end.Byte, end.Column = end.Byte+1, end.Column+1
	return hcl.Range{Filename: name, Start: p.Pos, End: end}
}
