package main

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/cmd/internal/build"
)

func TestAServiceIsScrapedWhereItWasToldAndNowhereElse(t *testing.T) {
	said := &safe{}
	s, _ := serveTo(t, t.TempDir(), "", said, "-metrics=127.0.0.1:0")
	w, err := s.client.Workspaces.Create(t.Context(), "main", client.WorkspaceCreateOptions{Name: client.String("one")})
	if err != nil {
		t.Fatal(err)
	}
	r := s.run(w, "resource \"terraform_data\" \"a\" { count = 3 }\n", client.RunCreateOptions{})
	if r.Status != client.RunApplied {
		t.Fatalf("the run is %s", r.Status)
	}
	address := regexp.MustCompile(`msg=metrics address=(\S+)`).FindStringSubmatch(said.String())
	if address == nil {
		t.Fatalf("it does not say where:\n%s", said)
	}
	read := func(c *http.Client, url string) (int, string) {
		answer, err := c.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	status, text := read(http.DefaultClient, "http://"+address[1]+"/metrics")
	// A change of a run is counted once it is stored, when clients may already have read it; and one scrape may count the
	// runs before the change, and the changes after it.
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until) &&
		!(strings.Contains(text, `millipede_run_changes_total{status="applied"} 1`) &&
			strings.Contains(text, `millipede_runs{status="applying"} 0`)); {
		status, text = read(http.DefaultClient, "http://"+address[1]+"/metrics")
	}
	http.DefaultClient.CloseIdleConnections()
	for _, want := range []string{
		`millipede_vertices_total{action="create",outcome="succeeded"} 3`,
		`millipede_run_changes_total{status="applied"} 1`, `millipede_runs{status="applying"} 0`,
		`millipede_nats_up 1`, `millipede_workers{pool="default"} 1`, `millipede_store_commit_seconds_count `,
		`millipede_worker_tasks_total{operation="apply",outcome="succeeded"} 3`,
		`millipede_build_info{program="service",version="` + build.Version() + `"} 1`,
	} {
		if status != http.StatusOK || !strings.Contains(text, "\n"+want) {
			t.Errorf("%d: it does not say %s", status, want)
		}
	}
	if status, _ := read(s.http, s.address+"/metrics"); status == http.StatusOK {
		t.Error("who has no token reads the metrics")
	}
	s.stop()
	if t.Failed() {
		t.Log(text)
	}
}
