//go:build unix

package browser

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/millipede-iac/millipede/coordinator/picture"
	"github.com/millipede-iac/millipede/coordinator/timeline"
)

const evilName = `aws_vpc.evil["</script><img src=x onerror='window.evil=1'><script>window.evil=1</script>"]`

// drawnRun is a run of n operations in ten modules on four workers of eight slots; of those one has failed, and the
// last one has a name that would like to be a script.
func drawnRun(n int) *timeline.Model {
	head := timeline.Head{Run: "EXAMPLE", Workspace: "default", Command: "apply", Begun: 1.7e12, Ended: timeline.None,
		Now: int64(n) * 125}
	recorder := timeline.NewRecorder(head)
	for i := range n {
		begin := int64(i/32) * 4000
		v := timeline.Vertex{Number: i, Module: fmt.Sprintf("module.area%d", i*10/n), Type: "aws_vpc", Action: "create",
			Status: timeline.Done, Pool: "eu", Worker: fmt.Sprintf("worker-%d", i%32/8), Attempts: 1, Attempt: "A",
			Started: begin + 10, Ended: begin + 3500 + int64(i%400), Took: 3400,
			Waits: []timeline.Wait{{Kind: timeline.ForPermit, Name: "aws/api", From: 0, To: begin + 10}}}
		v.Address = fmt.Sprintf("%s.aws_vpc.main[%d]", v.Module, i)
		if i >= 32 {
			v.After = []int{i - 32}
		}
		switch {
		case i == 40:
			v.Status, v.Failure = timeline.Failed, "no room <img src=x onerror='window.evil=1'>"
		case i == n-1:
			v.Module, v.Address, v.Worker = "", evilName, "<script>window.evil=1</script>"
		}
		recorder.Add(v)
	}
	recorder.Note(func(h *timeline.Head, _ *int64, _ *[]timeline.Shortage) { h.Outcome, h.Ended = "failed", h.Now })
	return recorder.Model(head.Now)
}

// report opens a report from the disk, and returns its size and the time until it was drawn.
func (s *Site) report(m *timeline.Model) (size int64, took time.Duration) {
	s.t.Helper()
	var b bytes.Buffer
	if err := (&picture.Report{Model: m, Parts: map[int]string{40: "action: create\n"}}).Write(&b); err != nil {
		s.t.Fatal(err)
	}
	path := filepath.Join(s.t.TempDir(), "report.html")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		s.t.Fatal(err)
	}
	began := time.Now()
	s.do(chromedp.Navigate("file://" + path))
	s.until("the report is not drawn", `document.documentElement.dataset.ready`)
	return int64(b.Len()), time.Since(began)
}

func TestAReportOpensFromTheDiskAndIsUsedByKeyboard(t *testing.T) {
	s := Open(t)
	size, took := s.report(drawnRun(2000))
	t.Logf("2,000 operations: %d bytes, drawn after %s", size, took.Round(time.Millisecond))
	if size > 3_000_000 {
		t.Errorf("it has %d bytes", size)
	}
	if *timed && took > 2*time.Second {
		t.Errorf("it was drawn after %s", took)
	}
	s.shows("What went wrong")
	s.shows("The critical path has")
	// Search, and go to the result.
	s.do(chromedp.Focus(`input[type=search]`, chromedp.ByQuery), chromedp.KeyEvent("failed\r"))
	s.shows("1 found")
	details := func(text string) {
		s.until("the details do not show "+text,
			`document.querySelector(".picture-details").innerText.includes("`+text+`")`)
	}
	details("no room")
	details("action: create")
	// The graph, by its tab and with the arrow keys.
	s.do(chromedp.Focus(`#picture-tab-gantt`, chromedp.ByQuery), chromedp.KeyEvent(kb.ArrowLeft))
	s.until("the graph is not shown", `!document.querySelector("#picture-graph").hidden`)
	s.do(chromedp.Focus(`#picture-graph canvas`, chromedp.ByQuery),
		chromedp.KeyEvent(kb.Escape+kb.Home+kb.ArrowRight+"+-0"))
	s.until("nothing is selected", `picture.selected !== null`)
	// The list, without the search.
	s.do(chromedp.Evaluate(`picture.input.value = ""; picture.search("")`, nil))
	s.do(chromedp.Focus(`.picture-list`, chromedp.ByQuery), chromedp.KeyEvent(kb.End+"\r"))
	details("aws_vpc.evil")
	if value[bool](s, `window.evil !== undefined`) {
		t.Error("a name was taken for a script")
	}
}

func TestTheCriticalPathIsFollowedByKeyboard(t *testing.T) {
	s := Open(t)
	s.report(drawnRun(200)) // seven rounds of 32, each operation behind one of the round before
	s.do(chromedp.Focus(`#picture-tab-gantt`, chromedp.ByQuery), chromedp.KeyEvent(kb.ArrowLeft))
	s.tabTo("the critical path", `e.textContent === "Critical path"`, "\r")
	at := func(what string) {
		t.Helper()
		s.until("it is not at "+what, `document.querySelector(".picture-steps")?.innerText.includes(`+quoted(what)+`)`)
	}
	at("critical path: 1 of 7")
	s.tabTo("the next step", `e.textContent === "Next"`, "\r")
	at("critical path: 2 of 7")
	s.do(chromedp.KeyEvent("\r")) // the button has kept the focus
	at("critical path: 3 of 7")
	path := value[[]string](s, `picture.path().map((i) => picture.run.address(i))`)
	if got := value[string](s, `document.querySelector(".picture-details h3").innerText`); got != path[2] {
		t.Errorf("it is at %s, and the path is %v", got, path)
	}
}

