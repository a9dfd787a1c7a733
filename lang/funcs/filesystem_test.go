package funcs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/funcs"
)

func TestFiles(t *testing.T) {
	dir := directory(t, map[string]string{
		"a.txt": "hello", "nfd.txt": "e\u0301", "binary": "\xff\x00", "empty": "",
		"tree/b.txt": "b", "tree/.hidden": "h", "tree/sub/c.txt": "c", "tree/sub/d.json": "{}",
	})
	o := funcs.Options{BaseDir: dir, Env: environ.Variables{"HOME=" + dir}}
	same{
		"file reads from the base directory": {`file("a.txt")`, `"hello"`},
		"a tilde is the home directory":      {`file("~/a.txt")`, `"hello"`},
		"file composes characters, digests do not": {
			`[length(file("nfd.txt")), filesha256("nfd.txt") == sha256(file("nfd.txt"))]`, `[1, false]`},
		"the path's mark is the content's": {`file(sensitive("a.txt"))`, `sensitive("hello")`},
		"filebase64 reads any bytes":       {`filebase64("binary")`, `"/wA="`},
		"file digests are those of strings": {
			`[filemd5("a.txt"), filesha1("a.txt"), filesha256("a.txt"), filesha512("a.txt")]`,
			`[md5("hello"), sha1("hello"), sha256("hello"), sha512("hello")]`},
		"file digests in base64": {`[filebase64sha256("a.txt"), filebase64sha512("a.txt")]`,
			`[base64sha256("hello"), base64sha512("hello")]`},
		"fileexists": {
			`[fileexists("a.txt"), fileexists("nope"), fileexists("nope/../a.txt")]`, `[true, false, true]`},
		"fileset lists files, with hidden ones": {`fileset("tree", "*")`, `toset(["b.txt", ".hidden"])`},
		"fileset goes down by two stars": {`fileset("tree", "**/*.{txt,json}")`,
			`toset(["b.txt", "sub/c.txt", "sub/d.json"])`},
		"fileset of a directory that is not there": {`jsonencode(fileset("nope", "*"))`, `"[]"`},
		"fileset takes alternatives":               {`fileset("tree", "{b,{c,d},e}.{txt,json}")`, `toset(["b.txt"])`},
		"fileset leaves directories out":           {`jsonencode(fileset("tree", "sub"))`, `"[]"`},
		"fileset can look outside":                 {`fileset("tree", "../a.txt")`, `toset(["../a.txt"])`},
		"fileset carries the marks of both arguments": {
			`[issensitive(fileset(sensitive("tree"), "*")), issensitive(fileset("tree", sensitive("*")))]`,
			`[true, true]`},
		"basename and dirname": {
			`[basename("a/b/"), dirname("a/b"), basename(""), dirname("a")]`, `["b", "a", ".", "."]`},
		"pathexpand leaves other paths": {`[pathexpand("a~"), pathexpand("~") == pathexpand("~/")]`,
			`["a~", true]`},
		"abspath starts at the base directory": {`abspath("tree/../a.txt")`,
			`"` + filepath.ToSlash(filepath.Join(dir, "a.txt")) + `"`},
		"abspath leaves absolute paths":                {`abspath("/x/../y")`, `"/y"`},
		"an unknown path has an unknown, real content": {`file(unknown) == null`, `false`},
	}.prove(t, o)
	refused{
		"a file that is not there": {`file("nope")`, badArgument, `there is no file "nope"`, ""},
		"a secret path is hidden": {`file(secret)`, badArgument, "there is no file (sensitive value)",
			"hunter2"},
		"a directory is no file":          {`file("tree")`, badArgument, `reading "tree"`, ""},
		"a secret directory is hidden":    {`file(sensitive("tree"))`, badArgument, "(sensitive value)", "tree"},
		"bytes that are no text":          {`file("binary")`, badCall, "filebase64 reads any file", ""},
		"the digest of what is not there": {`filemd5("nope")`, badCall, "no such file", ""},
		"the digest of a directory":       {`filesha256("tree")`, badCall, "is a directory", ""},
		"fileexists of a directory": {`fileexists("tree")`, badCall, "is a directory, not a regular file",
			""},
		"fileexists of a secret directory": {`fileexists(sensitive("tree"))`, badCall,
			"(sensitive value) is a directory", "tree"},
		"a pattern that is not closed": {`fileset("tree", "{a")`, badCall, "syntax error in pattern", ""},
		// The time of these doubles with each part.
		"a pattern of many stars": {`fileset("tree", "**/**/**/**/**/a")`, badCall, "more than 4 parts **", ""},
		"a pattern of many alternatives": {
			`fileset("tree", "{a,b}*{a,b}*{a,b}*{a,b}*{a,b}*{a,b}*{a,b}*{a,b}*{a,b}*{a,b}*c")`, badCall,
			"more than 1000 combinations", ""},
		"a secret pattern that is not closed": {`fileset("tree", sensitive("{a"))`, badCall,
			"(sensitive value)", "{a"},
		"the home directory of someone else":    {`pathexpand("~somebody/x")`, badCall, "another user", ""},
		"a file in someone else's directory":    {`file("~somebody/x")`, badArgument, "another user", ""},
		"a digest in someone else's directory":  {`filemd5("~somebody/x")`, badCall, "another user", ""},
		"existence in someone else's directory": {`fileexists("~somebody/x")`, badCall, "another user", ""},
		"base64 of a file that is not there":    {`filebase64("nope")`, badArgument, "there is no file", ""},
	}.prove(t, o)
}

// The base directory was part of the pattern, so that * or [ in its name were matched like the pattern itself.
func TestADirectoryWhoseNameLooksLikeAPatternHasFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b]{c}*")
	if err := os.MkdirAll(filepath.Join(dir, "tree"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tree", "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	same{"fileset": {`fileset("tree", "*")`, `toset(["x"])`}}.prove(t, funcs.Options{BaseDir: dir})
}

func TestErrorsNameAFileAsTheConfigurationDoes(t *testing.T) {
	dir := t.TempDir()
	refused{
		"a digest": {`filemd5("nope")`, badCall, "open nope: no such file", dir},
		"a set":    {`fileset("tree", "{a")`, badCall, `matching "tree/{a"`, dir},
	}.prove(t, funcs.Options{BaseDir: dir})
}

func TestASymbolicLinkToNowhereFailsFileset(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("nowhere", filepath.Join(dir, "link")); err != nil {
		t.Skip("this system makes no symbolic links: ", err)
	}
	refused{"the link": {`fileset(".", "*")`, badCall, "looking at", ""}}.prove(t, funcs.Options{BaseDir: dir})
}
