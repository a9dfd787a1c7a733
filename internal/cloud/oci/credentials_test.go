package oci

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/environ"
)

func TestTheClosestCredentialsWinAndOfSeveralTheFirst(t *testing.T) {
	home := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return file
	}
	pair := func(name string) string { return base64.StdEncoding.EncodeToString([]byte(name + ":pw")) }
	write(
		"run/containers/auth.json",
		fmt.Sprintf(
			`{"auths":{"a.example/x":{"auth":%q},"a.example":{"auth":%q},"e.example":{}}}`,
			pair("run-x"),
			pair("run"),
		),
	)
	write(".config/containers/auth.json", "broken")
	write(
		".docker/config.json",
		fmt.Sprintf(
			`{"auths":{"a.example":{"auth":%q},"b.example":{"auth":%q}},"credHelpers":{"c.example":"own"},"credsStore":"all"}`,
			pair("docker"),
			pair("docker-b"),
		),
	)
	listed := write("listed.json", fmt.Sprintf(`{"auths":{"b.example":{"auth":%q}}}`, pair("listed")))
	for _, name := range []string{"own", "all", "none"} {
		text := "#!/bin/sh\nread -r host\necho \"{\\\"Username\\\":\\\"" + name +
			" $host\\\",\\\"Secret\\\":\\\"pw\\\"}\"\n"
		if name == "none" {
			text = "#!/bin/sh\necho credentials not found in native keychain\nexit 1\n"
		}
		write("bin/docker-credential-"+name, text)
	}
	s := cloud.Environment{Environ: environ.Of(map[string]string{
		"HOME": home, "XDG_RUNTIME_DIR": filepath.Join(home, "run"),
		"PATH": filepath.Join(home, "bin") + string(os.PathListSeparator) + os.Getenv("PATH"),
	})}.Completed()
	rule := func(prefix, name string) Rule { return Rule{Prefix: prefix, Credentials: Credentials{Username: name}} }
	for claim, c := range map[string]struct {
		policy     Policy
		host, path string
		want       string
	}{
		"a file's path before its host": {Policy{}, "a.example", "x/y", "run-x"},
		"whole segments count":          {Policy{}, "a.example", "xy", "run"},
		"the first file wins":           {Policy{}, "a.example", "z", "run"},
		"a rule before a file":          {Policy{Rules: []Rule{rule("a.example", "rule")}}, "a.example", "z", "rule"},
		"the closer wins over a rule": {Policy{Rules: []Rule{rule("a.example", "rule")}},
			"a.example", "x", "run-x"},
		"the closest rule wins": {Policy{Rules: []Rule{rule("a.example/x", "rule-x"),
			rule("a.example/x/y", "rule-y")}}, "a.example", "x/y/z", "rule-y"},
		"a helper of a host":              {Policy{}, "c.example", "x", "own https://c.example"},
		"a helper of all hosts":           {Policy{}, "d.example", "x", "all https://d.example"},
		"an empty entry gives way":        {Policy{}, "e.example", "x", "all https://e.example"},
		"the default helper before files": {Policy{Helper: "own"}, "d.example", "x", "own https://d.example"},
		"a helper without gives way":      {Policy{Helper: "none"}, "d.example", "x", "all https://d.example"},
		"no discovery":                    {Policy{NoDiscovery: true}, "a.example", "x", ""},
		"no files":                        {Policy{Files: []string{}}, "a.example", "x", ""},
		"files that are named":            {Policy{Files: []string{listed}}, "b.example", "x", "listed"},
		"and no others":                   {Policy{Files: []string{listed}}, "a.example", "x", ""},
		"a port is part of the host": {Policy{Rules: []Rule{rule("a.example:5000", "port")}},
			"a.example:5000", "x", "port"},
	} {
		t.Run(claim, func(t *testing.T) {
			got, err := c.policy.find(t.Context(), s, c.host, c.path)
			if err != nil || got.Username != c.want {
				t.Errorf("got %q, %v, want %q", got.Username, err, c.want)
			}
		})
	}
	for claim, c := range map[string]struct {
		policy Policy
		want   string
	}{
		"a file that is missing": {Policy{Files: []string{filepath.Join(home, "gone.json")}}, "gone.json"},
		"a file that is broken": {Policy{Files: []string{filepath.Join(home, ".config/containers/auth.json")}},
			"not valid JSON"},
		"a helper that is gone": {Policy{Helper: "gone"}, "docker-credential-gone"},
		"a helper with a path":  {Policy{Helper: "../evil"}, "not the name"},
	} {
		if _, err := c.policy.find(t.Context(), s, "z.example", "x"); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", claim, err)
		}
	}
}
