package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// decode reads a JSON value whose numbers stay texts.
func decode(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return v, nil
}

// number returns the value of a number exactly. Recorded ones that no floating-point number represents are objects with
// the member $number.
func number(v any) (*big.Rat, bool) {
	switch v := v.(type) {
	case json.Number:
		return new(big.Rat).SetString(string(v))
	case map[string]any:
		if text, ok := v["$number"].(string); ok && len(v) == 1 {
			return new(big.Rat).SetString(text)
		}
	}
	return nil, false
}

// differences lists the places at which two JSON values differ, each with the recorded and the actual value.
func differences(at string, want, got any) (out []string) {
	a, isNumber := number(want)
	if b, ok := number(got); isNumber && ok {
		if a.Cmp(b) == 0 {
			return nil
		}
		return []string{unlike(at, want, got)}
	}
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		keys := maps.Clone(w)
		maps.Copy(keys, g)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			_, recorded := w[key]
			_, came := g[key]
			switch here := at + "." + key; {
			case !recorded:
				out = append(out, fmt.Sprintf("%s: not recorded, but there: %s", here, brief(g[key])))
			case !came:
				out = append(out, fmt.Sprintf("%s: recorded, but missing: %s", here, brief(w[key])))
			default:
				out = append(out, differences(here, w[key], g[key])...)
			}
		}
		return out
	case []any:
		g, ok := got.([]any)
		if !ok {
			break
		}
		for i := range max(len(w), len(g)) {
			switch here := fmt.Sprintf("%s[%d]", at, i); {
			case i >= len(w):
				out = append(out, fmt.Sprintf("%s: not recorded, but there: %s", here, brief(g[i])))
			case i >= len(g):
				out = append(out, fmt.Sprintf("%s: recorded, but missing: %s", here, brief(w[i])))
			default:
				out = append(out, differences(here, w[i], g[i])...)
			}
		}
		return out
	default:
		switch got.(type) {
		case map[string]any, []any:
		default:
			if want == got {
				return nil
			}
		}
	}
	return []string{unlike(at, want, got)}
}

func unlike(at string, want, got any) string {
	return fmt.Sprintf("%s: recorded is %s, here it is %s", at, brief(want), brief(got))
}

// brief is the JSON of a value, cut off where it gets long.
func brief(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	if len(text) > 300 {
		return string(text[:300]) + "..."
	}
	return string(text)
}
