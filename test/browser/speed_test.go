//go:build unix

package browser

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/work"
)

// timed says that times are checked, too. They depend on the machine and its other load, so by default the suite checks
// only the amounts that are sent, read and drawn.
var timed = flag.Bool("timed", false, "also check times, on a machine that does nothing else")

// perSecond is how many events a live run has in a second.
const perSecond = 500

// busyRun is the apply of n operations in modules of a thousand, on ten workers with ten slots each. Half of it is done
// when it begins; then there are 500 events per second until the test ends it, or none in a quiet one.
type busyRun struct {
	n        int
	quiet    bool
	end      chan struct{}
	recorder *timeline.Recorder
}

func (b *busyRun) apply(ctx context.Context, j *work.Job) (*work.ApplyResult, error) {
	begun := time.Now().Add(-time.Hour)
	now := func() int64 { return time.Since(begun).Milliseconds() }
	b.recorder = timeline.NewRecorder(timeline.Head{
		Run: "BUSY", Command: "apply", Begun: begun.UnixMilli(), Ended: timeline.None,
	})
	const slots = 100
	for i := range b.n {
		module := fmt.Sprintf("module.zone[%d]", i/1000)
		v := timeline.Vertex{Number: i, Module: module, Address: fmt.Sprintf("%s.fleet_vm.node[%d]", module, i%1000),
			Type: "fleet_vm", Action: "create", Status: timeline.Waiting, Ready: timeline.None, Started: timeline.None,
			Ended: timeline.None}
		if i >= slots {
			v.After = []int{i - slots}
		}
		if i < b.n/2 {
			each := time.Hour.Milliseconds() * slots * 2 / int64(b.n)
			v.Started = int64(i/slots) * each
			v.Ended, v.Status, v.Pool, v.Worker = v.Started+each-1, timeline.Done, "default", worker(i)
			v.Waits = []timeline.Wait{{Kind: timeline.ForPermit, Name: "quota", From: max(0, v.Started-each), To: v.Started}}
			v.Attempts, v.Attempt = 1, fmt.Sprintf("01ARZ3NDEKTSV4RRFFQ%07d", i)
		}
		b.recorder.Add(v)
	}
	j.Watched(b.recorder, "engine-"+j.Run.ID)
	if b.quiet {
		<-b.end
		return &work.ApplyResult{Add: b.n}, nil
	}
	tick := time.NewTicker(20 * time.Millisecond) // ten events each
	defer tick.Stop()
	half := b.n / 2
	for next := 0; ; { // the other half, again and again
		for range perSecond / 50 / 2 {
			i := half + next%half
			b.recorder.Update(i, func(v *timeline.Vertex) {
				v.Status, v.Ready, v.Started, v.Ended = timeline.Running, now()-5, now(), timeline.None
				v.Pool, v.Worker = "default", worker(i)
				v.Waits = []timeline.Wait{{Kind: timeline.ForPlace, Name: "default", From: now() - 50, To: now()}}
			})
			if next >= slots {
				i := half + (next-slots)%half
				b.recorder.Update(i, func(v *timeline.Vertex) {
					if v.Status, v.Ended = timeline.Done, now(); i%997 == 0 {
						v.Status, v.Failure = timeline.Failed, "no room"
					}
				})
			}
			next++
		}
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
		case <-j.Stopping.Done():
		case <-b.end:
		}
		break
	}
	b.recorder.Note(func(h *timeline.Head, _ *int64, _ *[]timeline.Shortage) { h.Ended, h.Outcome = now(), "done" })
	return &work.ApplyResult{Add: b.n}, nil
}

func worker(i int) string { return fmt.Sprintf("worker-%02d", i%100/10) }

