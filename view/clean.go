// Package view shows plans, states, progress, diagnostics and the results of tests to people, as text.
//
// It only reads what it is given. The JSON that programs read is in package document, below this one.
package view

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Clean returns a writer for text that people read. It is the one place that keeps control characters from the
// terminal: values, addresses, reasons, names and lines of output are words of providers, provisioners, workers and
// modules, who are not trusted with it. What is left are line breaks, tabs and colours, where ink has any; colours are
// left out where it has none. Everything else is written as a sign that can be seen. Documents for programs are not
// written through it.
//
// Each call of Write is cleaned by itself, except for a character that is spread over two.
func Clean(w io.Writer, ink Ink) io.Writer {
	if c, ok := w.(*cleaner); ok {
		w = c.out
	}
	return &cleaner{out: w, ink: ink}
}

type cleaner struct {
	out  io.Writer
	ink  Ink
	rest []byte // the begin of a character whose end has not come yet
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

// whole returns how much of text ends with a whole character.
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

// suspect reports whether a character controls a terminal. Bytes that are no text count as such, because terminals may
// take some for control characters.
func suspect(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f || r == utf8.RuneError
}

// sign returns what stands for a suspect character. Only the first set of control characters has signs of its own.
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

// colour returns the length of what follows an escape character, when both only choose how the characters behind
// them look, and do not hide them; else 0.
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

// printable is clean for a part of a text that has no colours of its own.
func printable(s string) string { return clean(s, false) }
