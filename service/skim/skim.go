// Package skim reads JSON of which only a little is looked at, several times as fast as a decoder does: what is passed
// is checked for its brackets, separators and literals alone.
//
// It reads from front to back, keeps no more of the text than the value that is asked for, and knows nothing of what
// the text means.
package skim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// The bounds of what is read.
const (
	// MaxDepth is how deep values are nested at most, as for the standard library's decoder.
	MaxDepth = 10_000
	// maxLiteral is how long a number is at most, and maxNames how many different keys are kept for their next use.
	maxLiteral, maxNames = 1 << 20, 256
	// window is how much is read at a time at least.
	window = 64 << 10
)

// Reader reads one text. An error of any method is the end of it.
type Reader struct {
	in  io.Reader // nil where buf has all of it
	buf []byte    // what was read and is still needed is in buf[at:end]
	at  int
	end int
	// kept is where the value in buf begins that is to be returned whole; -1 for none.
	kept  int
	base  int64 // of buf in the text
	open  []byte
	names map[string]string
}

// New returns a reader of a text.
func New(text io.Reader) *Reader {
	return &Reader{in: text, buf: make([]byte, window), kept: -1, names: map[string]string{}}
}

// Within returns a reader of a value that Raw has returned, as long as that is good.
func (r *Reader) Within(raw []byte) *Reader {
	return &Reader{buf: raw, end: len(raw), kept: -1, names: r.names}
}