// watching measures the page from now on: the longest frame, the longest time without a response, and the age of events
// when they are shown.
const watching = `(() => {
	const p = document.querySelector("[data-picture]").picture;
	p.frames.worst = p.graph.surface.worst = p.gantt.surface.worst = 0;
	const before = window.seen;
	const seen = window.seen = { blocked: [0], ages: [], frame: 0, last: performance.now() };
	if (before) return true;
	new PerformanceObserver((list) => {
		for (const e of list.getEntries()) window.seen.blocked.push(e.duration);
	}).observe({ type: "longtask" });
	requestAnimationFrame(function frame(at) {
		window.seen.frame = Math.max(window.seen.frame, at - window.seen.last);
		window.seen.last = at;
		requestAnimationFrame(frame);
	});
	const flush = p.flush;
	p.flush = function () {
		const changed = [...this.pending.values()];
		flush.call(this);
		requestAnimationFrame(() => setTimeout(() => { // behind the frame that shows it
			const now = Date.now() - this.run.head.begun;
			for (const v of changed) window.seen.ages.push(now - Math.max(v.started, v.ended));
		}));
	};
	return true;
})()`

type watched struct {
	Frame float64 // the longest time from one frame to the next, in milliseconds
	Task  float64 // the longest task or drawing, in milliseconds; no task below 50 ms counts
	P95   float64 // of the ages of events when they were shown, in milliseconds
	Count int     // of those events
}

// watch watches a live run until so many events were shown.
func (s *Site) watch(events int) watched {
	s.t.Helper()
	s.until("the story has not come", `document.querySelector("[data-picture]").picture.run.told !== null`)
	if !value[bool](s, watching) {
		s.t.Fatal("it cannot be watched")
	}
	s.until("not enough events are shown", fmt.Sprintf("window.seen.ages.length > %d", events))
	return value[watched](s, `(() => {
		const p = document.querySelector("[data-picture]").picture;
		const ages = seen.ages.sort((a, b) => a - b);
		const task = Math.max(p.frames.worst, p[p.shown].surface.worst, ...seen.blocked);
		return { Frame: seen.frame, Task: task, P95: ages[Math.floor(ages.length * 0.95)], Count: ages.length };
	})()`)
}

// busyPage opens the page of a live run of n operations, and waits until all of it has been loaded. It returns the
// memory that the service keeps for it, in bytes.
func busyPage(t *testing.T, n int, quiet bool) (s *Site, kept int64) {
	t.Helper()
	s = Open(t)
	b := &busyRun{n: n, quiet: quiet, end: make(chan struct{})}
	s.Engine.PlanFunc = func(_ context.Context, j *work.Job) (*work.PlanResult, error) {
		return &work.PlanResult{HasChanges: true, Add: n, Plan: []byte("plan of " + j.Run.ID),
			Redacted: []byte("{}")}, nil
	}
	s.Engine.ApplyFunc = b.apply
	w := s.NewWorkspace("busy")
	before := heap()
	run := s.NewRun(w, func(r *record.Run) { r.AutoApply = true })
	t.Cleanup(func() { close(b.end) })
	s.Await(run.ID, record.Applying)
	s.login()
	s.open("/app/acme/busy/runs/" + run.ID)
	s.until("the run has not come", `document.querySelector("[data-picture]")?.picture?.run.told`)
	return s, heap() - before
}

// shown returns how long after the request for the page the graph was drawn, in milliseconds.
func (s *Site) shown() float64 {
	s.t.Helper()
	return value[float64](s, `document.querySelector("[data-picture]").picture.shownAt`)
}

// looks are the parts of a run that a person looks at, with the clicks that show them.
var looks = []struct {
	name   string
	clicks []string
}{
	{"graph", []string{"#picture-tab-graph"}},
	{"Gantt", []string{"#picture-tab-gantt"}},
	{"graph unfolded", []string{"#picture-tab-graph", `//div[@role="group"]//button[text()="Unfold all"]`}},
}

// look clicks, and watches the live run from then on. It returns also the CPU of the longest task, in milliseconds.
func (s *Site) look(clicks []string, events int) (got watched, cpu float64) {
	s.t.Helper()
	cpu = s.longestTask(func() {
		for _, click := range clicks {
			s.do(chromedp.Click(click, chromedp.BySearch))
		}
		got = s.watch(events)
	})
	return got, cpu
}

