package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"
)

// The budgets of a service, each measured with `coordinator serve` in a separate process.

func (t *table) serviceLines(large bool) []line {
	lines := []line{
		{"a state of 10 MB, `http` backend: GET; POST, durable; p99", "50 ms; 200 ms", t.serviceStates},
		{"1,000 clients follow the log of a run, ten lines a second: CPU; maximum delay",
			"1 core; 1 s", t.serviceLogs},
		{"50 runs of 50 resources over 10 workspaces, approvals included: CPU, relative to that of the same commands",
			"1.15", t.serviceRuns},
		{"the same, `kill -9` three times meanwhile: time until it is running again", "2 s", t.serviceKilled},
		{"the first line of a run's log, after its request; p99 of 50", "100 ms", t.serviceFirstLine},
		{"120 workspaces, 120 runs at once, 8 workers of 10 slots: the last run's first operation after its request",
			"3 s", t.serviceBurst},
		{"8 teams change 250 of their 2,500 objects in one state at once: time, relative to one team alone", "1.3",
			t.serviceTeams},
	}
	if large { // creating that history takes minutes
		lines = append(lines, line{"start with 1,000 workspaces and 20,000 ended runs: ready after; memory",
			"1 s; 150 MiB", t.serviceStart})
	}
	return lines
}

// service creates the directory of a service. done ends the processes started in it.
func (t *table) service(args ...string) (h *host, done func(), err error) {
	dir, err := os.MkdirTemp(t.dir, "service-")
	if err != nil {
		return nil, nil, err
	}
	if h, err = t.newHost(dir, args...); err != nil {
		return nil, nil, err
	}
	return h, func() {
		if h.Process != nil {
			_ = h.Kill() // the process may have ended already
		}
		os.RemoveAll(dir) //nolint:errcheck // as is the enclosing directory at the end
	}, nil
}

// serviceStates measures one client that reads and writes a state like the backend "http".
func (t *table) serviceStates(ctx context.Context) (string, bool, error) {
	const gets, posts, size = 200, 100, 10_000_000
	h, done, err := t.service()
	if err != nil {
		return "", false, err
	}
	defer done()
	if _, err := h.start(ctx); err != nil {
		return "", false, err
	}
	if _, err := h.workspace(ctx, "large"); err != nil {
		return "", false, err
	}
	const at, lock = "/state/main/large", `{"ID":"bench","Operation":"bench","Who":"bench"}`
	if _, err := h.send(ctx, h.http, "LOCK", at, "application/json", []byte(lock)); err != nil {
		return "", false, err
	}
	var read, written []time.Duration
	for i := range posts {
		text := largeState(i+1, size)
		began := time.Now()
		if _, err := h.send(ctx, h.http, http.MethodPost, at+"?ID=bench", "application/json", text); err != nil {
			return "", false, err
		}
		written = append(written, time.Since(began))
	}
	last := largeState(posts, size)
	for range gets {
		began := time.Now()
		text, err := h.send(ctx, h.http, http.MethodGet, at, "", nil)
		if err != nil {
			return "", false, err
		}
		read = append(read, time.Since(began))
		if !bytes.Equal(text, last) {
			return "", false, errors.New("the service returned another state than the one written last")
		}
	}
	get, post := hundredth(read), hundredth(written)
	return fmt.Sprintf("%s; %s (medians %s; %s)", short(get), short(post), short(half(read)), short(half(written))),
		get <= 50*time.Millisecond && post <= 200*time.Millisecond, nil
}

// largeState returns a state of about the given size, in OpenTofu's form.
func largeState(serial, size int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"version":4,"terraform_version":"1.12.0","serial":%d,"lineage":"bench","outputs":{},`+
		`"resources":[`, serial)
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"mode":"managed","type":"terraform_data","name":"r%d","provider":"provider[\"terraform.io/`+
			`builtin/terraform\"]","instances":[{"schema_version":0,"attributes":{"id":"%036d","input":{"value":"%s",`+
			`"type":"string"},"output":{"value":"%[3]s","type":"string"},"triggers_replace":null},`+
			`"sensitive_attributes":[]}]}`, i, i, "a value of some length, as attributes of real objects have")
	}
	b.WriteString(`],"check_results":null}`)
	return b.Bytes()
}

// hundredth returns the 99th percentile; half returns the median.
func hundredth(list []time.Duration) time.Duration { return quantile(list, 99) }
func half(list []time.Duration) time.Duration      { return quantile(list, 50) }

func quantile(list []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}
