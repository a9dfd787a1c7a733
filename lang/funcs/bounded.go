package funcs

import (
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	regexpsyntax "regexp/syntax"
	"strconv"
	"strings"

	ctyyaml "github.com/zclconf/go-cty-yaml"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// Some functions make a large result of small arguments, or recurse as deep as their argument is nested. They check the
// size and depth of the result beforehand, against the limits of package bounds. Otherwise a few lines of configuration
// would take all memory, or overflow the stack, and a program cannot recover from that.

// bounded returns a function, whose result is never null, with a check of its known arguments before it is called. The
// arguments of check have no marks of their own.
func bounded(fn function.Function, check func(args []cty.Value) error) function.Function {
	return checked(fn, check, notNull)
}

// boundedNullable is bounded for a function whose result may be null.
func boundedNullable(fn function.Function, check func(args []cty.Value) error) function.Function {
	return checked(fn, check, nil)
}

func checked(fn function.Function, check func(args []cty.Value) error,
	refine func(*cty.RefinementBuilder) *cty.RefinementBuilder) function.Function {
	return function.New(&function.Spec{
		Params: fn.Params(), VarParam: fn.VarParam(), RefineResult: refine,
		Type: func(args []cty.Value) (cty.Type, error) {
			known := make([]cty.Value, len(args))
			for i, arg := range args {
				if known[i], _ = arg.Unmark(); !known[i].IsKnown() || known[i].IsNull() {
					return fn.ReturnTypeForValues(args)
				}
			}
			if err := check(known); err != nil {
				return cty.NilType, err
			}
			return fn.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return fn.Call(args) },
	})
}

// size returns the number of elements of a collection or structure, 0 for anything else.
func size(v cty.Value) int {
	if ty := v.Type(); v.IsKnown() && !v.IsNull() && (ty.IsCollectionType() || ty.IsTupleType() || ty.IsObjectType()) {
		v, _ = v.Unmark()
		return v.LengthInt()
	}
	return 0
}

// maxAdded is how many elements a function may join. Tuples have a type for each element, which takes as much memory as
// the element.
const maxAdded = bounds.Elements / 2

var errTooManyAdded = fmt.Errorf("the collections together have more than %d elements, which is the most that are "+
	"joined", maxAdded)

// added checks the sum of the sizes of collections, for functions that join them.
func added(args []cty.Value) error {
	total := 0
	for _, arg := range args {
		if total += size(arg); total > maxAdded {
			return errTooManyAdded
		}
	}
	return nil
}

// multiplied checks the product of the sizes of collections. Each of its elements has one of each collection.
func multiplied(args []cty.Value) error {
	total := 1 + len(args)
	for _, arg := range args {
		n := size(arg)
		if n == 0 {
			return nil
		}
		if total > bounds.Elements/n {
			return fmt.Errorf("the product has more than %d elements, which is the most that a value may have",
				bounds.Elements)
		}
		total *= n
	}
	return nil
}

// written checks a value that becomes text.
func written(args []cty.Value) error { return syntax.CheckWritten(args[0]) }

// maxEncoded is the length of an encoded text, which can be several times that of the text.
const maxEncoded = bounds.String + bounds.String/2

var errTooLongEncoded = fmt.Errorf("the encoded text would have more than %d MiB, which is the most that it may have",
	maxEncoded>>20)

// encodedInBase64 checks the length of the result of base64encode.
func encodedInBase64(args []cty.Value) error {
	if base64.StdEncoding.EncodedLen(len(textOf(args[0]))) > maxEncoded {
		return errTooLongEncoded
	}
	return nil
}

// percentEncoded checks the length of the result of urlencode: a byte takes three bytes unless it is of a common
// letter.
func percentEncoded(args []cty.Value) error {
	text := textOf(args[0])
	if 3*len(text) <= maxEncoded {
		return nil
	}
	n := len(text)
	for i := range len(text) {
		if c := text[i]; c < '0' || c > 'z' || c > '9' && c < 'A' || c > 'Z' && c < 'a' {
			n += 2
		}
	}
	if n > maxEncoded {
		return errTooLongEncoded
	}
	return nil
}

// flattened checks all elements of a value, at every depth, and how many become elements of one tuple.
func flattened(args []cty.Value) error {
	if err := syntax.CheckValue(args[0]); err != nil {
		return err
	}
	if leaves(args[0]) > maxAdded {
		return errTooManyAdded
	}
	return nil
}

// leaves returns how many elements flatten finds in a value.
func leaves(v cty.Value) int {
	v, _ = v.Unmark()
	if ty := v.Type(); !v.IsKnown() || v.IsNull() || !ty.IsListType() && !ty.IsSetType() && !ty.IsTupleType() {
		return 1
	}
	n := 0
	for it := v.ElementIterator(); it.Next(); {
		_, element := it.Element()
		n += leaves(element)
	}
	return n
}

// textOf returns a known string; empty for anything else.
func textOf(v cty.Value) string {
	if v, _ = v.Unmark(); v.Type() == cty.String && v.IsKnown() && !v.IsNull() {
		return v.AsString()
	}
	return ""
}

// joinedText checks the length of the result of join.
func joinedText(args []cty.Value) error {
	separator, total := len(textOf(args[0])), 0
	for _, list := range args[1:] {
		if size(list) == 0 {
			continue
		}
		for it := list.ElementIterator(); it.Next(); {
			_, element := it.Element()
			if total += separator + len(textOf(element)); total > bounds.String {
				return syntax.ErrTooLong
			}
		}
	}
	return nil
}

// indentedText checks the length of the result of indent.
func indentedText(args []cty.Value) error {
	text := textOf(args[1])
	spaces, _ := args[0].AsBigFloat().Float64()
	if spaces*float64(strings.Count(text, "\n"))+float64(len(text)) > bounds.String || spaces > bounds.String {
		return syntax.ErrTooLong
	}
	return nil
}

// replacedText checks the length of the result of replace.
func replacedText(args []cty.Value) error {
	text, old, with := textOf(args[0]), textOf(args[1]), textOf(args[2])
	if expression, ok := betweenSlashes(old); ok {
		if err := search(expression, text); err != nil {
			return err
		}
	}
	if len(text)+(len(text)+1)*len(with) <= bounds.String {
		return nil
	}
	var count int
	if expression, ok := betweenSlashes(old); ok {
		pattern, err := regexp.Compile(expression)
		if err != nil {
			return nil //nolint:nilerr // the function reports it
		}
		most := bounds.String/max(1, len(with)) + 1
		count = len(pattern.FindAllStringIndex(text, most)) * max(1, strings.Count(with, "$")*len(text))
	} else {
		count = strings.Count(text, old)
	}
	if float64(len(text))+float64(count)*float64(len(with)) > bounds.String {
		return syntax.ErrTooLong
	}
	return nil
}

// pieces checks the number of pieces that split makes.
func pieces(args []cty.Value) error {
	separator, text := textOf(args[0]), textOf(args[1])
	if len(text) > bounds.Elements && strings.Count(text, separator) > bounds.Elements {
		return syntax.ErrTooMany
	}
	return nil
}

// maxPattern is the length of a regular expression, whose compiled form takes much more memory.
const maxPattern = 1 << 20

// maxSearch bounds the time of a search: a regular expression can try all of its steps at each byte of the text.
const maxSearch = 1 << 29

// maxRepeats is how many steps one byte of a regular expression can stand for, as in x{1000}.
const maxRepeats = 1000

// searched checks the time that a search with a regular expression takes.
func searched(args []cty.Value) error { return search(textOf(args[0]), textOf(args[1])) }

func search(expression, text string) error {
	if len(expression) > maxPattern {
		return fmt.Errorf("a regular expression may have %d bytes at most", maxPattern)
	}
	if len(expression)*maxRepeats*len(text) <= maxSearch {
		return nil
	}
	program, err := stepsOf(expression)
	if err == nil && len(program.Inst)*len(text) > maxSearch {
		return fmt.Errorf("the search would take too long: the regular expression has %d steps, and the text %d bytes",
			len(program.Inst), len(text))
	}
	return nil // the function reports mistakes in the expression
}

// stepsOf returns the program of a regular expression.
func stepsOf(expression string) (*regexpsyntax.Prog, error) {
	parsed, err := regexpsyntax.Parse(expression, regexpsyntax.Perl)
	if err != nil {
		return nil, err
	}
	return regexpsyntax.Compile(parsed.Simplify())
}

// betweenSlashes returns the regular expression that an argument of replace is; false if it is a text.
func betweenSlashes(old string) (string, bool) {
	if len(old) > 1 && strings.HasPrefix(old, "/") && strings.HasSuffix(old, "/") {
		return old[1 : len(old)-1], true
	}
	return "", false
}

// matches checks the time of a search, and the number of matches that regexall finds.
func matches(args []cty.Value) error {
	if err := searched(args); err != nil {
		return err
	}
	text := textOf(args[1])
	if len(text) <= bounds.Elements {
		return nil
	}
	pattern, err := regexp.Compile(textOf(args[0]))
	if err != nil {
		return nil //nolint:nilerr // the function reports it
	}
	if len(pattern.FindAllStringIndex(text, bounds.Elements+1)) > bounds.Elements {
		return syntax.ErrTooMany
	}
	return nil
}

// maxWidth is the maximum width and precision of a verb of format.
const maxWidth = 1 << 20

// formatted checks the length of the result of format.
func formatted(args []cty.Value) error {
	one, err := formattedLength(args)
	if err == nil && one > bounds.String {
		err = syntax.ErrTooLong
	}
	return err
}

// formattedLists checks the length of all results of formatlist together.
func formattedLists(args []cty.Value) error {
	one, err := formattedLength(args)
	if err != nil {
		return err
	}
	count := 1
	for _, arg := range args[1:] {
		count = max(count, size(arg))
	}
	if one*float64(count) > bounds.String*2 {
		return syntax.ErrTooLong
	}
	return nil
}

// formattedLength returns a bound for the length of one result of format.
func formattedLength(args []cty.Value) (float64, error) {
	format := textOf(args[0])
	longest := 0
	for _, arg := range args[1:] {
		n, err := shownLength(arg)
		if err == nil && strings.ContainsAny(format, "bodxXeEfFgG") { // verbs of numbers
			err = readable(arg)
		}
		if err != nil {
			return 0, err
		}
		longest = max(longest, n)
	}
	total := float64(len(format)) + float64(strings.Count(format, "%"))*float64(longest)
	for i := 0; i < len(format); i++ {
		from := i
		for i < len(format) && format[i] >= '0' && format[i] <= '9' {
			i++
		}
		if i-from < 2 {
			continue
		}
		width, err := strconv.Atoi(format[from:i])
		if strings.LastIndexByte(format[:from], '%') < 0 ||
			from > 0 && !strings.ContainsRune("%.-+ #0[", rune(format[from-1])) {
			continue // it is text
		}
		if err != nil || width > maxWidth {
			return 0, fmt.Errorf("a width or precision may be %d at most", maxWidth)
		}
		total += float64(width)
	}
	return total, nil
}

// readable checks that the text of an argument, or the texts in a list, are not too long to be read as numbers.
func readable(v cty.Value) error {
	if v, _ = v.Unmark(); !v.IsKnown() || v.IsNull() || !v.CanIterateElements() {
		return syntax.CheckNumeral(textOf(v))
	}
	for it := v.ElementIterator(); it.Next(); {
		_, element := it.Element()
		if err := syntax.CheckNumeral(textOf(element)); err != nil {
			return err
		}
	}
	return nil
}

// shownLength returns a bound for the length of an argument of format.
func shownLength(v cty.Value) (int, error) {
	v, _ = v.Unmark()
	switch {
	case !v.IsKnown() || v.IsNull():
		return 0, nil
	case v.Type() == cty.String:
		return len(v.AsString()), nil
	case v.Type().IsPrimitiveType():
		return 0, syntax.CheckValue(v)
	}
	longest := 0
	for it := v.ElementIterator(); it.Next(); {
		_, element := it.Element()
		if t := textOf(element); len(t) > longest {
			longest = len(t)
		}
	}
	return longest, syntax.CheckWritten(v)
}

// number checks that a number can be written.
func number(args []cty.Value) error { return syntax.CheckValue(args[0]) }

// digits checks that a text is not too long to be read as a number.
func digits(args []cty.Value) error { return syntax.CheckNumeral(textOf(args[0])) }

// rows checks the size of the result of csvdecode.
func rows(args []cty.Value) error {
	text := textOf(args[0])
	if len(text) > bounds.Elements && strings.Count(text, ",")+strings.Count(text, "\n") > bounds.Elements {
		return syntax.ErrTooMany
	}
	return nil
}

// maxCost is the maximum cost of bcrypt: each one doubles the time, and this one takes seconds.
const maxCost = 16

var errDeepText = fmt.Errorf("the text is nested more than %d levels deep, which is the most that is read",
	bounds.Depth)

// jsonText checks a JSON text before it is read.
func jsonText(text string) error {
	depth, elements, numerals := 0, 0, syntax.Numerals{}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '[', '{':
			if depth++; depth > bounds.Depth {
				return errDeepText
			}
			elements++
		case ']', '}':
			depth--
		case ',':
			elements++
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		default:
			if c < '0' || c > '9' {
				continue
			}
			end := i + syntax.NumeralLen(text[i:])
			if err := numerals.Add(text[i:end]); err != nil {
				return err
			}
			i = end - 1
		}
	}
	if elements > bounds.Elements {
		return syntax.ErrTooMany
	}
	return nil
}