// Pages budget: docs/performance.md.
func TestTimesOfLargeRuns(t *testing.T) {
	if !*timed {
		t.Skip("it checks times: make pages")
	}
	for _, n := range []int{1000, 5000, 100_000} {
		s, _ := busyPage(t, n, false)
		first := s.shown()
		s.open(value[string](s, `location.pathname`))
		s.until("the picture is not drawn", `document.querySelector("[data-picture]")?.picture?.shownAt > 0`)
		again := s.shown()
		s.until("the run has not come", `document.querySelector("[data-picture]").picture.run.told`)
		t.Logf("%d operations: drawn %.0f ms after the page was asked for, and %.0f ms the second time", n, first, again)
		if first > 1000 {
			t.Errorf("%d operations are drawn after %.0f ms", n, first)
		}
		for _, look := range looks {
			got, cpu := s.look(look.clicks, 1500)
			t.Logf("%d operations, %s: no frame took more than %.0f ms, no task %.0f ms, and no task %.0f ms of CPU; "+
				"95 %% of %d events were shown within %.0f ms", n, look.name, got.Frame, got.Task, cpu, got.Count, got.P95)
			if got.Frame > 100 || got.Task > 100 || got.P95 > 300 {
				t.Errorf("%d operations, %s: a frame takes %.0f ms, a task %.0f ms, and events are shown after %.0f ms",
					n, look.name, got.Frame, got.Task, got.P95)
			}
		}
	}
}

// Also on a machine that does other things, no frame of a live run may take more than 100 ms of CPU.
func TestAFrameOfALiveRunTakesLittleTime(t *testing.T) {
	if testing.Short() {
		t.Skip("it watches a live run for some ten seconds")
	}
	s, _ := busyPage(t, 5000, false)
	for _, look := range looks {
		got, cpu := s.look(look.clicks, 1000)
		t.Logf("%s: no task took more than %.0f ms of CPU while %d events were shown", look.name, cpu, got.Count)
		if cpu > 100 {
			t.Errorf("%s: a task took %.0f ms of CPU", look.name, cpu)
		}
	}
}

// The first drawing of a large run does not wait for all of its operations, and is not larger than that of a small one.
func TestALargeRunIsDrawnFromItsOutline(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes a large run")
	}
	s, kept := busyPage(t, 100_000, true)
	if kept > 100<<20 {
		t.Errorf("the service keeps %d MiB for the run", kept>>20)
	}
	got := value[struct {
		Outline, Shape float64 // bytes, uncompressed
		Drawn, Asked   float64 // when the outline was drawn, and the shape asked for
		Places         int
	}](s, `(() => {
		const p = document.querySelector("[data-picture]").picture;
		const [outline, shape] = performance.getEntriesByType("resource").filter((r) => r.name.includes("/timeline/") &&
			r.responseStatus === 200); // 204 means that the outline is still being made
		return { Outline: outline.decodedBodySize, Shape: shape.decodedBodySize, Drawn: p.shownAt, Asked: shape.startTime,
			Places: p.graph.places.length };
	})()`)
	if got.Outline > 64<<10 || got.Shape < 1<<20 || got.Drawn > got.Asked || got.Places > 300 {
		t.Errorf("%+v", got)
	}
}

