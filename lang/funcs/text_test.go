package funcs_test

import (
	"testing"

	"github.com/millipede-iac/millipede/lang/funcs"
)

func TestStrings(t *testing.T) {
	same{
		"replace without slashes is literal":              {`replace("a.b.c", ".", "-")`, `"a-b-c"`},
		"replace between slashes is a regular expression": {`replace("abc", "/(b)/", "[$1]")`, `"a[b]c"`},
		"two slashes are an empty regular expression":     {`replace("ab", "//", "-")`, `"-a-b-"`},
		"one slash is literal":                            {`replace("a/b", "/", "-")`, `"a-b"`},
		"startswith, endswith and strcontains": {
			`[startswith("abc", "ab"), endswith("abc", "bc"), strcontains("abc", "b")]`, `[true, true, true]`},
		"everything has the empty string in it": {
			`[startswith("", ""), endswith("", ""), strcontains("", "")]`, `[true, true, true]`},
		"a known prefix can decide startswith": {
			`[startswith(arn, "ar"), startswith(arn, "s3:"), startswith(unknown, "")]`, `[true, false, true]`},
		"a known prefix can be too short to decide": {`startswith(arn, "arn:aws")`, `strcontains(unknown, "x")`},
		"substr counts characters, not bytes":       {`substr("日本語", 1, 1)`, `"本"`},
		"substr counts from the end below zero": {`[substr("hello", -2, 0), substr("hello", 2, 0)]`,
			`["lo", ""]`},
		"strrev keeps combined characters whole": {`strrev("ae\u0301")`, `"\u00e9a"`},
		"title turns every word's first letter":  {`title("it's")`, `"It'S"`},
		"split of nothing by nothing is empty":   {`jsonencode(split("", ""))`, `"[]"`},
		"split of nothing by something is not":   {`split(",", "")`, `tolist([""])`},
		"indent leaves the first line":           {`indent(2, "a\nb\nc")`, `"a\n  b\n  c"`},
		"chomp takes all line ends":              {`chomp("a\r\n\n")`, `"a"`},
		"format prints as OpenTofu does": {`format("%v %05.2f %q %s", 1000000, 3.14159, "a\"b", true)`,
			`"1e+06 03.14 \"a\\\"b\" true"`},
		"groups of a regex that match nothing are null": {`jsonencode(regex("(a)|(b)", "b"))`, `"[null,\"b\"]"`},
		"marks go through": {`upper(secret)`, `sensitive("HUNTER2")`},
	}.prove(t, funcs.Options{})
	refused{
		"a broken regular expression":   {`replace("a", "/(/", "")`, badCall, "error parsing regexp", ""},
		"a regex that does not match":   {`regex("b", "a")`, badCall, "did not match", ""},
		"an argument too many":          {`format("%s", "a", "b")`, badArgument, "too many arguments", ""},
		"an indentation below zero":     {`indent(-1, "a\nb")`, badCall, "must not be negative", ""},
		"a list in place of a string":   {`upper(["a"])`, badArgument, "string required", ""},
		"null in place of a string":     {`startswith(null, "a")`, badArgument, "must not be null", ""},
		"an argument that is not there": {`replace("a", "b")`, "Not enough function arguments", `"replace"`, ""},
	}.prove(t, funcs.Options{})
}
