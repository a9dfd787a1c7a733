package coding

import (
	"bytes"
	"fmt"
)

// jsonShare is how often, on average, cty may copy each byte of a JSON document while decoding it, and jsonFree is
// the number of bytes that it may copy in any case: a nested value is copied once for each enclosing value.
const (
	jsonShare = 32
	jsonFree  = 64 << 20
)

// checkJSON rejects a document that is deeper than depth, or so deeply nested that decoding it would be
// disproportionately expensive. numbers is set if strings may represent numbers, whose length is bounded. It does
// not check whether the document is valid.
func checkJSON(data []byte, depth int, numbers bool) error {
	var opened []int // where each array and object around the place begins
	copied, allowed := 0, jsonFree+jsonShare*len(data)
	for i := 0; i < len(data); i++ {
		switch c := data[i]; c {
		case '"':
			end := skipText(data, i+1)
			if numbers && end-i > maxDigits && allDigits(data[i+1:end]) {
				return fmt.Errorf("%w: a number of %d digits", ErrMalformed, end-i)
			}
			i = end
		case '[', '{':
			if len(opened) == depth {
				return fmt.Errorf("%w: nested deeper than %d", ErrMalformed, depth)
			}
			opened = append(opened, i)
		case ']', '}':
			if len(opened) == 0 {
				return ErrMalformed
			}
			copied += i - opened[len(opened)-1]
			if opened = opened[:len(opened)-1]; copied > allowed {
				return fmt.Errorf("%w: too much is nested in too much", ErrMalformed)
			}
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			end := i
			for end < len(data) && isDigit(data[end]) {
				end++
			}
			if end-i > maxDigits {
				return fmt.Errorf("%w: a number of %d digits", ErrMalformed, end-i)
			}
			i = end - 1
		}
	}
	return nil
}

// TextAttribute returns the string value of an attribute of a JSON object, and false if there is no such attribute,
// or if it is not a string. Nothing else of the object is decoded; an invalid document has no attributes.
func TextAttribute(object []byte, name string) (string, bool) {
	depth, isName := 0, false // whether the next string at depth 1 is the name of an attribute
	for i := 0; i < len(object); i++ {
		switch object[i] {
		case '{', '[':
			if depth == 0 && object[i] == '[' {
				return "", false
			}
			depth++
			isName = depth == 1
		case '}', ']':
			depth--
		case ',':
			isName = depth == 1
		case ':':
			isName = false
		case '"':
			end := skipText(object, i+1)
			if isName && string(object[i+1:end]) == name {
				return textAfter(object[min(end+1, len(object)):])
			}
			i = end
		}
	}
	return "", false
}

// textAfter returns the string after the colon at the beginning of data.
func textAfter(data []byte) (text string, ok bool) {
	data = bytes.TrimLeft(data, " \t\r\n:")
	if len(data) == 0 || data[0] != '"' {
		return "", false
	}
	r := jsonReader{rest: data}
	return r.text()
}

// skipText returns the end of the string that begins at i.
func skipText(data []byte, i int) int {
	for ; i < len(data) && data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return min(i, len(data))
}

// isDigit reports whether a byte can be part of a number.
func isDigit(c byte) bool {
	return c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

func allDigits(data []byte) bool {
	for _, c := range data {
		if !isDigit(c) {
			return false
		}
	}
	return true
}