// counting makes the page count its reads of the run's columns, and the elements that it draws. frame(view) shows ten
// changes of vertices, with all the work of a frame, and returns the counts.
const counting = `(() => {
	const p = document.querySelector("[data-picture]").picture;
	const counts = window.counts = { read: 0, drawn: 0 };
	const counted = (list) => new Proxy(list, { get(of, key) { counts.read++; return of[key]; } });
	for (const name of ["module", "block", "key", "status", "pool", "worker", "ready", "started", "ended", "off", "deps",
		"more"]) p.run[name] = counted(p.run[name]);
	for (const name of ["fillRect", "strokeRect", "fillText", "moveTo", "lineTo", "bezierCurveTo", "arc"]) {
		const draw = CanvasRenderingContext2D.prototype[name];
		CanvasRenderingContext2D.prototype[name] = function (...args) { counts.drawn++; return draw.apply(this, args); };
	}
	let next = p.run.size / 2, now = p.run.head.now;
	window.frame = (view) => {
		const vertices = [];
		for (let k = 0; k < 10; k++, next++) {
			const common = { ready: now, started: now, pool: "default", worker: "worker-0" + k, attempts: 1, attempt: "A" };
			vertices.push({ ...common, number: next, status: "r", ended: -1, waits: [["l", "quota", now - 5, now]] },
				{ ...common, number: next - 10, status: k % 7 ? "d" : "f", started: now - 20, ended: now });
		}
		now += 20;
		Object.assign(counts, { read: 0, drawn: 0 });
		p.summed = p.slowAt = 0;
		p.apply({ vertices, head: { ...p.run.head, now }, counts: p.run.counts, cursor: 0 });
		p.flush();
		p[view].surface.draw(p[view].surface.context, p[view].surface.colours);
		return { Read: counts.read, Drawn: counts.drawn };
	};
	return true;
})()`

// The page of a large run looked at all of its vertices in each frame: 150 ms for the graph and 250 ms for the Gantt of
// 100,000, while 500 events came in a second.
func TestAFrameOfALargeRunCostsAsMuchAsHasChanged(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes a large run")
	}
	type cost struct{ Read, Drawn int }
	costs := map[string]map[int]cost{"graph": {}, "gantt": {}}
	pixels := 0 // of the lanes in sight of the Gantt, one of which is drawn without regard to how many operations it has
	for _, n := range []int{1000, 100_000} {
		s, _ := busyPage(t, n, true)
		value[bool](s, counting)
		for _, view := range []string{"graph", "gantt"} {
			s.do(chromedp.Click("#picture-tab-"+view, chromedp.ByQuery))
			s.until("it is not drawn",
				fmt.Sprintf(`document.querySelector("[data-picture]").picture.%s.surface.drawn > 0`, view))
			frame := fmt.Sprintf("frame(%q)", view)
			value[cost](s, frame) // the first one makes the elements that the others update
			var most cost
			for range 20 {
				got := value[cost](s, frame)
				most.Read, most.Drawn = max(most.Read, got.Read), max(most.Drawn, got.Drawn)
			}
			if view == "gantt" {
				pixels = value[int](s, `(({ width, height }) => width * Math.ceil(height / 24))(
					document.querySelector("[data-picture]").picture.gantt.surface)`)
			}
			t.Logf("%d operations, %s: a frame reads %d entries, and draws %d times", n, view, most.Read, most.Drawn)
			costs[view][n] = most
		}
	}
	for view, of := range costs {
		small, large := of[1000], of[100_000]
		most := 2*small.Read + 5000
		if view == "gantt" {
			most += 5 * pixels
		}
		if large.Read > most || large.Drawn > 2*small.Drawn+2000 {
			t.Errorf("a frame of the %s costs %+v of 100,000 operations, and %+v of 1,000", view, large, small)
		}
	}
}

// A layout of everything is made in slices, so that the page answers meanwhile.
func TestALayoutOfALargeRunIsMadeInSlices(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes a large run")
	}
	s, _ := busyPage(t, 100_000, true)
	value[bool](s, counting)
	got := value[struct{ Slices, Most, Places int }](s, `(() => {
		const p = document.querySelector("[data-picture]").picture;
		p.open = p.groups.open(20000);
		const steps = p.graph.layoutSteps();
		const out = { Slices: 0, Most: 0 };
		for (;;) {
			counts.read = 0;
			const { done, value } = steps.next();
			out.Slices++;
			out.Most = Math.max(out.Most, counts.read);
			if (done) return { ...out, Places: value.list.length };
		}
	})()`)
	t.Logf("%+v", got)
	if got.Slices < 10 || got.Most > 100_000 || got.Places < 400 {
		t.Errorf("%+v", got)
	}
}
