package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf16"
)

// unknown stands for a value that is known after the apply.
const unknown = "(unknown)"

// plan returns the compared part of a plan's document.
func plan(doc any) (actions, values any) {
	changed, changedValues := changes(list(doc, "resource_changes"))
	drifted, driftedValues := changes(list(doc, "resource_drift"))
	outputActions, outputValues := map[string]any{}, map[string]any{}
	for name, c := range object(doc, "output_changes") {
		outputActions[name] = member(c, "actions")
		outputValues[name] = map[string]any{"before": member(c, "before"),
			"after":            withUnknown(member(c, "after"), member(c, "after_unknown")),
			"before_sensitive": paths(member(c, "before_sensitive"), ""),
			"after_sensitive":  paths(member(c, "after_sensitive"), "")}
	}
	var planned []any
	for _, r := range resourcesOf(member(doc, "planned_values", "root_module")) {
		planned = append(planned, member(r, "address"))
	}
	variables := map[string]any{}
	for name, v := range object(doc, "variables") {
		variables[name] = member(v, "value")
	}
	return map[string]any{"resource_changes": changed, "resource_drift": drifted, "output_changes": outputActions,
			"planned_addresses": texts(planned), "errored": truth(doc, "errored")},
		map[string]any{"resource_changes": changedValues, "resource_drift": driftedValues,
			"output_changes": outputValues, "variables": variables, "checks": checks(list(doc, "checks"))}
}

// changes returns the changes of a plan, or of its drift, in the order of their addresses.
func changes(all []any) (actions []any, values map[string]any) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b any) int {
		key := func(r any) [3]string {
			var of string
			if text(r, "deposed") != "" {
				of = dump(member(r, "change", "before"))
			}
			return [3]string{text(r, "address"), fmt.Sprint(list(r, "change", "actions")), of}
		}
		one, other := key(a), key(b)
		return slices.Compare(one[:], other[:])
	})
	actions, values = []any{}, map[string]any{}
	for _, r := range all {
		c := member(r, "change")
		importing := member(c, "importing")
		if i, ok := importing.(map[string]any); ok { // an unknown ID is written as an empty object too
			if len(object(i, "identity")) == 0 {
				delete(i, "identity")
			}
			if len(i) == 0 {
				importing = true
			}
		}
		actions = append(actions, filled(map[string]any{"address": member(r, "address"),
			"previous_address": member(r, "previous_address"), "mode": member(r, "mode"), "type": member(r, "type"),
			"index": member(r, "index"), "provider": member(r, "provider_name"), "deposed": text(r, "deposed") != "",
			"actions": member(c, "actions"), "action_reason": member(r, "action_reason"),
			"replace_paths": sortedBy(list(c, "replace_paths"), dump), "importing": importing}))
		v := map[string]any{"before": member(c, "before"),
			"after":            withUnknown(member(c, "after"), member(c, "after_unknown")),
			"after_unknown":    paths(member(c, "after_unknown"), ""),
			"before_sensitive": paths(member(c, "before_sensitive"), ""),
			"after_sensitive":  paths(member(c, "after_sensitive"), "")}
		if generated := text(c, "generated_config"); generated != "" {
			v["generated_config"] = withoutComments(generated)
		}
		put(values, text(r, "address"), text(r, "deposed") != "", v)
	}
	return actions, values
}

// put adds the values of an object; several objects of one address have different names.
func put(values map[string]any, address string, deposed bool, v any) {
	if deposed {
		address += " (deposed)"
	}
	for values[address] != nil {
		address += "+"
	}
	values[address] = v
}

// withUnknown returns a planned value with the places that are unknown.
func withUnknown(value, where any) any {
	switch w := where.(type) {
	case bool:
		if w {
			return unknown
		}
	case map[string]any:
		if len(w) == 0 {
			break
		}
		old, _ := value.(map[string]any)
		out := maps.Clone(old)
		if out == nil {
			out = map[string]any{}
		}
		for name, u := range w {
			merged := withUnknown(old[name], u)
			if _, was := old[name]; was || merged != nil {
				out[name] = merged
			}
		}
		return out
	case []any:
		if len(w) == 0 {
			break
		}
		old, _ := value.([]any)
		out := slices.Clone(old)
		for len(out) < len(w) {
			out = append(out, nil)
		}
		for i, u := range w {
			out[i] = withUnknown(out[i], u)
		}
		return out
	}
	return value
}

