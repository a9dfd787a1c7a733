package main

import (
	"os"
	"testing"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/test/stage/collector"
	"github.com/millipede-iac/millipede/test/stage/site"
)

// The service had a tracer, but its runs did not: no span of them was ever sent.
func TestTheRunsOfAServiceAreTraced(t *testing.T) {
	c := collector.Start(t)
	s, _ := serveUnder(t, environ.Variables{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"),
		"OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_ENDPOINT=http://" + c.GRPC,
		"OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_BSP_SCHEDULE_DELAY=100"}, "", t.Output())
	w, err := s.client.Workspaces.Create(t.Context(), "main", client.WorkspaceCreateOptions{Name: client.String("one")})
	if err != nil {
		t.Fatal(err)
	}
	r := s.run(w, "resource \"terraform_data\" \"a\" {}\n", client.RunCreateOptions{})
	s.stop()
	c.Until(site.Waiting(t), t, func(spans []collector.Span) bool {
		phases, created := map[string]string{}, false
		for _, span := range spans {
			if span.Attribute("millipede.run") == r.ID {
				phases[span.ID()] = span.Name
			}
		}
		byID := map[string]collector.Span{}
		for _, span := range spans {
			byID[span.ID()] = span
		}
		for _, span := range spans {
			for at := span; span.Name == "create terraform_data"; at = byID[at.Parent()] {
				if phases[at.ID()] == "apply" {
					created = true
				}
				if byID[at.Parent()].Span == nil {
					break
				}
			}
		}
		return created && len(phases) == 2
	})
}