// fill reads more. The error is io.ErrUnexpectedEOF at the end of the text.
func (r *Reader) fill() error {
	if r.in == nil {
		return io.ErrUnexpectedEOF
	}
	from := r.at
	if r.kept >= 0 {
		from = r.kept
	}
	if from > 0 {
		r.end = copy(r.buf, r.buf[from:r.end])
		r.at, r.base = r.at-from, r.base+int64(from)
		if r.kept >= 0 {
			r.kept = 0
		}
	}
	if r.end == len(r.buf) {
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
	for {
		n, err := r.in.Read(r.buf[r.end:])
		r.end += n
		switch {
		case n > 0:
			return nil
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
	}
}

// next returns the next byte that is no space, and stays before it.
func (r *Reader) next() (byte, error) {
	for {
		for i, c := range r.buf[r.at:r.end] {
			switch c {
			case ' ', '\t', '\n', '\r':
			default:
				r.at += i
				return c, nil
			}
		}
		r.at = r.end
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
}

// take reads a byte that has to come next.
func (r *Reader) take(want byte) error {
	c, err := r.next()
	if err != nil {
		return err
	}
	if c != want {
		return fmt.Errorf("there is %q where %q is expected", c, want)
	}
	r.at++
	return nil
}

// Members calls each for the members of the object that comes next, which has to read the member's value. Null counts
// as empty.
func (r *Reader) Members(each func(key string) error) error {
	return r.enclosed('{', '}', func() error {
		key, err := r.Text()
		if err == nil {
			err = r.take(':')
		}
		if err != nil {
			return err
		}
		return each(key)
	})
}

// Elements calls each for the elements of the list that comes next, which has to read the element. Null counts as
// empty.
func (r *Reader) Elements(each func() error) error { return r.enclosed('[', ']', each) }

func (r *Reader) enclosed(begin, end byte, each func() error) error {
	c, err := r.next()
	if err != nil {
		return err
	}
	if c == 'n' {
		return r.literal()
	}
	if err := r.take(begin); err != nil {
		return err
	}
	if c, err = r.next(); err != nil {
		return err
	}
	for c != end {
		if err := each(); err != nil {
			return err
		}
		if c, err = r.next(); err != nil {
			return err
		}
		if c == end {
			break
		}
		if err := r.take(','); err != nil {
			return err
		}
		if c, err = r.next(); err != nil {
			return err
		}
		if c == end {
			return fmt.Errorf("there is %q behind a comma", c)
		}
	}
	r.at++
	return nil
}

// Text reads a string.
func (r *Reader) Text() (string, error) {
	c, err := r.next()
	if err != nil {
		return "", err
	}
	if c != '"' {
		return "", fmt.Errorf("there is %q where a string is expected", c)
	}
	raw, _, err := r.Raw()
	if err != nil {
		return "", err
	}
	if bytes.IndexByte(raw, '\\') >= 0 {
		var text string
		err := json.Unmarshal(raw, &text)
		return text, err
	}
	raw = raw[1 : len(raw)-1]
	if known, ok := r.names[string(raw)]; ok {
		return known, nil
	}
	text := string(raw)
	if len(r.names) < maxNames {
		r.names[text] = text
	}
	return text, nil
}

// Decode reads the value that comes next, as json.Unmarshal does.
func (r *Reader) Decode(v any) error {
	raw, _, err := r.Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

// Raw returns the value that comes next as it stands, and where in the text it begins, in bytes. It is good until more
// is read.
func (r *Reader) Raw() ([]byte, int64, error) {
	if _, err := r.next(); err != nil {
		return nil, 0, err
	}
	r.kept = r.at
	err := r.Skip()
	from := r.kept
	r.kept = -1
	return r.buf[from:r.at:r.at], r.base + int64(from), err
}

// Skip passes the value that comes next.
func (r *Reader) Skip() error {
	r.open = r.open[:0] // the brackets that are to come
	for {
		c, err := r.next()
		if err != nil {
			return err
		}
		switch c {
		case '"':
			err = r.quoted()
		case '{', '[':
			if r.open = append(r.open, c+2); len(r.open) > MaxDepth { // the end of either is two further
				return errors.New("it is nested too deep")
			}
			r.at++
			continue
		case '}', ']':
			if len(r.open) == 0 || r.open[len(r.open)-1] != c {
				return fmt.Errorf("there is %q where none was begun", c)
			}
			r.open = r.open[:len(r.open)-1]
			r.at++
		case ',', ':':
			if len(r.open) == 0 {
				return fmt.Errorf("there is %q where a value is expected", c)
			}
			r.at++
			continue // a value has to follow
		default:
			err = r.literal()
		}
		if err != nil || len(r.open) == 0 {
			return err
		}
	}
}

// quoted passes a string.
func (r *Reader) quoted() error {
	r.at++
	odd := false // the text before ends in a backslash that escapes what follows
	for {
		part := r.buf[r.at:r.end]
		i := bytes.IndexByte(part, '"')
		if i >= 0 {
			part = part[:i]
		}
		n := len(part)
		for n > 0 && part[n-1] == '\\' {
			n--
		}
		escapes := (len(part)-n)%2 == 1
		if n == 0 {
			escapes = escapes != odd
		}
		odd = escapes
		if i < 0 {
			r.at = r.end
			if err := r.fill(); err != nil {
				return err
			}
			continue
		}
		r.at += i + 1
		if !odd {
			return nil
		}
		odd = false // the quotation mark is escaped
	}
}

// ends are what a number, true, false and null end before.
var ends = func() (is [256]bool) {
	for _, c := range " \t\n\r,:]}[{\"" {
		is[c] = true
	}
	return is
}()

// literal passes a number, true, false or null.
func (r *Reader) literal() error {
	n := 0 // how much of it was seen
	for {
		for r.at+n < r.end && !ends[r.buf[r.at+n]] {
			n++
		}
		if r.at+n < r.end {
			break
		}
		if n > maxLiteral {
			return errors.New("there is a number that is too long")
		}
		err := r.fill()
		if errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	text := r.buf[r.at : r.at+n]
	switch string(text) {
	case "null", "true", "false", "0", "1":
	default:
		if !json.Valid(text) {
			return fmt.Errorf("there is %.40q where a value is expected", text)
		}
	}
	r.at += n
	return nil
}

// Compact appends a value without the spaces that are not in strings.
func Compact(to, raw []byte) []byte {
	for len(raw) > 0 {
		i := 0
		for i < len(raw) && raw[i] != '"' && raw[i] != ' ' && raw[i] != '\t' && raw[i] != '\n' && raw[i] != '\r' {
			i++
		}
		to, raw = append(to, raw[:i]...), raw[i:]
		switch {
		case len(raw) == 0:
		case raw[0] == '"':
			i = closing(raw)
			to, raw = append(to, raw[:i]...), raw[i:]
		default:
			raw = raw[1:]
		}
	}
	return to
}

// closing returns the length of the string that a text begins with.
func closing(raw []byte) int {
	for i := 1; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}
