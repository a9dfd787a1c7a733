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

// expectations are the objects whose conditions a run expects to fail, in the order in which they are named.
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
			continue // the run has not begun with these
		}
		name := ref.Subject.String()
		if _, dup := e.at[name]; !dup {
			e.names = append(e.names, name)
		}
		e.at[name] = ref.Range
	}
	return e
}

// meet notes that the conditions of an object of the root module failed, and tells whether that was expected.
func (e *expectations) meet(object string) bool {
	candidates := []string{object}
	if i, diags := addr.ParseInstance(object); !diags.HasErrors() {
		if !i.Module.IsRoot() {
			return false
		}
		candidates = append(candidates, i.Resource.String()) // all instances are expected to fail, or some
	}
	for _, c := range candidates {
		if _, ok := e.at[c]; ok {
			e.found[c] = true
			return true
		}
	}
	return false
}

// judge takes failures that are expected out, makes those of check blocks errors that are not, and complains about
// expected failures that did not come.
func (e *expectations) judge(diags diag.List) diag.List {
	var out diag.List
	for _, d := range diags {
		switch x := d.Extra.(type) {
		case *eval.Rule:
			switch {
			case x.Kind == eval.CheckAssertion:
				if !e.meet(x.Object) {
					out = append(out, asError(d))
				}
				continue
			case d.Severity == diag.Error && e.meet(x.Object):
				continue
			}
		case *values.Observed:
			if x.Problem.Severity != diag.Error || !e.meet(x.Check) {
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

// warn adds a word about variables that are expected to be invalid in a run that is to be applied: without valid
// variables nothing can be.
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

// withoutChecks takes out what check blocks say when planning: the apply says it again, unless it is past.
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

// statusOf is what an assertion makes of its run.
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

// fresh returns those of more that are not in known: a validation and a plan say the same.
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
