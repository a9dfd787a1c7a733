package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// An expression is a case of the functions suite: an expression with its value, or with its refusal.
type expression struct {
	ID, Group, Expr string
	Error           bool
	Sensitive       bool
	Summary         string // of the diagnostic; it is shown, and decides nothing
	Want            json.RawMessage
	WantType        json.RawMessage `json:"want_type"`
}

// batch is how many values one configuration evaluates.
const batch = 100

// functions evaluates the expressions as outputs: many in one configuration, and each that is to be refused alone.
func functions(ctx context.Context, o options) (passed, total int, err error) {
	text, err := os.ReadFile(o.cases)
	if err != nil {
		return 0, 0, err
	}
	var all, values, alone []expression
	if err := json.Unmarshal(text, &all); err != nil {
		return 0, 0, err
	}
	for _, e := range all {
		switch {
		case !o.chosen(e.ID):
		case e.Error:
			alone = append(alone, e)
		default:
			values = append(values, e)
			if e.Sensitive { // and it is refused where the output is not marked
				e.Error, e.Sensitive, e.ID = true, false, e.ID+" without the mark"
				alone = append(alone, e)
			}
		}
	}
	top, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = os.RemoveAll(top) }() // nothing of it is needed
	if o.fixture == "" {
		o.fixture = filepath.Join(filepath.Dir(o.cases), "fixtures")
	}
	e := evaluator{o: o, top: top}
	var parts [][]expression
	for from := 0; from < len(values); from += batch {
		parts = append(parts, values[from:min(len(values), from+batch)])
	}
	verdicts := make([]map[string]string, len(parts)+len(alone))
	err = each(ctx, len(verdicts), o.jobs, func(ctx context.Context, i int) (err error) {
		if i < len(parts) {
			verdicts[i], err = e.values(ctx, parts[i])
		} else {
			verdicts[i], err = e.refused(ctx, alone[i-len(parts)])
		}
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	wrong := map[string]string{} // of a case, the first thing that is wrong
	for _, verdict := range verdicts {
		for id, problem := range verdict {
			if id = strings.TrimSuffix(id, " without the mark"); problem != "" && wrong[id] == "" {
				wrong[id] = problem
			}
		}
	}
	for _, c := range all {
		if !o.chosen(c.ID) {
			continue
		}
		total++
		if problem := wrong[c.ID]; problem != "" {
			fmt.Printf("%s: %s\n\t%s\n", c.ID, problem, strings.ReplaceAll(c.Expr, "\n", "\n\t"))
		} else {
			passed++
		}
	}
	return passed, total, nil
}

// evaluator runs configurations below top.
type evaluator struct {
	o   options
	top string
}

// apply applies a configuration in a directory of its own, and removes it after use has read the outcome.
func (e *evaluator) apply(ctx context.Context, body string, use func(applied outcome, run func(args ...string) (outcome,
	error)) error) error {
	dir, err := os.MkdirTemp(e.top, "")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // nothing of it is needed
	if err := os.CopyFS(filepath.Join(dir, "fixtures"), os.DirFS(e.o.fixture)); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(body), 0o600); err != nil {
		return err
	}
	env := append(os.Environ(), "NO_COLOR=1", "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1", "TF_ENCRYPTION=",
		"TF_WORKSPACE=", "TF_DATA_DIR=", "TF_LOG=", "TF_CLI_ARGS=")
	run := func(args ...string) (outcome, error) {
		return execute(ctx, e.o.limit, dir, env, "", e.o.program, args...)
	}
	applied, err := run("apply", "-auto-approve", "-input=false", "-no-color")
	if err != nil {
		return err
	}
	return use(applied, run)
}

// output is the block that evaluates an expression. A value that is null is wrapped in an object, because a root output
// that is null is not kept.
func output(name string, e expression) string {
	text := e.Expr
	if !e.Error && isNull(e.Want) {
		text = "{ v = " + text + "\n}"
	}
	if e.Sensitive {
		text += "\n  sensitive = true"
	}
	return fmt.Sprintf("output %q {\n  value = %s\n}\n", name, text)
}

func isNull(text json.RawMessage) bool { return len(text) == 0 || bytes.Equal(text, []byte("null")) }

