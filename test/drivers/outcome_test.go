package drivers

import (
	"flag"
	"os/exec"
	"strings"
	"testing"
)

func TestASuiteFailsForEachTestThatShouldPass(t *testing.T) {
	events := func(lines ...string) string { return strings.Join(lines, "\n") + "\n" }
	event := func(action, test string) string {
		return `{"Action":"` + action + `","Package":"example.com/a/b","Test":"` + test + `","Output":"said"}`
	}
	const whole = `{"Action":"fail","Package":"example.com/a/b"}`
	for sentence, c := range map[string]struct {
		events string
		suite  suite
		want   []string
	}{
		"all tests pass": {events(event("run", "A"), event("pass", "A")), suite{floor: 1}, nil},
		"a test fails": {events(event("run", "A"), event("output", "A"), event("fail", "A"), whole), suite{},
			[]string{"b.A failed:\nsaid"}},
		"a test fails as with OpenTofu": {events(event("run", "A"), event("fail", "A/part"), event("fail", "A"), whole),
			suite{known: map[string]string{"b.A": "the other registry"}}, nil},
		"fewer pass than did": {events(event("run", "A"), event("skip", "A")), suite{floor: 1},
			[]string{"0 tests pass, at least 1 did"}},
		"a test does not end": {events(event("run", "A"), whole), suite{}, []string{"b.A failed"}},
		"a package is not built": {events("# example.com/a/b", whole), suite{},
			[]string{"example.com/a/b failed as a whole: it was not built, or ran out of time"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			o, err := read(strings.NewReader(c.events))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := strings.Join(o.problems(c.suite), "\n"), strings.Join(c.want, "\n"); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// -work is also a flag of the go command, which refused the directory that the README names.
func TestTheGoCommandPassesOnEveryFlag(t *testing.T) {
	var flags []string
	flag.VisitAll(func(f *flag.Flag) {
		if !strings.HasPrefix(f.Name, "test.") {
			flags = append(flags, "-"+f.Name+"=true")
		}
	})
	text, err := exec.CommandContext(t.Context(), "go", append([]string{"test", "-n", "."}, flags...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, f := range flags {
		if !strings.Contains(string(text), " "+f) {
			t.Errorf("the tests do not get %s", f)
		}
	}
}
