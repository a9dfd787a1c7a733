package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// observed is one command's answer in the form that is compared: its actions and their values.
type observed struct {
	kind            string // of the document: plan, state, rawstate; empty for others
	exit            int
	actions, values any // nil where nothing is compared
	messages        []string
}

// observe reads the answer of a command. A document that is not as it should be has the kind unreadable.
func observe(args []string, o outcome) observed {
	out := observed{exit: o.code}
	asJSON := slices.Contains(args, "-json")
	var said []string
	diagnostics := false // said has the diagnostics already
	var err error
	succeeded := o.code == 0
	switch command := commandOf(args); {
	case command == "validate" && asJSON:
		var doc any
		if doc, err = decode(o.stdout); err == nil {
			for _, d := range list(doc, "diagnostics") {
				said = append(said, text(d, "severity")+": "+text(d, "summary"))
			}
			diagnostics = true
			out.actions = map[string]any{"valid": member(doc, "valid")}
		}
	case command == "show" && asJSON && succeeded:
		var doc any
		if doc, err = decode(o.stdout); err != nil {
			break
		}
		if member(doc, "resource_changes") != nil || member(doc, "planned_values") != nil ||
			member(doc, "configuration") != nil {
			out.kind = "plan"
			out.actions, out.values = plan(doc)
		} else {
			out.kind = "state"
			out.actions, out.values = shownState(doc)
		}
	case command == "state pull" && succeeded:
		out.kind = "rawstate"
		if strings.TrimSpace(o.stdout) == "" {
			out.actions = map[string]any{"empty": true}
			break
		}
		var doc any
		if doc, err = decode(o.stdout); err == nil {
			out.actions, out.values = pulledState(doc)
		}
	case command == "output" && succeeded && asJSON:
		var doc any
		if doc, err = decode(o.stdout); err != nil {
			break
		}
		if !slices.ContainsFunc(args[1:], func(a string) bool { return !strings.HasPrefix(a, "-") }) {
			doc = outputs(doc)
		}
		out.values = map[string]any{"output": doc}
	case command == "output" && succeeded,
		(command == "workspace list" || command == "workspace show" || command == "console") && succeeded,
		command == "fmt":
		out.values = map[string]any{"stdout": linesOf(o.stdout)}
	case command == "state list" && succeeded:
		out.actions = map[string]any{"stdout": linesOf(o.stdout)}
	case command == "providers schema" && asJSON && succeeded:
		var doc any
		if doc, err = decode(o.stdout); err == nil {
			out.values = schemas(doc)
		}
	case asJSON && slices.Contains([]string{"plan", "apply", "destroy", "refresh", "test"}, command):
		if events := eventsOf(o.stdout); len(events) > 0 {
			out.actions, out.values = progress(events)
			diagnostics = true
			for _, e := range events {
				if d := member(e, "diagnostic"); text(e, "type") == "diagnostic" && d != nil {
					said = append(said, text(d, "severity")+": "+text(d, "summary"))
				}
			}
		}
	}
	if err != nil {
		out.kind, out.actions = "unreadable", map[string]any{"unreadable": err.Error()}
	}
	if !diagnostics {
		all := o.err + "\n"
		if commandOf(args) != "console" || !succeeded {
			all += o.stdout
		}
		said = boxes(all)
	}
	out.messages = summaries(said)
	return out
}

// commandOf returns the command of a command line: its first word, and the second one where a first one has several.
func commandOf(args []string) string {
	var words []string
	for _, a := range args {
		if !strings.HasPrefix(a, "-") {
			words = append(words, a)
		}
	}
	switch {
	case len(words) == 0:
		return ""
	case len(words) > 1 && slices.Contains([]string{"state", "workspace", "providers", "metadata"}, words[0]):
		return words[0] + " " + words[1]
	default:
		return words[0]
	}
}

