package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// random has the attributes of resource types whose values are random. Wherever such a value occurs in a scenario, it
// is replaced by a name that stays the same in it; after "!" only the attribute itself is.
var random = map[string][]string{
	"random_pet": {"id"}, "random_string": {"result"}, "random_password": {"result", "bcrypt_hash"},
	"random_id":    {"hex", "dec", "!b64_std", "b64_url"},
	"random_bytes": {"hex", "base64"}, "random_integer": {"result"}, "random_shuffle": {"result"},
	"null_resource": {"id"}, "null_data_source": {"random"},
	"tls_private_key": {"private_key_pem", "private_key_pem_pkcs8", "private_key_openssh", "public_key_pem",
		"public_key_openssh", "public_key_fingerprint_md5", "public_key_fingerprint_sha256", "id"},
	"tls_self_signed_cert":    {"cert_pem", "id", "validity_start_time", "validity_end_time"},
	"tls_cert_request":        {"cert_request_pem", "id"},
	"tls_locally_signed_cert": {"cert_pem", "id", "validity_start_time", "validity_end_time"},
}

var (
	uuid     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	stamp    = regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?`)
	deposed  = regexp.MustCompile(`\bdeposed(?: object)? [0-9a-f]{8}\b`)
	registry = regexp.MustCompile(`registry\.(?:opentofu\.org|terraform\.io)`)
	copies   = regexp.MustCompile(` \(deposed\)\+*$|\++$`)
)

// normaliser replaces what differs from run to run, the same value by the same name in a whole scenario.
type normaliser struct {
	s      *scenario
	paths  []string          // pairs of a path and its name, longer paths first
	names  map[string]string // of random values
	order  []string          // random values, longer ones first
	counts map[string]int
	uuids  map[string]string
	now    time.Time
}

func newNormaliser(s *scenario, paths map[string]string) *normaliser {
	n := &normaliser{s: s, names: map[string]string{}, counts: map[string]int{}, uuids: map[string]string{},
		now: time.Now()}
	for _, p := range slices.SortedFunc(maps.Keys(paths), longerFirst) {
		n.paths = append(n.paths, p, paths[p])
	}
	return n
}

func longerFirst(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) }

// normalise rewrites the answers of a whole scenario.
func (n *normaliser) normalise(answers []answer) {
	for _, a := range answers {
		for _, c := range a.commands {
			n.collect(c)
		}
	}
	n.order = slices.SortedFunc(maps.Keys(n.names), longerFirst)
	for i := range answers {
		for j := range answers[i].commands {
			c := &answers[i].commands[j]
			c.actions = n.walk(c.actions)
			for k, m := range c.messages {
				c.messages[k] = n.text(m)
			}
			c.values = n.walk(c.values)
		}
		for _, name := range slices.Sorted(maps.Keys(answers[i].files)) {
			answers[i].files[name] = n.walk(answers[i].files[name])
		}
	}
}

// collect finds the random values of an answer, and hides those that the scenario hides.
func (n *normaliser) collect(c observed) {
	one := func(address string, values any) {
		attributes, _ := values.(map[string]any)
		for _, rule := range n.s.Redact {
			dot := strings.LastIndex(rule, ".")
			if ok, err := path.Match(rule[:dot], address); err != nil || !ok {
				continue
			}
			for name, v := range attributes {
				if ok, err := path.Match(rule[dot+1:], name); err == nil && ok && v != nil && v != unknown {
					attributes[name] = "<redacted>"
				}
			}
		}
		n.values(address, attributes)
	}
	each := func(all map[string]any, parts ...string) {
		for _, address := range slices.Sorted(maps.Keys(all)) {
			for _, part := range parts {
				one(address, member(all[address], part))
			}
		}
	}
	switch c.kind {
	case "plan":
		each(object(c.values, "resource_changes"), "before", "after")
		each(object(c.values, "resource_drift"), "before", "after")
	case "state":
		each(object(c.values, "resources"), "values")
	case "rawstate":
		each(object(c.values, "instances"), "attributes")
	}
}

// values collects the random attributes of one object.
func (n *normaliser) values(address string, attributes map[string]any) {
	var of string
	for _, part := range strings.Split(withoutKeys(copies.ReplaceAllString(address, "")), ".") {
		if random[part] != nil {
			of = part
			break
		}
	}
	for _, name := range random[of] {
		name, alone := strings.TrimPrefix(name, "!"), strings.HasPrefix(name, "!")
		if slices.Contains(n.s.Keep, of+"."+name) {
			continue
		}
		switch v := attributes[name].(type) {
		case string:
			switch {
			case alone && v != unknown:
				attributes[name] = "<" + of + "." + name + ">"
			case !alone && len([]rune(v)) >= 4 && n.names[v] == "" && v != unknown && uuid.FindString(v) != v:
				n.counts[of+"."+name]++
				n.names[v] = fmt.Sprintf("<%s.%s:%d>", of, name, n.counts[of+"."+name])
			}
		case json.Number, []any:
			attributes[name] = "<" + of + "." + name + ">"
		}
	}
}

// withoutKeys drops the keys of instances from an address: they may contain dots.
func withoutKeys(address string) string {
	var b strings.Builder
	depth := 0
	for _, r := range address {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case depth == 0:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// walk rewrites all texts of a value, in the order of the members' names.
func (n *normaliser) walk(v any) any {
	switch v := v.(type) {
	case string:
		return n.text(v)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = n.walk(e)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			renamed := n.text(name)
			out[renamed] = n.walk(v[name])
		}
		return out
	default:
		return v
	}
}

func (n *normaliser) text(s string) string {
	for i := 0; i < len(n.paths); i += 2 {
		s = strings.ReplaceAll(s, n.paths[i], n.paths[i+1])
	}
	for _, v := range n.order {
		s = strings.ReplaceAll(s, v, n.names[v])
	}
	s = n.withoutIDs(s)
	s = stamp.ReplaceAllStringFunc(s, n.stamp)
	s = deposed.ReplaceAllString(s, "deposed object <key>")
	return registry.ReplaceAllString(s, "<registry>")
}

// withoutIDs replaces UUIDs by their number of first occurrence. A longer run of hexadecimal digits has none.
func (n *normaliser) withoutIDs(s string) string {
	var b strings.Builder
	from := 0
	for at := 0; ; {
		m := uuid.FindStringIndex(s[at:])
		if m == nil {
			break
		}
		begin, end := at+m[0], at+m[1]
		if begin > 0 && hexadecimal(s[begin-1]) || end < len(s) && hexadecimal(s[end]) {
			at = begin + 1
			continue
		}
		id := s[begin:end]
		if n.uuids[id] == "" {
			n.uuids[id] = fmt.Sprintf("<uuid:%d>", len(n.uuids)+1)
		}
		b.WriteString(s[from:begin] + n.uuids[id])
		from, at = end, end
	}
	return b.String() + s[from:]
}

func hexadecimal(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

// stamp replaces a time if it is one of this run: at most two hours from now.
func (n *normaliser) stamp(s string) string {
	for _, layout := range []string{"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00",
		"2006-01-02 15:04:05"} {
		if t, err := time.Parse(layout, s); err == nil && t.Sub(n.now).Abs() < 2*time.Hour {
			return "<now>"
		}
	}
	return s
}