// values checks expressions together, and halves them where one of them spoils the apply.
func (e *evaluator) values(ctx context.Context, list []expression) (map[string]string, error) {
	var body strings.Builder
	for i, c := range list {
		body.WriteString(output(fmt.Sprint("c", i), c))
	}
	verdict, spoilt := map[string]string{}, ""
	err := e.apply(ctx, body.String(), func(applied outcome, run func(...string) (outcome, error)) error {
		if applied.code != 0 {
			spoilt = fmt.Sprintf("the apply ended with %d: %s", applied.code, summaryOf(applied))
			return nil
		}
		read, err := run("output", "-json", "-no-color")
		if err != nil {
			return err
		}
		outputs, err := decode(read.stdout)
		if err != nil || read.code != 0 {
			spoilt = fmt.Sprintf("output -json ended with %d: %v", read.code, err)
			return nil
		}
		all, _ := outputs.(map[string]any)
		for i, c := range list {
			got, _ := all[fmt.Sprint("c", i)].(map[string]any)
			if verdict[c.ID], err = judge(c, got); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case err != nil || spoilt == "":
		return verdict, err
	case len(list) == 1:
		return map[string]string{list[0].ID: spoilt}, nil
	}
	for _, half := range [][]expression{list[:len(list)/2], list[len(list)/2:]} {
		more, err := e.values(ctx, half)
		if err != nil {
			return nil, err
		}
		for id, problem := range more {
			verdict[id] = problem
		}
	}
	return verdict, nil
}

// judge returns the error in an output; empty for none.
func judge(c expression, got map[string]any) (string, error) {
	if got == nil {
		return "there is no such output", nil
	}
	kind, value := got["type"], got["value"]
	if isNull(c.Want) {
		list, _ := kind.([]any)
		object, _ := value.(map[string]any)
		if len(list) != 2 || list[0] != "object" || len(object) != 1 {
			return "the output is no object with the value", nil
		}
		attributes, _ := list[1].(map[string]any)
		kind, value = attributes["v"], object["v"]
	}
	wantKind, err := decode(string(c.WantType))
	if err != nil {
		return "", fmt.Errorf("%s: %w", c.ID, err)
	}
	var want any
	if !isNull(c.Want) {
		if want, err = decode(string(c.Want)); err != nil {
			return "", fmt.Errorf("%s: %w", c.ID, err)
		}
	}
	if d := differences("type", wantKind, kind); len(d) > 0 {
		return d[0], nil
	}
	if d := differences("value", want, ordered(value, want, kind)); len(d) > 0 {
		return d[0], nil
	}
	if marked, _ := got["sensitive"].(bool); marked != c.Sensitive {
		return fmt.Sprintf("sensitive is %t", marked), nil
	}
	return "", nil
}

// ordered returns a value with the elements of its sets in the order of the recorded ones. Sets of strings, numbers and
// truth values have an order; others do not.
func ordered(value, want, kind any) any {
	pair, _ := kind.([]any)
	list, isList := value.([]any)
	recorded, _ := want.([]any)
	if len(pair) != 2 || !isList || len(list) != len(recorded) {
		return value
	}
	if _, primitive := pair[1].(string); pair[0] != "set" || primitive {
		return value
	}
	out, rest := make([]any, len(list)), append([]any(nil), list...)
	for i, w := range recorded {
		at := -1
		for j, g := range rest {
			if len(differences("", w, g)) == 0 {
				at = j
				break
			}
		}
		if at < 0 {
			return value
		}
		out[i], rest = rest[at], append(rest[:at:at], rest[at+1:]...)
	}
	return out
}

// refused checks that an expression is refused with a diagnostic, and not by a crash.
func (e *evaluator) refused(ctx context.Context, c expression) (map[string]string, error) {
	var problem string
	err := e.apply(ctx, output("c", c), func(applied outcome, _ func(...string) (outcome, error)) error {
		switch {
		case applied.code == 0:
			problem = "it is accepted"
		case applied.code < 0 || crashed.MatchString(applied.err):
			problem = fmt.Sprintf("it ends with %d", applied.code)
		}
		return nil
	})
	return map[string]string{c.ID: problem}, err
}

var crashed = regexp.MustCompile(`(?m)^(panic|fatal error): `)

var errorLine = regexp.MustCompile(`(?m)^[\s│╷╵|]*Error: (.*?)\s*$`)

// summaryOf returns the summary of the first error.
func summaryOf(o outcome) string {
	if m := errorLine.FindStringSubmatch(plain(o.err + "\n" + o.stdout)); m != nil {
		return m[1]
	}
	return "without an error"
}
