package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheHelpOfEveryCommandDescribesItsOptionsAndNoOthers(t *testing.T) {
	for _, c := range commands {
		t.Run(c.Name, func(t *testing.T) {
			var out, problems bytes.Buffer
			a := newApp(strings.NewReader(""), &out, &problems, nil)
			if code := a.Run(context.Background(), append(strings.Fields(c.Name), "-help")); code != 0 {
				t.Fatalf("-help exits with %d: %s", code, &problems)
			}
			help := out.String()
			if !strings.HasPrefix(help, "Usage: coordinator ") {
				t.Errorf("the help begins with %.40q", help)
			}
			if a.Flags == nil {
				return // a group of commands
			}
			var registered []string
			a.Flags.VisitAll(func(f *flag.Flag) {
				refused := c.Name == "console" && f.Name == "json" // there for the sake of its error alone
				if !refused {
					registered = append(registered, f.Name)
				}
			})
			if d := cmp.Diff(registered, described(help)); d != "" {
				t.Errorf("-registered +described\n%s", d)
			}
		})
	}
}

var option = regexp.MustCompile(`^-([a-z-]+)(?:[=\[ ]|$)`)

// described returns the options that a help text describes: those at the beginnings of its indented lines.
func described(help string) []string {
	var out []string
	for line := range strings.Lines(help) {
		if !strings.HasPrefix(line, "  -") {
			continue
		}
		for word := range strings.SplitSeq(strings.TrimSpace(line), ", ") {
			m := option.FindStringSubmatch(word)
			if m == nil {
				break
			}
			out = append(out, m[1])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestAnOptionOfOpenTofuThatIsNotThereIsRefusedWithTheReason(t *testing.T) {
	for line, reason := range map[string]string{
		"plan -ignore-remote-version":            "not defined: -ignore-remote-version\n",
		"import -show-sensitive a.b c":           "-show-sensitive: an import shows no values",
		"validate -never-was-one-and-never-will": "not defined: -never-was-one-and-never-will\n",
	} {
		var out, problems bytes.Buffer
		code := newApp(strings.NewReader(""), &out, &problems, nil).Run(context.Background(), strings.Fields(line))
		if code != 1 || !strings.Contains(problems.String(), reason) {
			t.Errorf("%s exits with %d and says:%s", line, code, problems.String())
		}
	}
}

func TestTheListOfCommandsHasEachThatIsNotHidden(t *testing.T) {
	var out bytes.Buffer
	if code := newApp(strings.NewReader(""), &out, &out, nil).Run(context.Background(), []string{"-help"}); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	for _, c := range commands {
		if got := strings.Contains(out.String(), fmt.Sprintf("\n  %-22s ", c.Name)); got == c.Hidden {
			t.Errorf("%s: listed %v, hidden %v", c.Name, got, c.Hidden)
		}
		if c.Synopsis == "" && !c.Hidden {
			t.Errorf("%s has no synopsis", c.Name)
		}
	}
}
