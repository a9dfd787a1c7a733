package view_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

// A plan from a service, as JSON, is shown like the plan itself: the recorded plans of OpenTofu, with the schemas
// that a service sends with them.
func TestAPlanOfAServiceReadsAsOneMadeHere(t *testing.T) {
	for name, a := range recordings(t) {
		t.Run(name, func(t *testing.T) {
			p, schemas := planOf(t, content(a, "plan.json"), content(a, "schemas.json"))
			var doc, forms map[string]json.RawMessage
			if err := json.Unmarshal(content(a, "plan.json"), &doc); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(content(a, "schemas.json"), &forms); err != nil {
				t.Fatal(err)
			}
			doc["provider_schemas"] = forms["provider_schemas"]
			text, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			read, theirs, err := document.ReadPlan(text)
			if err != nil {
				t.Fatal(err)
			}
			read.Mode, read.Errored = plan.Normal, p.Errored
			p.Mode = plan.Normal
			var here, there bytes.Buffer
			if err := view.PlanText(&here, p, schemas, view.TextOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := view.PlanText(&there, read, theirs, view.TextOptions{}); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(here.String(), there.String()); d != "" {
				t.Errorf("-here +service\n%s", d)
			}
		})
	}
}

func TestAPlanOfAServiceThatIsNoneIsAnError(t *testing.T) {
	for claim, text := range map[string]string{
		"no JSON":         "<html>",
		"no schema":       `{"resource_changes":[{"address":"a.b","provider_name":"x/y","change":{"actions":["create"]}}]}`,
		"another address": `{"resource_changes":[{"address":"?","provider_name":"x/y","change":{"actions":["create"]}}]}`,
	} {
		if _, _, err := document.ReadPlan([]byte(text)); err == nil {
			t.Errorf("%s: it was read", claim)
		}
	}
	redacted := `{"resource_changes":[{"address":"a.b","provider_name":"x/y","change":{"actions":["create"],` +
		`"after":{"n":"REDACTED"},"after_sensitive":{"n":true}}}],"provider_schemas":{"x/y":{"resource_schemas":` +
		`{"a":{"block":{"attributes":{"n":{"type":["list","number"],"optional":true}}}}}}}}`
	p, schemas, err := document.ReadPlan([]byte(redacted))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := view.PlanText(&b, p, schemas, view.TextOptions{}); err != nil || strings.Contains(b.String(), "REDACTED") ||
		!strings.Contains(b.String(), "n = (sensitive value)") {
		t.Errorf("%v: %s", err, b.String())
	}
}