func jsonDecode() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{plain("str", cty.String)},
		Type: func(args []cty.Value) (cty.Type, error) {
			if !args[0].IsKnown() {
				return stdlib.JSONDecodeFunc.ReturnTypeForValues(args)
			}
			text := args[0].AsString()
			if err := jsonText(text); err != nil {
				return cty.NilType, function.NewArgError(0, err)
			}
			return ctyjson.ImpliedType([]byte(text))
		},
		Impl: func(args []cty.Value, ty cty.Type) (cty.Value, error) {
			return ctyjson.Unmarshal([]byte(args[0].AsString()), ty)
		},
	})
}

func yamlDecode() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{plain("src", cty.String)},
		Type: func(args []cty.Value) (cty.Type, error) {
			if !args[0].IsKnown() {
				return cty.DynamicPseudoType, nil
			}
			text := args[0].AsString()
			if err := yamlText(text); err != nil {
				return cty.NilType, function.NewArgError(0, err)
			}
			ty, err := ctyyaml.Standard.ImpliedType([]byte(text))
			if err != nil {
				return cty.NilType, err
			}
			// Aliases share parts of the type, and each alias counts as much as the part that it names.
			if err := syntax.CheckType(ty); err != nil {
				return cty.NilType, function.NewArgError(0, err)
			}
			return ty, nil
		},
		Impl: func(args []cty.Value, ty cty.Type) (cty.Value, error) {
			v, err := ctyyaml.Standard.Unmarshal([]byte(args[0].AsString()), ty)
			if err == nil {
				err = syntax.CheckValue(v) // a number can have a great exponent
			}
			return v, err
		},
	})
}

