package helm

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// essence returns a configuration of NATS without comments, commas and layout.
func essence(text string) string {
	text = regexp.MustCompile(`(?m)^\s*#.*$`).ReplaceAllString(text, "")
	return strings.Join(strings.Fields(strings.NewReplacer(",", " ", "[", " [ ", "]", " ] ").Replace(text)), " ")
}

// The tests of deploy try what each user of deploy/nats may do. The chart gives the same rights.
func TestTheAccountsAreThoseOfTheConfigurationWhoseRightsAreTried(t *testing.T) {
	config := release(t, "three-regions").config["m-nats"].Data
	for _, name := range []string{"accounts.conf", "pool-eu.conf", "pool-us.conf", "pool-ap.conf", "observers.conf"} {
		want, err := os.ReadFile(filepath.Join("../../deploy/nats", name))
		if err != nil {
			t.Fatal(err)
		}
		got, tried := words(config[name]), words(string(want))
		if !slices.Equal(got, tried) {
			t.Errorf("%s differs from deploy/nats:\n%s\n\n%s", name, essence(config[name]), essence(string(want)))
		}
	}
	for _, want := range []string{"sync_interval: always", "max_payload: 8MB", `ping_interval: "2s"`, "ping_max: 2"} {
		if !strings.Contains(config["nats.conf"], want) {
			t.Errorf("the configuration has no %s, which the guarantees rest on", want)
		}
	}
}

// words are the words of a configuration in the order of the alphabet: lists have an order of their own in each file.
func words(text string) []string {
	out := strings.Fields(essence(text))
	slices.Sort(out)
	return out
}

func TestRulesAndDashboardAreThoseOfTheProject(t *testing.T) {
	for file, path := range map[string]string{"millipede.rules.yml": "prometheus", "millipede.json": "grafana"} {
		theirs, err := os.ReadFile(filepath.Join("../../deploy", path, file))
		if err != nil {
			t.Fatal(err)
		}
		ours, err := os.ReadFile(filepath.Join(folder, "files", file))
		if err != nil {
			t.Fatal(err)
		}
		if string(ours) != string(theirs) {
			t.Errorf("files/%s of the chart is not deploy/%s/%[1]s: copy it", file, path)
		}
	}
	o := release(t, "monitored")
	groups, err := yaml.Marshal(o.others["PrometheusRule/m"]["spec"])
	if err != nil || !strings.Contains(string(groups), "MillipedePoolWithoutWorkers") {
		t.Errorf("the rules are not in their object: %v: %s", err, groups)
	}
	if !strings.Contains(o.config["m-dashboard"].Data["millipede.json"], `"title": "Millipede"`) {
		t.Error("the dashboard is not in its object")
	}
}
