package service

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// skimmer reads JSON of which only a little is looked at, several times as fast as a decoder does: what is passed is
// checked for its brackets, separators and literals alone.
type skimmer struct {
	r   *bufio.Reader
	raw bytes.Buffer // of the string that was read last
}

func skim(text io.Reader) *skimmer { return &skimmer{r: bufio.NewReaderSize(text, 64<<10)} }

// next returns the next byte that is no space, and leaves it there.
func (s *skimmer) next() (byte, error) {
	for {
		c, err := s.r.ReadByte()
		if errors.Is(err, io.EOF) {
			return 0, io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		switch c {
		case ' ', '\t', '\n', '\r':
		default:
			return c, s.r.UnreadByte()
		}
	}
}

// take reads a byte that has to come next.
func (s *skimmer) take(want byte) error {
	c, err := s.next()
	if err != nil {
		return err
	}
	if c != want {
		return fmt.Errorf("a state has %q where %q is expected", c, want)
	}
	_, err = s.r.ReadByte()
	return err
}

// members calls each for the members of the object that comes next. each has to read the member's value.
func (s *skimmer) members(each func(key string) error) error {
	return s.enclosed('{', '}', func() error {
		key, err := s.text()
		if err != nil {
			return err
		}
		if err := s.take(':'); err != nil {
			return err
		}
		return each(key)
	})
}

// text reads a string.
func (s *skimmer) text() (t string, err error) {
	s.raw.Reset()
	if err := s.quoted(&s.raw); err != nil {
		return "", err
	}
	if b := s.raw.Bytes(); bytes.IndexByte(b, '\\') < 0 {
		return string(b[1 : len(b)-1]), nil
	}
	err = json.Unmarshal(s.raw.Bytes(), &t)
	return t, err
}

// elements calls each for the elements of the list that comes next. each has to read the element.
func (s *skimmer) elements(each func() error) error { return s.enclosed('[', ']', each) }

func (s *skimmer) enclosed(begin, end byte, each func() error) error {
	if err := s.take(begin); err != nil {
		return err
	}
	c, err := s.next()
	for first := true; err == nil && (c != end || !first); first = false {
		if err := each(); err != nil {
			return err
		}
		if c, err = s.next(); err != nil || c == end {
			break
		}
		err = s.take(',')
	}
	if err != nil {
		return err
	}
	return s.take(end)
}

// decode reads the value that comes next.
func (s *skimmer) decode(v any) error {
	var raw bytes.Buffer
	if err := s.pass(&raw); err != nil {
		return err
	}
	return json.Unmarshal(raw.Bytes(), v)
}

// maxDepth bounds how deep values are nested, as the standard library's decoder does.
const maxDepth = 10_000

// pass reads a value that is not looked at. It is written to raw, unless that is nil.
func (s *skimmer) pass(raw *bytes.Buffer) error {
	var open []byte // the brackets that are to come
	for {
		c, err := s.next()
		if err != nil {
			return err
		}
		switch {
		case c == '"':
			err = s.quoted(raw)
		case c == '{' || c == '[':
			if open = append(open, c+2); len(open) > maxDepth { // the end of either is two further
				return errors.New("a state is nested too deep")
			}
			err = s.copy(c, raw)
		case c == '}' || c == ']':
			if len(open) == 0 || open[len(open)-1] != c {
				return fmt.Errorf("a state has %q where none was begun", c)
			}
			open = open[:len(open)-1]
			err = s.copy(c, raw)
		case (c == ',' || c == ':') && len(open) > 0:
			err = s.copy(c, raw)
			if err == nil {
				continue // a value has to follow
			}
		default:
			err = s.literal(raw)
		}
		if err != nil || len(open) == 0 {
			return err
		}
	}
}

func (s *skimmer) copy(c byte, raw *bytes.Buffer) error {
	if raw != nil {
		raw.WriteByte(c)
	}
	_, err := s.r.ReadByte()
	return err
}

// quoted reads a string with its quotation marks.
func (s *skimmer) quoted(raw *bytes.Buffer) error {
	if err := s.take('"'); err != nil {
		return err
	}
	if raw != nil {
		raw.WriteByte('"')
	}
	odd := false // the text before ends in a backslash that escapes what follows
	for {
		part, err := s.r.ReadSlice('"')
		if raw != nil {
			raw.Write(part)
		}
		whole := err == nil
		if whole {
			part = part[:len(part)-1]
		}
		n := len(part) - len(bytes.TrimRight(part, `\`))
		if n < len(part) {
			odd = n%2 == 1
		} else {
			odd = odd != (n%2 == 1)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		case !odd:
			return nil
		default:
			odd = false // the quotation mark is escaped
		}
	}
}

// literal reads a number, true, false or null.
func (s *skimmer) literal(raw *bytes.Buffer) error {
	var text []byte
	for {
		c, err := s.r.ReadByte()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if bytes.IndexByte([]byte(" \t\n\r,:]}[{\""), c) >= 0 {
			if err := s.r.UnreadByte(); err != nil {
				return err
			}
			break
		}
		if text = append(text, c); len(text) > 1<<20 {
			return errors.New("a state has a number that is too long")
		}
	}
	if !json.Valid(text) {
		return fmt.Errorf("a state has %.40q where a value is expected", text)
	}
	if raw != nil {
		raw.Write(text)
	}
	return nil
}