// maxOpen bounds the brackets of a YAML text that are open at the ends of lines, over all lines.
const maxOpen = 4 * bounds.Depth

var errOpenBrackets = errors.New("the text opens too many brackets that the same line does not close; write it in " +
	"block style, or as JSON")

// yamlText checks a YAML text before it is read. Its reader takes time with the square of the depth. Quotes, which hide
// brackets, can begin on earlier lines, or not be quotes: each line counts as in the worst case.
func yamlText(text string) error {
	if strings.HasPrefix(strings.TrimSpace(text), "{") || strings.HasPrefix(strings.TrimSpace(text), "[") {
		if err := jsonText(text); err != nil {
			return err
		}
		if _, err := ctyjson.ImpliedType([]byte(text)); err == nil {
			return nil
		}
	}
	if err := yamlNumbers(text); err != nil {
		return err
	}
	open, lines := 0, 0
	for line := range strings.Lines(text) {
		lines++
		if leading := len(line) - len(strings.TrimLeft(line, " -?")); leading > maxOpen {
			return errDeepText
		}
		if strings.ContainsAny(line, "[{") {
			open += max(leftOpen(line, 0), leftOpen(line, '"'), leftOpen(line, '\''))
		}
	}
	if open > maxOpen {
		return errOpenBrackets
	}
	if lines+strings.Count(text, ",") > bounds.Elements {
		return syntax.ErrTooMany
	}
	return nil
}

// yamlNumbers checks what could be numbers in a YAML text. Exponents are checked once it is read: they are short, and a
// text between quotes can look like one.
func yamlNumbers(text string) error {
	var numerals syntax.Numerals
	for len(text) > 0 {
		end := len(text) - len(strings.TrimLeft(text, "0123456789._"))
		if err := numerals.Add(strings.ReplaceAll(text[:end], "_", "")); err != nil {
			return err
		}
		text = text[end:]
		if next := strings.IndexAny(text, "0123456789"); next >= 0 {
			text = text[next:]
		} else {
			return nil
		}
	}
	return nil
}

// leftOpen returns how many brackets a line leaves open if a quote was open before it; 0 for none.
func leftOpen(line string, quote byte) int {
	open := 0
	for i := range len(line) {
		switch c := line[i]; {
		case c == quote:
			quote = 0
		case quote != 0:
		case c == '"' || c == '\'':
			quote = c
		case c == '[' || c == '{':
			open++
		case (c == ']' || c == '}') && open > 0:
			open--
		}
	}
	return open
}
