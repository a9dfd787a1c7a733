package engine

import (
	"encoding/json"
	"reflect"
	"testing"
)

// The document of a plan had a sensitive value wherever its provider had copied it: a terraform_data has its input as
// its output, and nothing marks that as sensitive.
func TestACopyOfASensitiveValueIsRedacted(t *testing.T) {
	var change, want map[string]any
	for text, into := range map[string]*map[string]any{
		`{"before":{"input":{"a":"canary-1","b":"x"},"output":{"a":"canary-1","b":"x"},"list":["y","at canary-1"]},
		 "before_sensitive":{"input":{"a":true}},
		 "after":{"input":{"a":"canary-2","b":"x"},"log":"canary-1 became canary-2"},
		 "after_sensitive":{"input":{"a":true}}}`: &change,
		`{"before":{"input":{"a":"REDACTED","b":"x"},"output":{"a":"REDACTED","b":"x"},"list":["y","REDACTED"]},
		 "before_sensitive":{"input":{"a":true},"output":{"a":true},"list":[false,true]},
		 "after":{"input":{"a":"REDACTED","b":"x"},"log":"REDACTED"},
		 "after_sensitive":{"input":{"a":true},"log":true}}`: &want,
	} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	if redactChange(change); !reflect.DeepEqual(change, want) {
		t.Errorf("the change is %v, not %v", change, want)
	}
	short := map[string]any{"before": nil, "after": map[string]any{"zone": "eu", "region": "eu-west"},
		"after_sensitive": map[string]any{"zone": true}}
	if redactChange(short); short["after"].(map[string]any)["region"] != "eu-west" {
		t.Errorf("a part of an ordinary word is hidden: %v", short)
	}
}
