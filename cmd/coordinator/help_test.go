package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
)

func TestTheHelpOfEveryCommandNamesAllItsOptions(t *testing.T) {
	for _, c := range commands {
		t.Run(c.name, func(t *testing.T) {
			var out, problems bytes.Buffer
			a := newApp(strings.NewReader(""), &out, &problems, nil)
			if code := a.run(context.Background(), append(strings.Fields(c.name), "-help")); code != 0 {
				t.Fatalf("-help exits with %d: %s", code, &problems)
			}
			help := out.String()
			if !strings.HasPrefix(help, "Usage: coordinator ") {
				t.Errorf("the help begins with %.40q", help)
			}
			if a.flags == nil {
				return // a group of commands
			}
			a.flags.VisitAll(func(f *flag.Flag) {
				if f.Name != "help" && f.Name != "h" && !strings.Contains(help, "-"+f.Name) {
					t.Errorf("the help does not name -%s", f.Name)
				}
			})
		})
	}
}

func TestTheListOfCommandsHasEachThatIsNotHidden(t *testing.T) {
	var out bytes.Buffer
	if code := newApp(strings.NewReader(""), &out, &out, nil).run(context.Background(), []string{"-help"}); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	for _, c := range commands {
		if got := strings.Contains(out.String(), fmt.Sprintf("\n  %-22s ", c.name)); got == c.hidden {
			t.Errorf("%s: listed %v, hidden %v", c.name, got, c.hidden)
		}
		if c.synopsis == "" && !c.hidden {
			t.Errorf("%s has no synopsis", c.name)
		}
	}
}
