//go:build unix

package browser

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/work"
)

// The sizes that pages have to stand.
const (
	manyObjects = 100_000
	longLog     = 100 << 20
)

// large is an engine whose plan, state and log are as large as any.
func large(s *Site) {
	var redacted, state bytes.Buffer
	redacted.WriteString(`{"resource_changes":[`)
	state.WriteString(`{"version":4,"serial":1,"lineage":"l","outputs":{},"resources":[`)
	for i := range manyObjects {
		if i > 0 {
			redacted.WriteByte(',')
			state.WriteByte(',')
		}
		module := fmt.Sprintf("module.zone[%d]", i/500)
		fmt.Fprintf(&redacted, `{"address":"%s.fleet_vm.node%d","module_address":"%s","mode":"managed","type":"fleet_vm",`+
			`"name":"node%d","change":{"actions":["create"],"before":null,"after":{"size":%d,"text":"%s"}}}`,
			module, i, module, i, i, strings.Repeat("x", 300))
		fmt.Fprintf(&state, `{"module":"%s","mode":"managed","type":"fleet_vm","name":"node%d","instances":[`+
			`{"attributes":{"size":%d,"text":"%s"}}]}`, module, i, i, strings.Repeat("x", 300))
	}
	redacted.WriteString(`],"provider_schemas":{"p":{"resource_schemas":{"fleet_vm":{"block":{}}}}}}`)
	state.WriteString("]}")
	s.Engine.PlanFunc = func(_ context.Context, j *work.Job) (*work.PlanResult, error) {
		line := strings.Repeat("a long log ", 9) + "\n"
		block := []byte(strings.Repeat(line, 1+(1<<20)/len(line)))
		for range longLog >> 20 {
			if _, err := j.Log.Write(block); err != nil {
				return nil, err
			}
		}
		return &work.PlanResult{HasChanges: true, Add: manyObjects, Plan: []byte("plan of " + j.Run.ID),
			Redacted: redacted.Bytes()}, nil
	}
	s.Engine.ApplyFunc = func(ctx context.Context, j *work.Job) (*work.ApplyResult, error) {
		return &work.ApplyResult{Add: manyObjects}, j.State.Write(ctx, state.Bytes())
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // it does not overflow
}

func TestLargeThingsAreLookedAtWithoutWaiting(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes hundreds of megabytes")
	}
	s := Open(t)
	large(s)
	w := s.NewWorkspace("large")
	run := s.NewRun(w, func(r *record.Run) { r.AutoApply = true })
	s.Await(run.ID, record.Applied)
	s.login()
	before := heap()
	for _, path := range []string{"/runs/" + run.ID, "/runs/" + run.ID + "?q=node777", "/state",
		"/state?module=module.zone%5B7%5D", "/runs/" + run.ID + "?module=module.zone%5B7%5D"} {
		s.open("/app/acme/large" + path) // the first time outlines are made
		s.open("/app/acme/large" + path)
		paint := value[float64](s, `performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? `+
			`performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd`)
		elements := value[int](s, `document.getElementsByTagName("*").length`)
		text := value[int](s, `document.documentElement.outerHTML.length`)
		t.Logf("%s: first paint after %.0f ms, %d elements, %d bytes", path, paint, elements, text)
		if elements > 8000 || text > 2<<20 {
			t.Errorf("%s has %d elements and %d bytes", path, elements, text)
		}
		if limit := 1000.0; paint > limit && *timed {
			t.Errorf("%s: first paint after %.0f ms", path, paint)
		}
	}
	s.shows("module.zone[7].fleet_vm.node3500")
	s.do(chromedp.Click(`.objects li:first-child summary`, chromedp.ByQuery))
	s.until("the change is not fetched", `document.querySelector(".objects .diff")?.innerText.includes("3500")`)
	if grown := (heap() - before) >> 20; grown > 100 {
		t.Errorf("the pages keep %d MiB", grown)
	}
	s.do(chromedp.Click(`[data-earlier]`, chromedp.ByQuery))
	s.until("no earlier part of the log came", `document.querySelectorAll(".log code").length === 2`)
}