// Opening the details made the canvas smaller, and a part of the graph was out of sight.
func TestAGraphThatShowsEverythingStillDoesInAnotherSize(t *testing.T) {
	s := Open(t)
	s.report(drawnRun(100))
	s.do(chromedp.Click(`#picture-tab-graph`, chromedp.ByQuery))
	const whole = `(({ view, plan, surface }) => surface.width > 0 && view.x >= 0 &&
		view.x + plan.width * view.scale <= surface.width)(picture.graph)`
	s.until("the graph is not in sight", whole)
	for _, width := range []int64{900, 700, 1600} {
		s.do(chromedp.EmulateViewport(width, 900))
		s.until(fmt.Sprintf("the graph is not in sight on %d pixels", width), whole)
	}
	s.do(chromedp.Focus(`#picture-graph canvas`, chromedp.ByQuery), chromedp.KeyEvent("+"), chromedp.KeyEvent("+"))
	scale := value[float64](s, `picture.graph.view.scale`)
	s.do(chromedp.EmulateViewport(1200, 900))
	if got := value[float64](s, `picture.graph.view.scale`); got != scale {
		t.Errorf("the scale that was chosen is %g, and now it is %g", scale, got)
	}
}

func TestAReportOfAHundredThousandOpensFromTheDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes a large file")
	}
	s := Open(t)
	size, took := s.report(drawnRun(100_000))
	t.Logf("100,000 operations: %d bytes, drawn after %s", size, took.Round(time.Millisecond))
	if size > 12_000_000 {
		t.Errorf("it has %d bytes", size)
	}
	if *timed && took > 2*time.Second {
		t.Errorf("it was drawn after %s", took)
	}
	s.until("the rest is not unpacked", `document.documentElement.dataset.ready === "all"`)
	s.shows("waiting for a permit of the limit aws/api")
}

// touch puts fingers on the screen, moves each from its first point to its last one, and takes them away.
func (s *Site) touch(fingers ...[2]point) {
	s.t.Helper()
	at := func(part float64) (all []*input.TouchPoint) {
		for i, f := range fingers {
			all = append(all, &input.TouchPoint{ID: float64(i + 1), X: f[0].X + (f[1].X-f[0].X)*part,
				Y: f[0].Y + (f[1].Y-f[0].Y)*part})
		}
		return all
	}
	s.do(input.DispatchTouchEvent(input.TouchStart, at(0)))
	for k := range 5 {
		s.do(input.DispatchTouchEvent(input.TouchMove, at(float64(k+1)/5)))
	}
	s.do(input.DispatchTouchEvent(input.TouchEnd, []*input.TouchPoint{}))
}

type point struct{ X, Y float64 }

// Two fingers dragged the drawings to and fro, because the place of one was compared with that of the other.
func TestTwoFingersZoomAndOneDrags(t *testing.T) {
	s := Open(t)
	s.report(drawnRun(200))
	in := func(view string) point { // the middle of the canvas
		s.do(chromedp.Click("#picture-tab-"+view, chromedp.ByQuery),
			chromedp.ScrollIntoView("#picture-"+view+" canvas", chromedp.ByQuery))
		return value[point](s, `(({ x, y, width }) => ({ X: x + width / 2, Y: y + 200 }))(picture.`+view+
			`.canvas.getBoundingClientRect())`)
	}
	apart := func(at point, from, to float64) [][2]point {
		return [][2]point{{{at.X - from, at.Y}, {at.X - to, at.Y}}, {{at.X + from, at.Y}, {at.X + to, at.Y}}}
	}
	type look struct{ Scale, X, From, Span float64 }
	seen := func() look {
		return value[look](s, `(({ graph, gantt }) => ({ Scale: graph.view.scale, X: graph.view.x, From: gantt.from,
			Span: gantt.span || gantt.extent }))(picture)`)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.02*math.Abs(want) {
			t.Errorf("%s is %g, and not %g", what, got, want)
		}
	}
	at := in("graph")
	was := seen()
	s.touch(apart(at, 50, 150)...)
	zoomed := seen()
	near("the scale of the graph after fingers moved apart", zoomed.Scale, 3*was.Scale)
	s.touch([2]point{at, {at.X + 60, at.Y}})
	near("the place of the graph after a finger moved", seen().X, zoomed.X+60)
	s.touch(apart(at, 150, 50)...)
	near("the scale of the graph after fingers moved together", seen().Scale, was.Scale)

	at = in("gantt")
	was = seen()
	s.touch(apart(at, 50, 150)...)
	zoomed = seen()
	near("the time in sight of the Gantt", zoomed.Span, was.Span/3)
	s.touch([2]point{at, {at.X + 60, at.Y}})
	if dragged := seen(); dragged.From >= zoomed.From || dragged.Span != zoomed.Span {
		t.Errorf("the Gantt was dragged from %+v to %+v", zoomed, dragged)
	}
	s.touch([2]point{at, at}) // a tap
	s.until("a tap does not select", `picture.selected !== null`)
}
