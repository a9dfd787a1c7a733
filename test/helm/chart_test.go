// Package helm tests the chart deploy/helm/millipede as Helm reads it: its values, its templates, and who may reach
// whom in what they produce. It needs no cluster, except for the dry run.
package helm

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/releaseutil"
	"sigs.k8s.io/yaml"
)

const folder = "../../deploy/helm/millipede"

var record = flag.Bool("record", false, "record what the templates produce now as the expectation")

// sets are the sets of values in testdata, by name.
func sets(t *testing.T) map[string]map[string]any {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]any{}
	for _, path := range paths {
		values, err := chartutil.ReadValuesFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(path), ".yaml")] = values
	}
	if len(out) < 10 {
		t.Fatalf("there are only %d sets of values", len(out))
	}
	return out
}

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render returns the objects of a release "m" in the namespace "infra", as YAML, in the order of their kinds and names.
func render(t *testing.T, values map[string]any) ([]string, error) {
	t.Helper()
	c := load(t)
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "m", Namespace: "infra",
		IsInstall: true, Revision: 1}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	var out []string
	for path, text := range files {
		if strings.HasSuffix(path, ".txt") {
			continue
		}
		for _, object := range releaseutil.SplitManifests(text) {
			if strings.TrimSpace(object) != "" {
				out = append(out, object)
			}
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		return strings.Compare(title(t, a), title(t, b))
	})
	return out, nil
}

// title returns the kind and the name of an object.
func title(t *testing.T, text string) string {
	t.Helper()
	var o struct {
		Kind     string
		Metadata struct{ Name string }
	}
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	if o.Kind == "" || o.Metadata.Name == "" {
		t.Fatalf("an object without a kind or a name:\n%s", text)
	}
	return o.Kind + "/" + o.Metadata.Name
}

func TestHelmFindsNothingToComplainAbout(t *testing.T) {
	for name, values := range sets(t) {
		for _, m := range lint.All(folder, values, "infra", true).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %s", name, m.Error())
			}
		}
	}
}

// A change of a template shows its effect in the difference of the recordings; -record makes new ones.
func TestTheTemplatesProduceWhatWasRecorded(t *testing.T) {
	for name, values := range sets(t) {
		objects, err := render(t, values)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := []byte(strings.Join(objects, "\n---\n") + "\n")
		path := filepath.Join("testdata", name+".objects")
		if *record {
			if err := os.WriteFile(path, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: the objects are not those that were recorded in %s; see what differs after -record", name, path)
		}
	}
}

func TestAWrongValueIsRefusedWithItsName(t *testing.T) {
	for text, want := range map[string]string{
		"service: {address: 'http://x', keySecret: k}\nnats: {passwordSecret: p}":                                                  "address",
		"service: {address: 'https://x'}\nnats: {passwordSecret: p}":                                                               "keySecret",
		"service: {address: 'https://x', keySecret: k}":                                                                            "passwordSecret",
		"service: {address: 'https://x', keySecret: k, replicas: 3}\nnats: {passwordSecret: p}":                                    "replicas",
		"service: {address: 'https://x', keySecret: k}\nnats: {passwordSecret: p, replicas: 2}":                                    "replicas",
		"service: {address: 'https://x', keySecret: k}\nnats: {passwordSecret: p, maxFileStore: 20}":                               "maxFileStore",
		"service: {address: 'https://x', keySecret: k}\nnats: {passwordSecret: p, enabled: false}":                                 "url",
		"service: {address: 'https://x', keySecret: k}\nnats: {passwordSecret: p}\npools: []":                                      "pools",
		"service: {address: 'https://x', keySecret: k}\nnats: {passwordSecret: p}\npools: [{name: EU}]":                            "name",
		"service: {address: 'https://x', keySecret: k}\nnats: {passwordSecret: p}\npools: [{name: eu, slot: 3}]":                   "slot",
		"service: {address: 'https://x', keySecret: k}\nnats: {passwordSecret: p}\npools: [{name: eu, slots: 0}]":                  "slots",
		"service: {address: 'https://x', keySecret: k}\nnats: {passwordSecret: p}\npools: [{name: eu, autoscaling: {kind: keda}}]": "prometheus",
		"service: {address: 'https://x', keySecret: k}\nnats: {passwordSecret: p}\nterminationGracePeriodSeconds: 30":              "terminationGracePeriodSeconds",
		"service: {address: 'https://x', keySecret: k}\nnats: {passwordSecret: p}\nbackup: {enabled: true}":                        "tokenSecret",
		"service: {address: 'https://x', keySecret: k}\nnats: {passwordSecret: p}\nrestore: {enabled: true}":                       "file",
		"service: {address: 'https://x', keySecret: k}\nnats: {passwordSecret: p}\nimage: {pullPolicy: Sometimes}":                 "pullPolicy",
	} {
		values, err := chartutil.ReadValues([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error of\n%s\ndoes not name %s: %v", text, want, err)
		}
	}
}

func TestEachValueHasItsDefaultAndItsDescription(t *testing.T) {
	c := load(t)
	text, err := os.ReadFile(filepath.Join(folder, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := yaml.Unmarshal(c.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, schema map[string]any, defaults any)
	walk = func(path string, schema map[string]any, defaults any) {
		properties, _ := schema["properties"].(map[string]any)
		values, _ := defaults.(map[string]any)
		for name, s := range properties {
			if path == "" && name == "global" || path == ".networkPolicy.clouds" {
				continue
			}
			value, ok := values[name]
			if !ok {
				t.Errorf("values.yaml has no default of %s.%s", path, name)
			}
			walk(path+"."+name, s.(map[string]any), value)
		}
	}
	walk("", schema, map[string]any(c.Values))
	if n := bytes.Count(text, []byte("# ")); n < 40 {
		t.Errorf("only %d lines describe the values", n)
	}
}