// diagnosticLine is the first line of a diagnostic, in or without a box.
var diagnosticLine = regexp.MustCompile(`^[\s│╷╵|]*(Error|Warning): (.*?)\s*$`)

// boxes returns the diagnostics in a text for people. Where boxes are drawn, only the first line in one counts, because
// a detail may contain such lines too.
func boxes(all string) (out []string) {
	lines := strings.Split(plain(all), "\n")
	drawn := slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "╷") })
	first := false
	for _, line := range lines {
		m := diagnosticLine.FindStringSubmatch(line)
		if m != nil && (first || !drawn || !strings.HasPrefix(line, "│")) {
			out = append(out, strings.ToLower(m[1])+": "+m[2])
		}
		first = strings.HasPrefix(line, "╷")
	}
	return out
}

// summaries returns the set of diagnostics, without what depends on the machine or on chance.
func summaries(said []string) []string {
	out := []string{}
	for _, line := range said {
		severity, summary, _ := strings.Cut(line, ": ")
		switch {
		case summary == "Incomplete lock file information for providers",
			summary == "Provider development overrides are in effect":
			continue
		case strings.HasPrefix(summary, "Cycle: "):
			summary = "Cycle"
		case strings.HasPrefix(summary, "failed to read ") && strings.Contains(summary, "schema for"):
			summary = "failed to read provider schema"
		case summary == "Failed to query available provider packages": // the value without a network
			summary = "Failed to resolve provider packages"
		}
		out = append(out, severity+": "+summary)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// linesOf returns the lines of an output, without boxes and without empty lines before the first one.
func linesOf(output string) []any {
	out := []any{}
	if strings.TrimSpace(output) == "" {
		return out
	}
	inBox := false
	for _, line := range strings.Split(strings.TrimRight(plain(output), "\n"), "\n") {
		inBox = inBox || strings.HasPrefix(line, "╷")
		if !inBox && (line != "" || len(out) > 0) {
			out = append(out, line)
		}
		inBox = inBox && !strings.HasPrefix(line, "╵")
	}
	return out
}

// eventsOf returns the lines that are events of -json.
func eventsOf(output string) (out []any) {
	for line := range strings.Lines(output) {
		v, err := decode(line)
		if err == nil && member(v, "@level") != nil {
			out = append(out, v)
		}
	}
	return out
}

// member returns a member of an object, or nil.
func member(v any, path ...string) any {
	for _, name := range path {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

func text(v any, path ...string) string {
	s, _ := member(v, path...).(string)
	return s
}

func list(v any, path ...string) []any {
	l, _ := member(v, path...).([]any)
	return l
}

func object(v any, path ...string) map[string]any {
	o, _ := member(v, path...).(map[string]any)
	return o
}

func truth(v any, path ...string) bool {
	b, _ := member(v, path...).(bool)
	return b
}

// filled leaves out members without information: null, false, zero, and empty values.
func filled(members map[string]any) map[string]any {
	for name, v := range members {
		switch v := v.(type) {
		case nil:
			delete(members, name)
		case string:
			if v == "" {
				delete(members, name)
			}
		case bool:
			if !v {
				delete(members, name)
			}
		case []any:
			if len(v) == 0 {
				delete(members, name)
			}
		case map[string]any:
			if len(v) == 0 {
				delete(members, name)
			}
		default:
			if n, ok := number(v); ok && n.Sign() == 0 {
				delete(members, name)
			}
		}
	}
	return members
}

// anys returns a list as values of JSON.
func anys[T any](list []T) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out
}

// sortedBy sorts values by a text.
func sortedBy(list []any, key func(any) string) []any {
	out := slices.Clone(list)
	slices.SortStableFunc(out, func(a, b any) int { return strings.Compare(key(a), key(b)) })
	return out
}

// texts returns a sorted list of texts; other values are as they are printed.
func texts(list []any) []any {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = fmt.Sprint(v)
	}
	slices.Sort(out)
	return anys(out)
}