// paths returns the sorted paths at which a mark is set.
func paths(mark any, at string) []any {
	var out []string
	var walk func(mark any, at string)
	walk = func(mark any, at string) {
		switch m := mark.(type) {
		case bool:
			if m && at == "" {
				at = "."
			}
			if m {
				out = append(out, at)
			}
		case map[string]any:
			for name, v := range m {
				walk(v, at+"."+name)
			}
		case []any:
			for i, v := range m {
				walk(v, fmt.Sprintf("%s[%d]", at, i))
			}
		}
	}
	walk(mark, at)
	slices.Sort(out)
	return anys(out)
}

// resourcesOf returns the resources of a module and of those that it calls.
func resourcesOf(module any) []any {
	out := slices.Clone(list(module, "resources"))
	for _, child := range list(module, "child_modules") {
		out = append(out, resourcesOf(child)...)
	}
	return out
}

func outputs(all any) map[string]any {
	out := map[string]any{}
	values, _ := all.(map[string]any)
	for name, v := range values {
		out[name] = map[string]any{"value": member(v, "value"), "type": member(v, "type"),
			"sensitive": truth(v, "sensitive")}
	}
	return out
}

// shownState returns the compared part of "show -json" of a state.
func shownState(doc any) (actions, values any) {
	all := resourcesOf(member(doc, "values", "root_module"))
	slices.SortStableFunc(all, func(a, b any) int {
		one := []string{text(a, "address"), fmt.Sprint(text(a, "deposed_key") != "")}
		return slices.Compare(one, []string{text(b, "address"), fmt.Sprint(text(b, "deposed_key") != "")})
	})
	acts, resources := []any{}, map[string]any{}
	for _, r := range all {
		deposed := text(r, "deposed_key") != ""
		acts = append(acts, filled(map[string]any{"address": member(r, "address"), "mode": member(r, "mode"),
			"type": member(r, "type"), "index": member(r, "index"), "provider": member(r, "provider_name"),
			"tainted": truth(r, "tainted"), "deposed": deposed}))
		put(resources, text(r, "address"), deposed, map[string]any{"values": member(r, "values"),
			"sensitive": paths(member(r, "sensitive_values"), ""), "depends_on": texts(list(r, "depends_on"))})
	}
	of := member(doc, "values", "outputs")
	return map[string]any{"resources": acts, "outputs": anys(slices.Sorted(maps.Keys(object(of))))},
		map[string]any{"resources": resources, "outputs": outputs(of), "checks": checks(list(doc, "checks"))}
}

// pulledState returns the compared part of a state in the exchange format.
func pulledState(doc any) (actions, values any) {
	acts, instances := []any{}, map[string]any{}
	for _, r := range list(doc, "resources") {
		base := text(r, "type") + "." + text(r, "name")
		if text(r, "mode") == "data" {
			base = "data." + base
		}
		if module := text(r, "module"); module != "" {
			base = module + "." + base
		}
		for _, i := range list(r, "instances") {
			address, deposed := base, text(i, "deposed") != ""
			if key := member(i, "index_key"); key != nil {
				address += "[" + dump(key) + "]"
			}
			provider := member(r, "provider")
			if provider == nil {
				provider = member(i, "provider")
			}
			acts = append(acts, filled(map[string]any{"address": address, "provider": provider,
				"status": member(i, "status"), "deposed": deposed}))
			var sensitive []any
			for _, path := range list(i, "sensitive_attributes") {
				steps, _ := path.([]any)
				sensitive = append(sensitive, pathOf(steps))
			}
			of := filled(map[string]any{"schema_version": member(i, "schema_version"), "sensitive": texts(sensitive),
				"dependencies": texts(list(i, "dependencies")), "skip_destroy": member(i, "skip_destroy"),
				"create_before_destroy": member(i, "create_before_destroy")})
			of["attributes"] = member(i, "attributes")
			put(instances, address, deposed, of)
		}
	}
	slices.SortStableFunc(acts, func(a, b any) int {
		one := []string{text(a, "address"), fmt.Sprint(truth(a, "deposed"))}
		return slices.Compare(one, []string{text(b, "address"), fmt.Sprint(truth(b, "deposed"))})
	})
	results := []any{}
	for _, c := range list(doc, "check_results") {
		objects := []any{}
		for _, o := range list(c, "objects") {
			objects = append(objects, map[string]any{"address": member(o, "object_addr"), "status": member(o, "status"),
				"failures": texts(list(o, "failure_messages"))})
		}
		results = append(results, map[string]any{"kind": member(c, "object_kind"), "address": member(c, "config_addr"),
			"status": member(c, "status"), "objects": sortedBy(objects, func(o any) string { return text(o, "address") })})
	}
	results = sortedBy(results, func(c any) string { return text(c, "kind") + "\x00" + text(c, "address") })
	of := object(doc, "outputs")
	return map[string]any{"version": member(doc, "version"), "instances": acts,
			"outputs": anys(slices.Sorted(maps.Keys(of)))},
		map[string]any{"instances": instances, "outputs": outputs(of), "check_results": results}
}

