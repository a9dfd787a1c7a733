package funcs_test

import (
	"testing"

	"github.com/millipede-iac/millipede/lang/funcs"
)

func TestEncodings(t *testing.T) {
	same{
		"base64 both ways":               {`base64decode(base64encode("héllo"))`, `"héllo"`},
		"base64decode ignores line ends": {`base64decode("SGVs\nbG8=")`, `"Hello"`},
		"base64decode keeps the mark":    {`base64decode(sensitive("YQ=="))`, `sensitive("a")`},
		"base64gzip has the bytes that others have": {`base64gzip("hello")`,
			`"H4sIAAAAAAAA/8pIzcnJBwAAAP//AQAA//+GphA2BQAAAA=="`},
		"gzip both ways":              {`base64gunzip(base64gzip("日本語"))`, `"日本語"`},
		"base64gunzip keeps the mark": {`base64gunzip(sensitive(base64gzip("x")))`, `sensitive("x")`},
		"text in another encoding both ways": {
			`textdecodebase64(textencodebase64("日本", "Shift_JIS"), "Shift_JIS")`, `"日本"`},
		"encodings have aliases":          {`textencodebase64("é", "latin1")`, `"6Q=="`},
		"UTF-16 writes a byte order mark": {`textencodebase64("a", "UTF-16")`, `"/v8AYQ=="`},
		"urlencode is for queries":        {`urlencode("a b/é")`, `"a+b%2F%C3%A9"`},
		"urldecode knows both spaces":     {`urldecode("a+b%20c")`, `"a b c"`},
		"JSON both ways": {`jsondecode(jsonencode({a = [1, null, "<"]}))`,
			`{a = [1, null, "<"]}`},
		"YAML is read by the rules of version 1.1": {`yamldecode("[yes, 017, 0o17, 0b11]")`, `[true, 17, 15, "0b11"]`},
		"YAML ends a single value with dots":       {`yamlencode(5)`, `"5\n...\n"`},
		"CSV becomes a list of objects":            {`csvdecode("a,b\n1,2\n")`, `tolist([{a = "1", b = "2"}])`},
	}.prove(t, funcs.Options{})
	refused{
		"what is not base64": {`base64decode("!")`, badCall, `"!" is not base64`, ""},
		"a secret that is not base64": {`base64decode(sensitive("h!nter2"))`, badCall,
			"(sensitive value) is not base64", "h!nter2"},
		"a secret that is not base64, compressed": {`base64gunzip(sensitive("h!nter2"))`, badCall,
			"(sensitive value) is not base64", "h!nter2"},
		"base64 of what is not UTF-8":      {`base64decode("/w==")`, badCall, "not valid UTF-8", ""},
		"base64 of what is not compressed": {`base64gunzip("aGVsbG8=")`, badCall, "decompressing", ""},
		"compressed data that was cut off": {`base64gunzip("H4sIAAAAAAAA/8pI")`, badCall, "decompressing", ""},
		"an encoding that nobody has": {`textencodebase64("a", "utf8")`, badArgument,
			`"utf8" is not the IANA name`, ""},
		"an encoding that only IANA has": {`textencodebase64("a", "UTF-32")`, badArgument,
			`"UTF-32" is not the IANA name`, ""},
		"a character that the encoding lacks": {`textencodebase64("日", "ISO-8859-1")`, badArgument,
			"characters that ISO-8859-1 lacks", ""},
		"bytes that the encoding lacks": {`textdecodebase64("/w==", "UTF-8")`, badArgument,
			"not valid UTF-8", ""},
		"text that is not base64": {`textdecodebase64("SGVsbG8", "UTF-8")`, badArgument,
			"not base64", ""},
		"a broken percent sign": {`urldecode("%zz")`, badCall, "invalid URL escape", ""},
		"empty YAML":            {`yamldecode("")`, badCall, "", ""},
	}.prove(t, funcs.Options{})
}
