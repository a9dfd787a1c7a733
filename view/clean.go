// Package view shows plans, states, progress, diagnostics and the results of tests to people, as text.
//
// It only reads its arguments. Package document, below this one, makes the JSON that programs read.
package view

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Clean returns a writer for text that people read. It replaces control characters: values, addresses, reasons,
// names and lines of output come from providers, provisioners, workers and modules, which must not control the
// terminal. Line breaks and tabs are kept, colours only if ink has colours. Other control characters are replaced
// by visible symbols. JSON documents are not written through it.
//
// Each call of Write is cleaned separately, except that a character may be split between two calls.
func Clean(w io.Writer, ink Ink) io.Writer {
	if c, ok := w.(*cleaner); ok {
		w = c.out
	}
	return &cleaner{out: w, ink: ink}
}

type cleaner struct {
	out  io.Writer
	ink  Ink
	rest []byte // the beginning of a character that is still incomplete
}

func (c *cleaner) Write(p []byte) (int, error) {
	text := p
	if len(c.rest) > 0 {
		text = append(c.rest, p...)
	}
	end := whole(text)
	cleaned := clean(string(text[:end]), c.ink)
	c.rest = append([]byte(nil), text[end:]...)
	if _, err := io.WriteString(c.out, cleaned); err != nil {
		return 0, err
	}
	return len(p), nil
}

// whole returns the length of the longest prefix of text that ends with a complete character.
func whole(text []byte) int {
	for i := len(text) - 1; i >= 0 && i >= len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if utf8.FullRune(text[i:]) {
				break
			}
			return i
		}
	}
	return len(text)
}

// clean returns text as Clean writes it.
func clean(text string, ink Ink) string {
	if !strings.ContainsFunc(text, suspect) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		rest := text[i+size:]
		switch {
		case r == '\x1b':
			if n := colour(rest); n > 0 {
				size += n
				b.WriteString(ink.on(text[i : i+size]))
			} else {
				b.WriteRune(sign(r))
			}
		case r == '\r' && strings.HasPrefix(rest, "\n"):
			b.WriteByte('\r')
		case suspect(r):
			b.WriteRune(sign(r))
		default:
			b.WriteString(text[i : i+size])
		}
		i += size
	}
	return b.String()
}

// suspect reports whether a terminal may interpret a character as a control character. Invalid UTF-8 counts as
// such.
func suspect(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f || r == utf8.RuneError
}

// sign returns the visible symbol for a suspect character. Only the C0 control characters have symbols of their
// own.
func sign(r rune) rune {
	switch {
	case r < ' ':
		return '␀' + r
	case r == 0x7f:
		return '␡'
	default:
		return utf8.RuneError
	}
}

// colour returns the length of a sequence after an escape character if it only changes colours or weight and does
// not hide text; otherwise 0.
func colour(rest string) int {
	const longest = 16
	if !strings.HasPrefix(rest, "[") {
		return 0
	}
	end := strings.IndexByte(rest[:min(len(rest), longest)], 'm')
	if end < 0 {
		return 0
	}
	for code := range strings.SplitSeq(rest[1:end], ";") {
		switch code {
		case "", "0", "00", "1", "01", "2", "02", "3", "03", "4", "04", "22", "23", "24", "39":
		default:
			if len(code) != 2 || code[0] != '3' && code[0] != '9' || code[1] < '0' || code[1] > '7' {
				return 0
			}
		}
	}
	return end + 1
}

// printable returns a text that has no colours of its own, cleaned.
func printable(s string) string { return clean(s, false) }
