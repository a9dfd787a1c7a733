package deploy_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	yaml "github.com/zclconf/go-cty-yaml"
	"github.com/zclconf/go-cty/cty"
)

// The chart is linted and rendered by make helm, whose libraries take minutes to build. What a change elsewhere can
// break is checked here, too.
const chart = "helm/millipede/"

func text(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestTheChartHasTheRulesTheDashboardAndTheRightsOfThisFolder(t *testing.T) {
	for ours, theirs := range map[string]string{"millipede.rules.yml": "prometheus/millipede.rules.yml",
		"millipede.json": "grafana/millipede.json"} {
		if text(t, chart+"files/"+ours) != text(t, theirs) {
			t.Errorf("%sfiles/%s is not %s: copy it, and run make helm", chart, ours, theirs)
		}
	}
	pool := strings.NewReplacer("@ACCOUNT@", "POOL_EU", "@VARIABLE@", "WORKER_EU", "@pool@", "eu").
		Replace(text(t, chart+"files/pool.conf"))
	_, ours, _ := strings.Cut(pool, "\n")
	_, theirs, _ := strings.Cut(text(t, "nats/pool-eu.conf"), "\n")
	if ours != theirs {
		t.Errorf("%sfiles/pool.conf is not nats/pool-eu.conf", chart)
	}
	_, ours, _ = strings.Cut(text(t, chart+"files/exports.conf"), "\n")
	if !strings.Contains(text(t, "nats/accounts.conf"), strings.TrimRight(ours, "\n")) {
		t.Errorf("%sfiles/exports.conf is not a part of nats/accounts.conf", chart)
	}
}

func TestEachValueOfTheChartIsInItsSchema(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal([]byte(text(t, chart+"values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	values := []byte(text(t, chart+"values.yaml"))
	of, err := yaml.Standard.ImpliedType(values)
	if err != nil {
		t.Fatal(err)
	}
	v, err := yaml.Standard.Unmarshal(values, of)
	if err != nil {
		t.Fatal(err)
	}
	var walk func(path string, v cty.Value, schema map[string]any)
	walk = func(path string, v cty.Value, schema map[string]any) {
		properties, ok := schema["properties"].(map[string]any)
		if !ok || !v.Type().IsObjectType() {
			return
		}
		for name, value := range v.AsValueMap() {
			s, ok := properties[name].(map[string]any)
			if !ok {
				t.Errorf("the schema does not know %s%s", path, name)
				continue
			}
			walk(path+name+".", value, s)
		}
	}
	walk("", v, schema)
}

// A container that may write its root, or that keeps privileges, is a change that somebody has to want.
func TestContainersOfComposeHaveNoPrivileges(t *testing.T) {
	file := text(t, "compose/compose.yaml")
	for _, want := range []string{"read_only: true", `user: "65532:65532"`, "cap_drop: [ALL]",
		`security_opt: ["no-new-privileges:true"]`} {
		if !strings.Contains(file, want) {
			t.Errorf("compose.yaml has no %s", want)
		}
	}
	for _, never := range []string{"privileged:", "cap_add:", "network_mode: host", "/var/run/docker.sock"} {
		if strings.Contains(file, never) {
			t.Errorf("compose.yaml has %s", never)
		}
	}
	for _, region := range []string{"eu", "us", "ap"} {
		if !regexp.MustCompile(`(?s)\n  worker-`+region+`:\n.*?networks: \[`+region+`\]`).MatchString(file) ||
			!strings.Contains(file, "\n  "+region+": {internal: true}") {
			t.Errorf("the worker of %s is not in a network of its own", region)
		}
	}
}
