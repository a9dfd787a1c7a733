package suite

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
)

// expectations are the checkable objects that a run expects to fail, in the order of its expect_failures.
type expectations struct {
	names []string
	found map[string]bool
	at    map[string]hcl.Range
}

func newExpectations(r *config.TestRun) *expectations {
	e := &expectations{found: map[string]bool{}, at: map[string]hcl.Range{}}
	for _, t := range r.ExpectFailures {
		ref, diags := config.CheckableOf(t)
		if diags.HasErrors() {
			continue // the run has not checked these
		}
		name := ref.Subject.String()
		if _, dup := e.at[name]; !dup {
			e.names = append(e.names, name)
		}
		e.at[name] = ref.Range
	}
	return e
}

// record records that conditions of an object of the root module failed, and reports whether the run expects
// that.
func (e *expectations) record(object string) bool {
	candidates := []string{object}
	if i, diags := addr.ParseInstance(object); !diags.HasErrors() {
		if !i.Module.IsRoot() {
			return false
		}
		candidates = append(candidates, i.Resource.String()) // the resource covers all of its instances
	}
	for _, c := range candidates {
		if _, ok := e.at[c]; ok {
			e.found[c] = true
			return true
		}
	}
	return false
}

// check returns the diagnostics of a run: without expected failures, with failures of check blocks that are not
// expected as errors, and with an error for each expected failure that did not occur.
func (e *expectations) check(diags diag.List) diag.List {
	var out diag.List
	for _, d := range diags {
		switch x := d.Extra.(type) {
		case *eval.Rule:
			switch {
			case x.Kind == eval.CheckAssertion:
				if !e.record(x.Object) {
					out = append(out, asError(d))
				}
				continue
			case d.Severity == diag.Error && e.record(x.Object):
				continue
			}
		case *values.Observed:
			if x.Problem.Severity != diag.Error || !e.record(x.Check) {
				out = append(out, x.Problem)
			}
			continue
		}
		out = append(out, d)
	}
	for _, name := range e.names {
		if !e.found[name] {
			at := e.at[name]
			out = append(out, diag.New(diag.Error, "Missing expected failure",
				fmt.Sprintf("The conditions of %s were expected to fail, and they did not.", name), &at))
		}
	}
	return out
}

func asError(d *diag.Diagnostic) *diag.Diagnostic {
	c := *d
	c.Severity = diag.Error
	return &c
}

// warn adds a warning for each expected failure of a variable in a run that must be applied: with invalid
// variables nothing can be applied.
func (e *expectations) warn(diags diag.List) diag.List {
	out := diags
	for _, d := range diags {
		rule, ok := d.Extra.(*eval.Rule)
		if _, expected := e.at[objectOf(rule)]; ok && rule.Kind == eval.VariableValidation && expected {
			out = append(out, diag.New(diag.Warning, "Invalid Variable in test file", fmt.Sprintf(
				"The value of %s is invalid. The run expects that, but nothing can be applied with it, so the run "+
					"fails. Give it command = plan.", rule.Object), nil))
		}
	}
	return out
}

func objectOf(r *eval.Rule) string {
	if r == nil {
		return ""
	}
	return r.Object
}

// withoutChecks removes the diagnostics of check blocks from a plan, because the apply repeats them if they
// still hold.
func withoutChecks(diags diag.List) diag.List {
	var out diag.List
	for _, d := range diags {
		if rule, ok := d.Extra.(*eval.Rule); ok && rule.Kind == eval.CheckAssertion {
			continue
		}
		if _, ok := d.Extra.(*values.Observed); ok {
			continue
		}
		out = append(out, d)
	}
	return out
}

// statusOf converts the status of an assertion to that of its run.
func statusOf(s eval.Status) Status {
	switch s {
	case eval.StatusPass:
		return Pass
	case eval.StatusFail:
		return Fail
	default:
		return Error
	}
}

// fresh returns the diagnostics in more that are not in known: validation and planning report the same ones.
func fresh(known, more diag.List) diag.List {
	seen := map[string]bool{}
	for _, d := range known {
		seen[keyOf(d)] = true
	}
	var out diag.List
	for _, d := range more {
		if !seen[keyOf(d)] {
			out = append(out, d)
		}
	}
	return out
}

func keyOf(d *diag.Diagnostic) string {
	at := ""
	if d.Subject != nil {
		at = d.Subject.String()
	}
	return fmt.Sprint(d.Severity, "\x00", d.Summary, "\x00", d.Detail, "\x00", at)
}
