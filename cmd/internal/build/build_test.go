package build

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/apparentlymart/go-versions/versions"
)

func TestTheVersionIsASemanticOneWhateverTheBuildRecords(t *testing.T) {
	const revision = "0123456789abcdef0123456789abcdef01234567"
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: revision},
			{Key: "vcs.modified", Value: modified}}
	}
	made := func(module string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: module}, Settings: settings}
	}
	const at = development + "+0123456789ab"
	for sentence, c := range map[string]struct {
		released string
		info     *debug.BuildInfo
		want     string
	}{
		"the linker decides":                      {"1.2.3", made("v0.9.0", vcs("true")...), "1.2.3"},
		"the linker may have the name of a tag":   {"v1.2.3-rc.1", nil, "1.2.3-rc.1"},
		"a linker's text that is no version":      {"1.2", nil, development},
		"a linker's text with leading zeros":      {"1.02.3", nil, development},
		"nothing is recorded":                     {"", nil, development},
		"a test":                                  {"", made("(devel)"), development},
		"an installed release":                    {"", made("v1.2.3"), "1.2.3"},
		"an installed release candidate":          {"", made("v1.2.3-rc.1"), "1.2.3-rc.1"},
		"an installed revision":                   {"", made("v0.1.1-0.20260102030405-0123456789ab"), at},
		"an installed revision before any tag":    {"", made("v0.0.0-20260102030405-0123456789ab"), at},
		"an installed revision after a candidate": {"", made("v1.2.3-rc.1.0.20260102030405-0123456789ab"), at},
		"a checkout of a tag":                     {"", made("v1.2.3", vcs("false")...), "1.2.3"},
		"a checkout of a tag with changes":        {"", made("v1.2.3+dirty", vcs("true")...), at + ".dirty"},
		"a checkout":                              {"", made("(devel)", vcs("false")...), at},
		"a checkout with changes":                 {"", made("(devel)", vcs("true")...), at + ".dirty"},
		"a checkout, with a version of Go": {"",
			made("v0.1.1-0.20260102030405-0123456789ab+dirty", vcs("true")...), at + ".dirty"},
	} {
		got := version(c.released, c.info)
		if got != c.want {
			t.Errorf("%s: %s, not %s", sentence, got, c.want)
		}
		if _, err := versions.ParseVersion(got); err != nil {
			t.Errorf("%s: %s", sentence, err)
		}
	}
}

// Whoever compares versions finds that a development version is newer than the last release, and older than the next.
func TestADevelopmentVersionIsBetweenTwoReleases(t *testing.T) {
	parse := func(text string) versions.Version {
		t.Helper()
		v, err := versions.ParseVersion(text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	v := parse(development + "+0123456789ab.dirty")
	next := parse(strings.TrimSuffix(development, "-dev"))
	if last := parse("0.1.0"); !v.GreaterThan(last) || !v.LessThan(next) || !v.Same(parse(development)) {
		t.Errorf("%s is not between %s and %s", v, last, next)
	}
}

// Real builds, of this package with a program that prints the version, in a repository of its own.
func TestTheVersionComesFromTheBuild(t *testing.T) {
	dir := t.TempDir()
	source, err := os.ReadFile("build.go")
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/millipede-iac/millipede"
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module "+module+"\n\ngo 1.24\n")
	write("cmd/internal/build/build.go", string(source))
	write("cmd/show/main.go", "package main\n\nimport (\n\t\"fmt\"\n\n\t\""+module+"/cmd/internal/build\"\n)\n\n"+
		"func main() { fmt.Println(build.Version()) }\n")
	run := func(name string, args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), name, args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GOWORK=off", "GOTOOLCHAIN=local", "GIT_CONFIG_GLOBAL="+os.DevNull,
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a",
			"GIT_COMMITTER_EMAIL=a@example.com")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %s\n%s", name, strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	program := filepath.Join(t.TempDir(), "show")
	built := func(want string, flags ...string) {
		t.Helper()
		args := append([]string{"build", "-o", program}, flags...)
		run("go", append(args, "./cmd/show")...)
		if got := run(program); got != want {
			t.Errorf("built with %q, the version is %s, not %s", flags, got, want)
		}
	}
	run("git", "init", "-q", "-b", "main")
	run("git", "add", "-A")
	run("git", "commit", "-q", "-m", "first")
	at := development + "+" + run("git", "rev-parse", "HEAD")[:revisionLength]
	built(at, "-buildvcs=true")
	built(development, "-buildvcs=false")
	set := "-X " + module + "/cmd/internal/build.released="
	built("3.2.1", "-ldflags", set+"3.2.1")
	built(at, "-buildvcs=true", "-ldflags", set)
	run("git", "tag", "v0.3.0")
	built("0.3.0", "-buildvcs=true")
	write("cmd/show/more.go", "package main\n")
	built(at+".dirty", "-buildvcs=true")
}