// pathOf writes a path of the exchange format.
func pathOf(steps []any) string {
	var b strings.Builder
	for _, s := range steps {
		v := member(s, "value")
		if text(s, "type") == "get_attr" {
			fmt.Fprintf(&b, ".%v", v)
			continue
		}
		if inner := object(v); inner != nil {
			v = inner["value"]
		}
		b.WriteString("[" + dump(v) + "]")
	}
	return b.String()
}

// checks returns the results of checks in the documents of plans and states.
func checks(all []any) []any {
	out := []any{}
	for _, c := range all {
		instances := []any{}
		for _, i := range list(c, "instances") {
			var problems []any
			for _, p := range list(i, "problems") {
				problems = append(problems, text(p, "message"))
			}
			instances = append(instances, filled(map[string]any{"address": member(i, "address", "to_display"),
				"status": member(i, "status"), "problems": texts(problems)}))
		}
		out = append(out, filled(map[string]any{"address": member(c, "address", "to_display"),
			"kind": member(c, "address", "kind"), "status": member(c, "status"), "instances": sortedBy(instances, dump)}))
	}
	return sortedBy(out, func(c any) string { return text(c, "kind") + "\x00" + text(c, "address") })
}

// schemas returns the compared part of "providers schema": the names.
func schemas(doc any) any {
	providers := map[string]any{}
	for name, p := range object(doc, "provider_schemas") {
		names := func(of string) []any { return anys(slices.Sorted(maps.Keys(object(p, of)))) }
		providers[name] = map[string]any{"resources": names("resource_schemas"),
			"data_sources": names("data_source_schemas"), "functions": names("functions")}
	}
	return map[string]any{"format_version": member(doc, "format_version"), "providers": providers}
}

// progress returns the compared part of the events of an operation, in an order that does not depend on time.
func progress(events []any) (actions, values any) {
	acts, vals := []any{}, []any{}
	for _, e := range events {
		kind := text(e, "type")
		switch kind {
		case "planned_change", "resource_drift":
			c := member(e, "change")
			acts = append(acts, filled(map[string]any{"type": kind, "address": member(c, "resource", "addr"),
				"previous": member(c, "previous_resource", "addr"), "action": member(c, "action"),
				"reason": member(c, "reason"), "importing": member(c, "importing")}))
		case "apply_start", "apply_complete", "apply_errored":
			h := member(e, "hook")
			acts = append(acts, filled(map[string]any{"type": kind, "address": member(h, "resource", "addr"),
				"action": member(h, "action")}))
		case "change_summary":
			counts := map[string]any{}
			maps.Copy(counts, object(e, "changes"))
			acts = append(acts, map[string]any{"type": kind, "changes": filled(counts)})
		case "outputs":
			vals = append(vals, map[string]any{"type": kind, "outputs": member(e, "outputs")})
		case "test_run", "test_file":
			b := member(e, kind)
			acts = append(acts, filled(map[string]any{"type": kind, "path": member(b, "path"), "run": member(b, "run"),
				"status": member(b, "status"), "progress": member(b, "progress")}))
		case "test_summary":
			acts = append(acts, map[string]any{"type": kind, "summary": member(e, "test_summary")})
		}
	}
	return map[string]any{"events": sortedBy(acts, dump)}, map[string]any{"events": sortedBy(vals, dump)}
}

// dump writes a value as the recordings were sorted: members in order, a blank after each comma and colon, and nothing
// but ASCII.
func dump(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, dump(name)+": "+dump(v[name]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		var parts []string
		for _, e := range v {
			parts = append(parts, dump(e))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case json.Number:
		return string(v)
	case string:
		var b strings.Builder
		b.WriteByte('"')
		for _, r := range v {
			switch {
			case r == '"' || r == '\\':
				b.WriteByte('\\')
				b.WriteRune(r)
			case r == '\n':
				b.WriteString(`\n`)
			case r == '\r':
				b.WriteString(`\r`)
			case r == '\t':
				b.WriteString(`\t`)
			case r >= ' ' && r < 0x7f:
				b.WriteRune(r)
			case r > 0xffff:
				one, two := utf16.EncodeRune(r)
				fmt.Fprintf(&b, `\u%04x\u%04x`, one, two)
			default:
				fmt.Fprintf(&b, `\u%04x`, r)
			}
		}
		return b.String() + `"`
	case nil:
		return "null"
	default:
		return fmt.Sprint(v)
	}
}
