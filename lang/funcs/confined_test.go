package funcs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/millipede-iac/millipede/internal/reach"
	"github.com/millipede-iac/millipede/lang/funcs"
)

// The functions opened every path of the machine, so that whoever could plan in a service could read its key. They also
// told which files exist.
func TestConfinedFunctionsTellNothingOfOtherFiles(t *testing.T) {
	base := directory(t, map[string]string{
		"run/config/a.txt": "a", "run/config/mod/t.tftpl": "${x}", "run/config/[odd]/b.txt": "b",
		"service.key": "key", "run/variables": "v",
	})
	dir := filepath.Join(base, "run", "config")
	for name, to := range map[string]string{"out": "../../service.key", "up": "../..", "near": "a.txt"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	o := funcs.Options{BaseDir: dir, Files: reach.Below(dir)}
	same{
		"a file":              {`file("a.txt")`, `"a"`},
		"an absolute path":    {fmt.Sprintf(`file(%q)`, filepath.Join(dir, "a.txt")), `"a"`},
		"a link inside":       {`filebase64("near")`, `"YQ=="`},
		"a template":          {`templatefile("mod/t.tftpl", { x = "b" })`, `"b"`},
		"a digest":            {`filemd5("./mod/../a.txt")`, `"0cc175b9c0f1b6a831c399e269772661"`},
		"existence":           {`[fileexists("a.txt"), fileexists("b.txt")]`, `[true, false]`},
		"a set":               {`fileset(".", "**.txt")`, `toset(["a.txt"])`},
		"a set of all depths": {`fileset("mod", "**")`, `toset(["t.tftpl"])`},
		"a set by a full path": {fmt.Sprintf(`fileset(%q, "{a,b}.txt")`, filepath.ToSlash(dir)),
			`toset(["a.txt"])`},
		"links out are in no set": {`fileset(".", "{out,up/*,up/run/*,near}")`, `toset(["near"])`},
	}.prove(t, o)
	const outside = "outside of the configuration"
	claims := refused{}
	for _, path := range []string{"../../service.key", "../variables", "out", "up/service.key", "/etc/passwd",
		"/proc/self/environ", "../../missing", filepath.ToSlash(filepath.Join(base, "service.key"))} {
		for _, call := range []string{`file(%q)`, `filebase64(%q)`, `fileexists(%q)`, `templatefile(%q, {})`,
			`filesha256(%q)`, `filebase64sha512(%q)`, `filemd5(%q)`} {
			expr := fmt.Sprintf(call, path)
			summary := badCall
			if call == `file(%q)` || call == `filebase64(%q)` || call == `templatefile(%q, {})` {
				summary = badArgument
			}
			claims[expr] = failure{expr: expr, summary: summary, detail: outside}
		}
	}
	for _, args := range []string{`"..", "*"`, `"../..", "**"`, `"/etc", "*"`, `".", "../*"`, `"/", "**"`} {
		claims["fileset "+args] = failure{expr: "fileset(" + args + ")", summary: badCall, detail: outside}
	}
	claims.prove(t, o)
	same{"alternatives lead nowhere else": {`fileset(".", "{..,mod}/*")`, `toset(["mod/t.tftpl"])`}}.prove(t, o)
	odd := filepath.Join(dir, "[odd]")
	same{"a directory that looks like a pattern": {`fileset(".", "*")`, `toset(["b.txt"])`}}.prove(t,
		funcs.Options{BaseDir: odd, Files: reach.Below(odd)})
}
