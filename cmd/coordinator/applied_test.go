package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// A saved plan that had been applied could be applied again as soon as its objects were gone: the objects were created
// a second time. Nothing differed from the state that the plan was made for.
func TestASavedPlanIsAppliedOnce(t *testing.T) {
	for how, between := range map[string][][]string{
		"destroyed":      {{"destroy", "-auto-approve"}},
		"forgotten":      {{"state", "rm", "terraform_data.a"}},
		"changed since":  {{"apply", "-auto-approve", "-var", "v=2"}, {"apply", "-auto-approve", "-var", "v=0"}},
		"nothing at all": nil,
	} {
		t.Run(how, func(t *testing.T) {
			t.Chdir(t.TempDir())
			run := func(args ...string) (string, int) {
				t.Helper()
				var out bytes.Buffer
				a := newApp(strings.NewReader(""), &out, &out, []string{"TF_CLI_CONFIG_FILE=" + os.DevNull})
				code := a.Run(t.Context(), args)
				return out.String(), code
			}
			must := func(args ...string) {
				t.Helper()
				if out, code := run(args...); code != 0 {
					t.Fatalf("%v: exit code %d\n%s", args, code, out)
				}
			}
			write := func(name, text string) {
				t.Helper()
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("main.tf", `
variable "v" { default = 0 }
resource "terraform_data" "a" { input = var.v }
`)
			must("init")
			if how == "changed since" { // the plan updates an object, and others give it back its former content
				must("apply", "-auto-approve")
				must("plan", "-out=p", "-var", "v=1")
			} else {
				must("plan", "-out=p")
			}
			must("apply", "p")
			for _, args := range between {
				must(args...)
			}
			if out, code := run("apply", "p"); code != 1 || !strings.Contains(out, "has applied this plan already") {
				t.Errorf("applied again: exit code %d\n%s", code, out)
			}
			must("plan", "-out=p")
			must("apply", "p")
		})
	}
}

// A plan whose apply has changed nothing can be applied when the cause of the failure is mended, as in OpenTofu.
func TestAPlanWhoseApplyChangedNothingCanBeAppliedAgain(t *testing.T) {
	t.Chdir(t.TempDir())
	run := func(args ...string) (string, int) {
		t.Helper()
		var out bytes.Buffer
		a := newApp(strings.NewReader(""), &out, &out, []string{"TF_CLI_CONFIG_FILE=" + os.DevNull})
		code := a.Run(t.Context(), args)
		return out.String(), code
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("main.tf", `resource "terraform_data" "a" { input = file("f") }`)
	write("f", "planned")
	for _, args := range [][]string{{"init"}, {"plan", "-out=p"}} {
		if out, code := run(args...); code != 0 {
			t.Fatalf("%v: exit code %d\n%s", args, code, out)
		}
	}
	write("f", "changed") // the apply fails, because the provider's plan is another one now
	if out, code := run("apply", "p"); code != 1 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	write("f", "planned")
	if out, code := run("apply", "p"); code != 0 {
		t.Errorf("exit code %d\n%s", code, out)
	}
}
