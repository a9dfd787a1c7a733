package drivers

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// outcome is how the tests of a suite ended, by package and name.
type outcome struct {
	passed, failed map[string]bool
	// output has the output of each test.
	output map[string]*strings.Builder
	// broken are packages that failed without a failed test: they were not built, or ran out of time.
	broken map[string]bool
}

// read reads the events of `go test -json`.
func read(r io.Reader) (*outcome, error) {
	o := &outcome{passed: map[string]bool{}, failed: map[string]bool{}, output: map[string]*strings.Builder{},
		broken: map[string]bool{}}
	lines := bufio.NewReader(r)
	unfinished := map[string]string{}
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		var e struct{ Action, Package, Test, Output string }
		if line[0] != '{' || json.Unmarshal(line, &e) != nil {
			continue // a message of the go command itself
		}
		o.add(e.Action, e.Package, e.Test, e.Output, unfinished)
	}
	for test := range unfinished {
		o.failed[test] = true
	}
	return o, nil
}

func (o *outcome) add(action, pkg, test, output string, unfinished map[string]string) {
	if test == "" {
		if action == "fail" {
			o.broken[pkg] = true
		}
		return
	}
	at := pkg[strings.LastIndexByte(pkg, '/')+1:] + "." + test
	switch action {
	case "run":
		unfinished[at] = pkg
	case "output":
		if o.output[at] == nil {
			o.output[at] = &strings.Builder{}
		}
		o.output[at].WriteString(output)
	case "pass":
		o.passed[at] = true
		delete(unfinished, at)
	case "skip":
		delete(unfinished, at)
	case "fail":
		o.failed[at] = true
		delete(unfinished, at)
		delete(o.broken, pkg)
	}
}

// problems compares an outcome with the expectations of a suite.
func (o *outcome) problems(s suite) []string {
	var out []string
	for _, test := range slices.Sorted(maps.Keys(o.failed)) {
		if top, _, _ := strings.Cut(test, "/"); s.known[top] != "" || s.known[test] != "" {
			continue
		}
		text := ""
		if b := o.output[test]; b != nil {
			text = ":\n" + b.String()
		}
		out = append(out, test+" failed"+text)
	}
	for _, pkg := range slices.Sorted(maps.Keys(o.broken)) {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(o.failed)), func(test string) bool {
			return strings.HasPrefix(test, pkg[strings.LastIndexByte(pkg, '/')+1:]+".")
		}) {
			out = append(out, pkg+" failed as a whole: it was not built, or ran out of time")
		}
	}
	if len(o.passed) < s.floor {
		out = append(out, fmt.Sprintf("%d tests pass, at least %d did", len(o.passed), s.floor))
	}
	return out
}
