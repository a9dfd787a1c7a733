// Package format formats source code of the configuration language.
//
// Spacing and alignment are those of hclwrite. The package also modernizes constructs that only older versions of
// the language required. It reads and writes no files, and does not change the meaning of code.
package format

import (
	"bytes"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// Source returns src formatted; name is for diagnostics. Code that cannot be parsed is an error, and nil is
// returned. Formatting is idempotent.
func Source(name string, src []byte) ([]byte, diag.List) {
	if problems := syntax.CheckConfig(src, name, hcl.InitialPos); problems.HasErrors() {
		return nil, diag.List(nil).Append(problems)
	}
	// hclwrite reports problems less precisely than the parser itself.
	if _, problems := hclsyntax.ParseConfig(src, name, hcl.InitialPos); problems.HasErrors() {
		return nil, diag.List(nil).Append(problems)
	}
	file, problems := hclwrite.ParseConfig(src, name, hcl.InitialPos)
	if problems.HasErrors() {
		return nil, diag.List(nil).Append(problems)
	}
	body(file.Body(), "")
	return hclwrite.Format(file.Bytes()), nil
}

// body rewrites the content of a block of the given type; empty for the file itself.
func body(b *hclwrite.Body, blockType string) {
	for name, attr := range b.Attributes() {
		old := attr.Expr().BuildTokens(nil)
		var now hclwrite.Tokens
		if blockType == "variable" && name == "type" {
			now = typeConstraint(old)
		} else {
			now = unwrapped(old)
		}
		if now != nil {
			b.SetAttributeRaw(name, now)
		}
	}
	for _, block := range b.Blocks() {
		block.SetLabels(block.Labels()) // this quotes them
		body(block.Body(), block.Type())
	}
}

// unwrapped returns the expression in a string that consists of one interpolation, as the language required before
// version 0.12; nil for other expressions. If the inner expression has line breaks, parentheses are added, because
// the string no longer encloses it.
func unwrapped(tokens hclwrite.Tokens) hclwrite.Tokens {
	last := len(tokens) - 1
	if last < 3 || tokens[0].Type != hclsyntax.TokenOQuote || tokens[1].Type != hclsyntax.TokenTemplateInterp ||
		tokens[last-1].Type != hclsyntax.TokenTemplateSeqEnd || tokens[last].Type != hclsyntax.TokenCQuote {
		return nil
	}
	inner := tokens[2 : last-1]
	depth := 0
	for _, t := range inner {
		switch t.Type {
		case hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			depth++
		case hclsyntax.TokenTemplateSeqEnd:
			if depth--; depth < 0 {
				return nil // the first interpolation ends before the string does
			}
		}
	}
	for len(inner) > 0 && inner[0].Type == hclsyntax.TokenNewline {
		inner = inner[1:]
	}
	for len(inner) > 0 && inner[len(inner)-1].Type == hclsyntax.TokenNewline {
		inner = inner[:len(inner)-1]
	}
	if len(inner) == 0 {
		return nil
	}
	for _, t := range inner {
		if t.Type == hclsyntax.TokenNewline {
			return parenthesised(inner)
		}
	}
	return inner
}

func parenthesised(tokens hclwrite.Tokens) hclwrite.Tokens {
	out := make(hclwrite.Tokens, 0, len(tokens)+2)
	out = append(out, &hclwrite.Token{Type: hclsyntax.TokenOParen, Bytes: []byte("(")})
	out = append(out, tokens...)
	return append(out, &hclwrite.Token{Type: hclsyntax.TokenCParen, Bytes: []byte(")")})
}

// typeConstraint returns the current form of a variable's type in the form of version 0.11: quoted and with
// elements that were always strings, or a collection type without its element type; nil for other types.
func typeConstraint(tokens hclwrite.Tokens) hclwrite.Tokens {
	switch {
	case len(tokens) == 1 && tokens[0].Type == hclsyntax.TokenIdent:
		switch kind := string(tokens[0].Bytes); kind {
		case "list", "map", "set":
			return collection(kind, "any")
		}
	case len(tokens) == 3 && tokens[0].Type == hclsyntax.TokenOQuote && tokens[1].Type == hclsyntax.TokenQuotedLit &&
		tokens[2].Type == hclsyntax.TokenCQuote:
		switch kind := string(bytes.TrimSpace(tokens[1].Bytes)); kind {
		case "string":
			return hclwrite.TokensForIdentifier("string")
		case "list", "map":
			return collection(kind, "string")
		}
	}
	return nil
}

func collection(kind, element string) hclwrite.Tokens {
	return hclwrite.TokensForFunctionCall(kind, hclwrite.TokensForIdentifier(element))
}
