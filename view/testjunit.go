package view

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/coordinator/suite"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view/document"
)

// The form of JUnit test reports, as far as CI systems agree on it.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name      string       `xml:"name,attr"`
		Classname string       `xml:"classname,attr"`
		Time      string       `xml:"time,attr,omitempty"`
		Skipped   *junitResult `xml:"skipped,omitempty"`
		Failure   *junitResult `xml:"failure,omitempty"`
		Error     *junitResult `xml:"error,omitempty"`
		Stderr    *junitText   `xml:"system-err,omitempty"`
	}
	junitResult struct {
		Message string `xml:"message,attr,omitempty"`
		Text    string `xml:",cdata"`
	}
	junitText struct {
		Text string `xml:",cdata"`
	}
)

// TestJUnit writes the results of a suite as a JUnit report: a test suite for each file, a test case for each run.
func TestJUnit(w io.Writer, s *suite.Suite, sources map[string]*hcl.File) error {
	var report junitSuites
	for _, f := range s.Files {
		one := junitSuite{Name: f.Name, Tests: len(f.Runs)}
		for _, r := range f.Runs {
			c := junitCaseOf(f, r, sources)
			switch {
			case c.Skipped != nil:
				one.Skipped++
			case c.Failure != nil:
				one.Failures++
			case c.Error != nil:
				one.Errors++
			}
			one.Cases = append(one.Cases, c)
		}
		report.Suites = append(report.Suites, one)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(report); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func junitCaseOf(f *suite.File, r *suite.Run, sources map[string]*hcl.File) junitCase {
	c := junitCase{Name: r.Name, Classname: f.Name}
	if r.Status >= suite.Pass {
		c.Time = fmt.Sprintf("%.3f", r.Took.Seconds())
	}
	var errors, warnings strings.Builder
	first := ""
	p := &Printer{}
	for _, d := range r.Diags {
		text := p.Text(document.DiagnosticJSON(d, sources)) + "\n"
		if d.Severity == diag.Warning {
			warnings.WriteString(text)
			continue
		}
		if first == "" {
			first = d.Summary
		}
		errors.WriteString(text)
	}
	switch r.Status {
	case suite.Fail:
		c.Failure = &junitResult{first, errors.String()}
	case suite.Error:
		c.Error = &junitResult{first, errors.String()}
	case suite.Pending, suite.Skip:
		c.Skipped = &junitResult{Message: "An earlier run of the file failed, or the tests were interrupted."}
	}
	if warnings.Len() > 0 {
		c.Stderr = &junitText{warnings.String()}
	}
	return c
}
