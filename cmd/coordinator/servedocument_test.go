package main

import (
	"encoding/json"
	"fmt"
	"testing"

	client "github.com/hashicorp/go-tfe"
)

// planDocument has the fields of a plan's JSON document that the test uses.
type planDocument struct {
	Prior struct {
		Values documentValues `json:"values"`
	} `json:"prior_state"`
	Planned documentValues `json:"planned_values"`
	Changes []struct {
		Address string `json:"address"`
	} `json:"resource_changes"`
	Unchanged int `json:"millipede_unchanged"`
}

type documentValues struct {
	Root struct {
		Resources []struct {
			Address string         `json:"address"`
			Values  map[string]any `json:"values"`
		} `json:"resources"`
	} `json:"root_module"`
}

// inputs returns the inputs of the objects, in their order.
func (v documentValues) inputs() string {
	out := ""
	for _, r := range v.Root.Resources {
		out += fmt.Sprintf("%s=%v ", r.Address, r.Values["input"])
	}
	return out
}

// Each plan made its whole document, as large as the state, whether or not it was requested. It is now made when it is
// requested, also after the state has changed, and shows the objects that existed when the plan was made. The redacted
// document listed unchanged objects.
func TestTheDocumentOfAPlanSaysWhatThereWasThen(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprint("object-locks ", shared), func(t *testing.T) { documentsStay(t, shared) })
	}
}

// documentsStay tests a workspace whose runs share the state, or do not share it: if they do, the stored plan omits
// what the store has.
func documentsStay(t *testing.T, shared bool) {
	h := newAlone(t)
	h.set("object-locks", shared)
	s, w, ctx := h.served, h.w, t.Context()
	applied := func(a, b string) *client.Run {
		t.Helper()
		r := s.run(w, fmt.Sprintf(`
terraform {
  cloud {
    organization = "main"
    workspaces { name = "one" }
  }
}
resource "terraform_data" "a" { input = %q }
resource "terraform_data" "b" { input = %q }
`, a, b), client.RunCreateOptions{})
		if r.Status != client.RunApplied {
			t.Fatalf("%s: %s", r.Status, s.log(s.client.Plans.Logs(ctx, r.Plan.ID)))
		}
		return r
	}
	document := func(path string) (d planDocument, text string) {
		t.Helper()
		text = s.get(path)
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return d, text
	}
	applied("1", "x")
	r := applied("2", "x")
	applied("3", "y")
	whole, text := document("plans/" + r.Plan.ID + "/json-output")
	if prior, planned := whole.Prior.Values.inputs(), whole.Planned.inputs(); len(whole.Changes) != 2 ||
		prior != "terraform_data.a=1 terraform_data.b=x " || planned != "terraform_data.a=2 terraform_data.b=x " {
		t.Errorf("there was %q, it plans %q, and lists %v", prior, planned, whole.Changes)
	}
	if _, again := document("plans/" + r.Plan.ID + "/json-output"); again != text {
		t.Errorf("it is another one when somebody asks again: %s", again)
	}
	redacted, text := document("plans/" + r.Plan.ID + "/json-output-redacted")
	if len(redacted.Changes) != 1 || redacted.Changes[0].Address != "terraform_data.a" || redacted.Unchanged != 1 {
		t.Errorf("redacted it is %s", text)
	}
}
