package tfstate

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

// appendCompact appends valid JSON without the space between its tokens, and escapes the characters that could end
// a script in a web page, as encoding/json does. Everything else is unchanged, so numbers keep every digit.
func appendCompact(dst, src []byte) []byte {
	inString := false
	start := 0 // the first byte that is not copied yet
	for i := 0; i < len(src); i++ {
		switch c := src[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			i++
		case inString && (c == '<' || c == '>' || c == '&'):
			dst = append(dst, src[start:i]...)
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			start = i + 1
		case inString && c == 0xE2 && i+2 < len(src) && src[i+1] == 0x80 && src[i+2]&^1 == 0xA8: // U+2028, U+2029
			dst = append(dst, src[start:i]...)
			dst = append(dst, `\u202`...)
			dst = append(dst, hexDigits[src[i+2]&15])
			i += 2
			start = i + 1
		case !inString && (c == ' ' || c == '\n' || c == '\r' || c == '\t'):
			dst = append(dst, src[start:i]...)
			for i+1 < len(src) && (src[i+1] == ' ' || src[i+1] == '\n' || src[i+1] == '\r' || src[i+1] == '\t') {
				i++
			}
			start = i + 1
		}
	}
	return append(dst, src[start:]...)
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic("tfstate: " + err.Error()) // a string is always possible
			}
			return append(dst, quoted...)
		}
	}
	dst = append(append(dst, '"'), s...)
	return append(dst, '"')
}

// indenter is a writer that formats compact JSON with two spaces per level, as json.Indent does, as a stream.
type indenter struct {
	w        io.Writer
	buf      []byte // reused
	depth    int
	opened   bool // the last byte opened an object or an array
	inString bool
	escaped  bool
}

func (d *indenter) Write(p []byte) (int, error) {
	out := d.buf[:0]
	for i := 0; i < len(p); i++ {
		c := p[i]
		if d.inString {
			end := i
			for end < len(p) && d.inString {
				switch c := p[end]; {
				case d.escaped:
					d.escaped = false
				case c == '\\':
					d.escaped = true
				case c == '"':
					d.inString = false
				}
				end++
			}
			out = append(out, p[i:end]...)
			i = end - 1
			continue
		}
		closing := c == '}' || c == ']'
		if d.opened && !closing {
			d.depth++
			out = d.line(out)
		}
		switch {
		case closing && d.opened:
			out = append(out, c) // empty
		case closing:
			d.depth--
			out = append(d.line(out), c)
		case c == ',':
			out = d.line(append(out, c))
		case c == ':':
			out = append(out, ':', ' ')
		default:
			out = append(out, c)
			d.inString = c == '"'
		}
		d.opened = c == '{' || c == '['
	}
	d.buf = out
	if _, err := d.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

var spaces = []byte(strings.Repeat(" ", 64))

func (d *indenter) line(out []byte) []byte {
	out = append(out, '\n')
	n := 2 * d.depth
	for ; n > len(spaces); n -= len(spaces) {
		out = append(out, spaces...)
	}
	return append(out, spaces[:n]...)
}

// isNull reports whether a part of a file is absent or null.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || bytes.Equal(raw, []byte("null")) }
