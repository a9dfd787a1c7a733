package funcs

import (
	"errors"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

func text() family {
	return family{
		"chomp":    {stdlib.ChompFunc, "Takes the line ends off the end of a string."},
		"endswith": {endsWith(), "Tells whether a string ends with another one."},
		"format": {bounded(stdlib.FormatFunc, formatted),
			"Builds a string by putting values in the places of the verbs of a format " +
				"such as \"%s-%03d\"."},
		"formatlist": {bounded(stdlib.FormatListFunc, formattedLists),
			"Builds a list of strings by applying one format to the elements of lists."},
		"indent": {bounded(indent(), indentedText), "Puts a number of spaces before each line of a string except the first."},
		"join": {bounded(stdlib.JoinFunc, joinedText),
			"Builds one string of the elements of lists of strings, with a separator " +
				"between them."},
		"lower": {stdlib.LowerFunc, "Turns all letters of a string into lower case."},
		"regex": {bounded(stdlib.RegexFunc, searched),
			"Finds the first match of a regular expression in a string, and gives its text or its capture groups."},
		"regexall": {bounded(stdlib.RegexAllFunc, matches),
			"Finds all matches of a regular expression in a string, and gives a " +
				"list of them."},
		"replace": {bounded(replace(), replacedText),
			"Replaces each occurrence of a piece of a string; a piece between slashes is a " +
				"regular expression."},
		"split":       {bounded(stdlib.SplitFunc, pieces), "Cuts a string at each occurrence of a separator."},
		"startswith":  {startsWith(), "Tells whether a string begins with another one."},
		"strcontains": {strContains(), "Tells whether a string occurs inside another one."},
		"strrev":      {stdlib.ReverseFunc, "Puts the characters of a string in the opposite order."},
		"substr": {stdlib.SubstrFunc, "Takes a piece out of a string, by an offset and a length that count " +
			"characters."},
		"title":      {stdlib.TitleFunc, "Turns the first letter of each word of a string into upper case."},
		"trim":       {trim(), "Takes the given characters off both ends of a string."},
		"trimprefix": {stdlib.TrimPrefixFunc, "Takes a prefix off a string that begins with it."},
		"trimspace":  {stdlib.TrimSpaceFunc, "Takes white space off both ends of a string."},
		"trimsuffix": {stdlib.TrimSuffixFunc, "Takes a suffix off a string that ends with it."},
		"upper":      {stdlib.UpperFunc, "Turns all letters of a string into upper case."},
	}
}

func endsWith() function.Function {
	return returning(cty.Bool, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		return cty.BoolVal(strings.HasSuffix(args[0].AsString(), args[1].AsString())), nil
	}, plain("str", cty.String), plain("suffix", cty.String))
}

func strContains() function.Function {
	return returning(cty.Bool, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		return cty.BoolVal(strings.Contains(args[0].AsString(), args[1].AsString())), nil
	}, plain("str", cty.String), plain("substr", cty.String))
}

// startsWith can often decide for a string whose beginning alone is known, such as "arn:${aws_x.y.id}".
func startsWith() function.Function {
	str := plain("str", cty.String)
	str.AllowUnknown = true
	return returning(cty.Bool, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		prefix := args[1].AsString()
		if args[0].IsKnown() {
			return cty.BoolVal(strings.HasPrefix(args[0].AsString(), prefix)), nil
		}
		known := args[0].Range().StringPrefix()
		switch {
		case strings.HasPrefix(known, prefix):
			return cty.True, nil
		case strings.HasPrefix(prefix, known):
			return cty.UnknownVal(cty.Bool), nil
		default:
			return cty.False, nil
		}
	}, str, plain("prefix", cty.String))
}

// trim looks characters up in a table: go-cty's function searches all that it may take off for each one.
func trim() function.Function {
	return returning(cty.String, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		off := map[rune]bool{}
		for _, r := range args[1].AsString() {
			off[r] = true
		}
		return cty.StringVal(strings.TrimFunc(args[0].AsString(), func(r rune) bool { return off[r] })), nil
	}, plain("str", cty.String), plain("cutset", cty.String))
}

func indent() function.Function {
	return returning(cty.String, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if args[0].LessThan(cty.Zero).True() {
			return cty.NilVal, errors.New("the number of spaces must not be negative")
		}
		return stdlib.Indent(args[0], args[1])
	}, plain("spaces", cty.Number), plain("str", cty.String))
}

func replace() function.Function {
	return returning(cty.String, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if expression, ok := betweenSlashes(args[1].AsString()); ok {
			return stdlib.RegexReplace(args[0], cty.StringVal(expression), args[2])
		}
		return stdlib.Replace(args[0], args[1], args[2])
	}, plain("str", cty.String), plain("substr", cty.String), plain("replace", cty.String))
}
