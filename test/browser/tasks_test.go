//go:build unix

package browser

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
)

// traced is an event of Chromium's trace.
type traced struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	TID  int    `json:"tid"`
	CPU  int64  `json:"tdur"` // microseconds of CPU of the thread
	Args struct {
		Name string `json:"name"`
	} `json:"args"`
}

// longestTask returns how many milliseconds of CPU the longest task of a page's main thread took while act was carried
// out. A frame is one task: its scripts, its style and its layout. Other programs, which make a task take longer on a
// busy machine, do not make it take more CPU.
func (s *Site) longestTask(act func()) float64 {
	s.t.Helper()
	var mu sync.Mutex // guards all
	var all []traced
	over := make(chan struct{})
	ctx, cancel := context.WithCancel(s.ctx) // it ends the listener
	defer cancel()
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *tracing.EventDataCollected:
			mu.Lock()
			defer mu.Unlock()
			for _, text := range e.Value {
				var one traced
				if json.Unmarshal(text, &one) == nil {
					all = append(all, one)
				}
			}
		case *tracing.EventTracingComplete:
			close(over)
		}
	})
	s.do(tracing.Start().WithTransferMode(tracing.TransferModeReportEvents).WithTraceConfig(&tracing.TraceConfig{
		IncludedCategories: []string{"disabled-by-default-devtools.timeline", "__metadata"},
		ExcludedCategories: []string{"*"}}))
	act()
	s.do(tracing.End())
	select {
	case <-over:
	case <-s.t.Context().Done():
		s.t.Fatal("the trace of the browser has no end")
	}
	mu.Lock()
	defer mu.Unlock()
	type thread struct{ pid, tid int }
	pages := map[thread]bool{}
	for _, e := range all {
		if e.Name == "thread_name" && e.Args.Name == "CrRendererMain" {
			pages[thread{e.PID, e.TID}] = true
		}
	}
	tasks, longest := 0, int64(0)
	for _, e := range all {
		if e.Name == "RunTask" && pages[thread{e.PID, e.TID}] {
			tasks++
			longest = max(longest, e.CPU)
		}
	}
	if tasks == 0 || longest == 0 {
		s.t.Fatalf("the trace of the browser has %d events, and %d tasks of pages", len(all), tasks)
	}
	return float64(longest) / 1000
}
