package seat_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/seat"
	"github.com/millipede-iac/millipede/service/seat/host"
	"github.com/millipede-iac/millipede/service/seat/protocol"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/work"
)

// harness has seats whose engines are in this process. An engine "dies" when its connections are closed.
type harness struct {
	*seat.Seats
	engine *servicetest.Engine

	mu      sync.Mutex // guards the fields below
	epochs  map[int]uint64
	starts  []int   // the seats, in the order of the starts
	memory  []int64 // the bounds of their engines
	refuses int     // how many starts fail
	kill    map[int]func()
	ice     map[int][2]*ice
	hangs   atomic.Int32 // how many engines do not answer their first message
}

func newHarness(t *testing.T, seats int) *harness {
	t.Helper()
	return newHarnessFor(t, seats, 1<<20)
}

// newHarnessFor is newHarness with the largest answer, in bytes.
func newHarnessFor(t *testing.T, seats int, answer int64) *harness {
	t.Helper()
	h := &harness{engine: &servicetest.Engine{}, epochs: map[int]uint64{}, kill: map[int]func(){}, ice: map[int][2]*ice{}}
	h.Seats = seat.New(seat.Options{Seats: seats, MaxState: 1 << 20, MaxAnswer: answer,
		Log:     slog.New(slog.DiscardHandler),
		Handler: func(seat.Peer) http.Handler { return http.NotFoundHandler() },
		Ready:   func(context.Context, seat.Peer) error { return nil },
		Epoch: func(n int) (uint64, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.epochs[n]++
			return h.epochs[n], nil
		},
		Start: h.start,
	})
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *harness) start(_ context.Context, n int, _ uint64, memory int64) (*seat.Process, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuses > 0 {
		h.refuses--
		return nil, errors.New("there is no memory")
	}
	calls, callsThere := net.Pipe()
	back, backThere := net.Pipe()
	done := make(chan struct{})
	h.ice[n] = [2]*ice{{Conn: callsThere, killed: done}, {Conn: backThere, killed: done}}
	there := h.ice[n]
	end := sync.OnceFunc(func() {
		_ = errors.Join(calls.Close(), callsThere.Close(), back.Close(), backThere.Close())
		close(done)
	})
	go func() {
		defer end()
		_ = host.Serve(host.Options{Program: "1.2.3", Calls: there[0], Back: there[1],
			Open: func(protocol.Hello, *host.Service) (*host.Opened, error) {
				if h.hangs.Add(-1) >= 0 {
					<-done
				}
				return &host.Opened{Engine: h.engine, Context: context.Background(), Log: slog.New(slog.DiscardHandler),
					Close: func() error { return nil }}, nil
			}})
	}()
	h.starts, h.kill[n] = append(h.starts, n), end
	h.memory = append(h.memory, memory)
	return &seat.Process{Calls: calls, Back: back, Setup: []byte("setup"), Done: done, Kill: end,
		Reason: func() error { return nil }}, nil
}

// die ends the engine of a seat.
func (h *harness) die(n int) {
	h.mu.Lock()
	kill := h.kill[n]
	h.mu.Unlock()
	kill()
}

// freeze freezes the engine of a seat.
func (h *harness) freeze(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.ice[n] {
		c.frozen.Store(true)
	}
}

func (h *harness) started() []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.starts)
}

// states is a state in memory.
type states struct {
	mu     sync.Mutex
	data   []byte
	writes int
	fails  error
}

func (s *states) Read(context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data, nil
}

func (s *states) Providers(context.Context) ([]string, error) { return []string{"a", "b"}, nil }

func (s *states) Write(_ context.Context, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil {
		return s.fails
	}
	s.data, s.writes = data, s.writes+1
	return nil
}

// job returns a job that hears everything.
func job(t *testing.T, run string) (*work.Job, *bytes.Buffer, *states) {
	t.Helper()
	log, st := &bytes.Buffer{}, &states{}
	return &work.Job{
		Run:       record.Run{ID: run, Workspace: "ws-1", Status: record.Planning, Number: 7},
		Workspace: record.Workspace{ID: "ws-1", Name: "one"}, Stopping: t.Context(), Log: log, State: st,
		Alive: func(run string) bool { return run == "run-alive" },
		Waits: func(string, string, string) {},
	}, log, st
}

// Everything that an engine is given, does and answers must arrive, in its order.
func TestAnEngineInAnotherProcessIsAsOneInThisProcess(t *testing.T) {
	h := newHarness(t, 2)
	h.Start()
	var told []string
	h.engine.PlanFunc = func(ctx context.Context, j *work.Job) (*work.PlanResult, error) {
		archive, err := j.Configuration()
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(archive)
		if err := errors.Join(err, archive.Close()); err != nil {
			return nil, err
		}
		before, err := j.State.Read(ctx)
		if err != nil {
			return nil, err
		}
		used, err := j.State.Providers(ctx)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(j.Log, "%s, state %q, providers %q, alive %v %v, %s %s %v\n", text, before, used, j.Alive("run-alive"),
			j.Alive("run-other"), j.Scratch, j.Environment, j.Variables)
		j.Conceal([]string{"secret"})
		fmt.Fprintln(j.Log, "the secret")
		j.Waits(work.ForObjects, "run-2", "an object")
		j.Doubtful([]record.Doubt{{Address: "a.b"}})
		r := timeline.NewRecorder(timeline.Head{Run: j.Run.ID, Command: "plan", Ended: timeline.None})
		j.Watched(r, "engine-run")
		r.Add(timeline.Vertex{Number: 1, Address: "a.b", Type: "a", Status: timeline.Running},
			timeline.Vertex{Number: 2, Address: "a.c", Type: "a", Status: timeline.Waiting, After: []int{1}})
		r.Update(1, func(v *timeline.Vertex) { v.Status, v.Failure = timeline.Failed, "the secret fails" })
		r.Note(func(head *timeline.Head, left *int64, _ *[]timeline.Shortage) {
			head.Errors, *left = []string{"bad"}, 5
		})
		return &work.PlanResult{HasChanges: true, Add: 3, Plan: []byte("plan"), Shape: []byte("shape"),
			Redacted: []byte("{}"), Sensitive: []string{"v"}}, nil
	}
	j, log, _ := job(t, "run-1")
	j.Configuration = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("the archive")), nil }
	j.Scratch, j.Environment = "/scratch", []string{"A=1"}
	j.Variables = []work.Value{{Name: "v", Text: "1", HCL: true}}
	j.Conceal = func(s []string) { told = append(told, fmt.Sprintf("conceal %q after %q", s, log.String())) }
	j.Waits = func(kind, on, text string) { told = append(told, "waits for "+kind+" "+on+" "+text) }
	j.Doubtful = func(all []record.Doubt) { told = append(told, "doubts "+all[0].Address) }
	var seen *timeline.Recorder
	j.Watched = func(r *timeline.Recorder, engine string) {
		r.Clean(func(text string) string { return strings.ReplaceAll(text, "secret", "***") })
		seen, told = r, append(told, "watched "+engine)
	}
	result, err := h.Plan(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%+v", *result); got != fmt.Sprintf("%+v", work.PlanResult{HasChanges: true, Add: 3,
		Plan: []byte("plan"), Shape: []byte("shape"), Redacted: []byte("{}"), Sensitive: []string{"v"}}) {
		t.Errorf("the result is %s", got)
	}
	first := "planning\nthe archive, state \"\", providers [\"a\" \"b\"], alive true false, /scratch [A=1] " +
		"[{v 1 true false false}]\n"
	if want := first + "the secret\n"; log.String() != want {
		t.Errorf("the log is %q, and not %q", log, want)
	}
	if want := []string{fmt.Sprintf("conceal [\"secret\"] after %q", first), "waits for objects run-2 an object",
		"doubts a.b", "watched engine-run"}; !slices.Equal(told, want) {
		t.Errorf("it was told %q, and not %q", told, want)
	}
	m := seen.Model(0)
	if len(m.Vertices) != 2 || m.Vertices[0].Failure != "the *** fails" || m.Vertices[0].Address != "a.b" ||
		m.Counts.Failed != 1 || m.Counts.Waiting != 1 || m.Counts.Left != 5 ||
		!slices.Equal(m.Head.Errors, []string{"bad"}) {
		t.Errorf("the timeline is %+v", m)
	}
}

// The service decides by these errors what happens to a run; they must be recognized on the other side, and so must
// those that the service gives the engine.
func TestErrorsAreRecognizedOnTheOtherSide(t *testing.T) {
	h := newHarness(t, 1)
	h.Start()
	for _, want := range []error{work.ErrStopped, work.ErrAgain, work.ErrReported, tables.ErrConflict} {
		h.engine.PlanFunc = func(context.Context, *work.Job) (*work.PlanResult, error) {
			return nil, fmt.Errorf("it was said: %w", want)
		}
		j, _, _ := job(t, "run-1")
		if _, err := h.Plan(t.Context(), j); !errors.Is(err, want) || err.Error() != "it was said: "+want.Error() {
			t.Errorf("%v became %v", want, err)
		}
	}
	h.engine.ChangeFunc = func(context.Context, *work.Job, work.ObjectChange) error {
		return &work.Refused{Reason: "it is locked"}
	}
	j, _, _ := job(t, "run-1")
	var refused *work.Refused
	if err := h.ChangeObjects(t.Context(), j, work.ObjectChange{}); !errors.As(err, &refused) ||
		refused.Reason != "it is locked" {
		t.Errorf("a refusal became %v", err)
	}
	j, _, st := job(t, "run-1")
	st.fails = tables.Conflict("somebody else has the lock")
	var seen error
	h.engine.PlanFunc = func(ctx context.Context, j *work.Job) (*work.PlanResult, error) {
		seen = j.State.Write(ctx, []byte("new"))
		return nil, seen
	}
	if _, err := h.Plan(t.Context(), j); !errors.Is(seen, tables.ErrConflict) || !errors.Is(err, tables.ErrConflict) {
		t.Errorf("a conflict became %v, and then %v", seen, err)
	}
}

// A run that was to stop, or to be left, must hear it in another process as well, with the cause.
func TestAnEngineHearsThatItMustStop(t *testing.T) {
	h := newHarness(t, 1)
	h.Start()
	for _, cause := range []error{work.ErrSuspended, work.ErrCanceled} {
		began := make(chan struct{})
		h.engine.PlanFunc = func(ctx context.Context, j *work.Job) (*work.PlanResult, error) {
			close(began)
			<-j.Stopping.Done()
			if ctx.Err() != nil {
				return nil, errors.New("it was told to leave")
			}
			return nil, fmt.Errorf("%w: %w", work.ErrStopped, context.Cause(j.Stopping))
		}
		j, _, _ := job(t, "run-1")
		stopping, stop := context.WithCancelCause(t.Context())
		j.Stopping = stopping
		go func() {
			<-began
			stop(cause)
		}()
		_, err := h.Plan(t.Context(), j)
		if !errors.Is(err, work.ErrStopped) || !strings.Contains(err.Error(), cause.Error()) {
			t.Errorf("after %v the error is %v", cause, err)
		}
	}
	began := make(chan struct{})
	h.engine.PlanFunc = func(ctx context.Context, _ *work.Job) (*work.PlanResult, error) {
		close(began)
		<-ctx.Done()
		return nil, work.ErrStopped
	}
	j, _, _ := job(t, "run-1")
	leaving, leave := context.WithCancel(t.Context())
	go func() {
		<-began
		leave()
	}()
	if _, err := h.Plan(leaving, j); !errors.Is(err, work.ErrStopped) {
		t.Errorf("after it was left the error is %v", err)
	}
}

// The death of an engine is reported for each of its calls, at once, and the next engine has a higher epoch.
func TestTheCallsOfADeadEngineAreLostAndTheNextOneTakesItsSeat(t *testing.T) {
	h := newHarness(t, 1)
	h.Start()
	began := make(chan struct{}, 2)
	h.engine.PlanFunc = func(ctx context.Context, _ *work.Job) (*work.PlanResult, error) {
		began <- struct{}{}
		<-ctx.Done()
		return nil, work.ErrStopped
	}
	failures := make(chan error, 2)
	for _, run := range []string{"run-1", "run-2"} {
		go func() {
			j, _, _ := job(t, run)
			_, err := h.Plan(t.Context(), j)
			failures <- err
		}()
	}
	<-began
	<-began
	h.die(1)
	for range 2 {
		if err := <-failures; !errors.Is(err, work.ErrLost) {
			t.Errorf("the error is %v", err)
		}
	}
	h.engine.Mu.Lock()
	h.engine.PlanFunc = nil
	h.engine.Mu.Unlock()
	j, _, _ := job(t, "run-1")
	if _, err := h.Plan(t.Context(), j); err != nil {
		t.Error(err)
	}
	if s := h.Status()[0]; s.Epoch != 2 || s.Program != "1.2.3" || s.Restarts != 1 || s.Calls != 0 {
		t.Errorf("the seat is %+v", s)
	}
}

// A plan may be what its engine has died of: it must not end others once more.
func TestAPlanDuringWhichAnEngineDiedHasAProcessOfItsOwn(t *testing.T) {
	h := newHarness(t, 1)
	h.Start()
	j, _, _ := job(t, "run-1")
	j.Run.Deaths = 1
	if _, err := h.Plan(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if got := h.started(); !slices.Contains(got, 1000) {
		t.Errorf("engines were started on %v", got)
	}
	began := make(chan struct{})
	h.engine.PlanFunc = func(ctx context.Context, _ *work.Job) (*work.PlanResult, error) {
		close(began)
		<-ctx.Done()
		return nil, work.ErrStopped
	}
	failed := make(chan error, 1)
	go func() {
		_, err := h.Plan(t.Context(), j)
		failed <- err
	}()
	<-began
	h.die(1000)
	if err := <-failed; !errors.Is(err, work.ErrLost) {
		t.Errorf("the error is %v", err)
	}
	if s := h.Status()[0]; s.Restarts != 0 {
		t.Errorf("the other engine has died as well: %+v", s)
	}
	// A workspace with a bound on memory has one, too, that is bounded.
	h.engine.Mu.Lock()
	h.engine.PlanFunc = nil
	h.engine.Mu.Unlock()
	j.Run.Deaths, j.Workspace.Bounds.PlanMemory = 0, 200
	if _, err := h.Plan(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if h.mu.Lock(); h.starts[len(h.starts)-1] != 1000 || h.memory[len(h.memory)-1] != 200 {
		t.Errorf("engines were started on %v, with %v", h.starts, h.memory)
	}
	h.mu.Unlock()
	j.Run.Deaths, j.Workspace.Bounds.PlanMemory = 1, 0
	// Where runs share a store, it can only be open in one process.
	h.engine.Mu.Lock()
	h.engine.PlanFunc = nil
	h.engine.Mu.Unlock()
	j.Workspace.ObjectLocks = true
	before := len(h.started())
	if _, err := h.Plan(t.Context(), j); err != nil || len(h.started()) != before {
		t.Errorf("it ended with %v, and engines were started on %v", err, h.started())
	}
}

// While NATS was away, a plan during which an engine had died failed, because the process of its own could not start.
func TestTheProcessOfAPlanOfItsOwnIsStartedUntilItIsThere(t *testing.T) {
	h := newHarness(t, 1) // nothing sits on the seat
	j, _, _ := job(t, "run-1")
	j.Run.Deaths = 1
	for _, refuses := range []int{0, 2} {
		h.mu.Lock()
		h.refuses = refuses
		h.mu.Unlock()
		if _, err := h.Plan(t.Context(), j); err != nil {
			t.Errorf("after %d starts that failed: %v", refuses, err)
		}
	}
}

// An engine that cannot be started is started again, and whoever waits for it can be stopped.
func TestWhoeverWaitsForAnEngineCanBeStopped(t *testing.T) {
	h := newHarness(t, 1)
	j, _, _ := job(t, "run-1")
	var stop context.CancelCauseFunc
	j.Stopping, stop = context.WithCancelCause(t.Context())
	stop(work.ErrSuspended)
	if _, err := h.Plan(t.Context(), j); !errors.Is(err, work.ErrStopped) {
		t.Errorf("the error is %v", err)
	}
	// A canceled apply that was begun before has to be settled: it waits for an engine, unless the service ends.
	j.Resumed = true
	if _, err := h.Apply(t.Context(), j); !errors.Is(err, work.ErrStopped) {
		t.Errorf("the error is %v", err)
	}
	j.Stopping, stop = context.WithCancelCause(t.Context())
	stop(work.ErrCanceled)
	j.Plan = []byte("plan of run-1")
	settled := make(chan error, 1)
	go func() {
		_, err := h.Apply(t.Context(), j)
		settled <- err
	}()
	h.refuses = 3
	h.Start()
	if err := <-settled; err != nil {
		t.Errorf("the apply ended with %v", err)
	}
	j.Stopping = t.Context()
	if _, err := h.Plan(t.Context(), j); err != nil {
		t.Error(err)
	}
}

// request writes a state as an engine does, as a proxy that has held its request back would.
func request(t *testing.T, to *seat.Seats, header http.Header, text string) (status int) {
	t.Helper()
	w := &recorder{header: http.Header{}, status: http.StatusOK}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://service"+protocol.StatePath,
		strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	seat.Answer(to, 1, w, r)
	return w.status
}

type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

// Requests that come late, come twice, or come from an engine that has lost its seat must change nothing.
func TestLateAndRepeatedRequestsChangeNothing(t *testing.T) {
	h := newHarness(t, 1)
	h.Start()
	written := make(chan struct{})
	goOn := make(chan struct{})
	h.engine.PlanFunc = func(ctx context.Context, j *work.Job) (*work.PlanResult, error) {
		if err := j.State.Write(ctx, []byte("one")); err != nil {
			return nil, err
		}
		close(written)
		<-goOn
		return &work.PlanResult{}, nil
	}
	j, _, st := job(t, "run-1")
	ended := make(chan error, 1)
	go func() {
		_, err := h.Plan(t.Context(), j)
		ended <- err
	}()
	<-written
	write := func(epoch, call, number, text string) int {
		header := http.Header{}
		header.Set(protocol.EpochHeader, epoch)
		header.Set(protocol.CallHeader, call)
		header.Set(protocol.NumberHeader, number)
		return request(t, h.Seats, header, text)
	}
	if got := write("1", "1", "1", "two"); got != http.StatusOK {
		t.Errorf("a repeated request is answered with %d", got)
	}
	if got := write("7", "1", "2", "three"); got != http.StatusGone {
		t.Errorf("a request of another epoch is answered with %d", got)
	}
	if got := write("1", "2", "3", "four"); got != http.StatusConflict {
		t.Errorf("a request of a call that does not exist is answered with %d", got)
	}
	close(goOn)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got := write("1", "1", "4", "five"); got != http.StatusConflict {
		t.Errorf("a request after the end of its call is answered with %d", got)
	}
	if st.writes != 1 || string(st.data) != "one" {
		t.Errorf("the state was written %d times, and is %q", st.writes, st.data)
	}
}

// An engine that is told that another one has its seat must end.
func TestAnEngineOfAnOlderEpochEnds(t *testing.T) {
	calls, there := net.Pipe()
	back, backThere := net.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- host.Serve(host.Options{Calls: there, Back: backThere,
			Open: func(_ protocol.Hello, s *host.Service) (*host.Opened, error) {
				answer, err := s.Ask(t.Context(), http.MethodGet, "/anything", nil)
				if err == nil {
					err = answer.Body.Close()
				}
				return nil, err
			}})
	}()
	go func() {
		_ = protocol.Serve(back, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get(protocol.EpochHeader) != "3" {
				t.Errorf("the epoch is %q", r.Header.Get(protocol.EpochHeader))
			}
			seat.Refuse(w, http.StatusGone, errors.New("another engine has taken the seat"))
		}), protocol.MostRequests)
	}()
	var body bytes.Buffer
	if err := protocol.Write(&body, protocol.Hello{Lowest: 1, Highest: 1, Seat: 1, Epoch: 3}); err != nil {
		t.Fatal(err)
	}
	go func() {
		if response, err := protocol.NewClient(calls).Post("http://engine"+protocol.HelloPath, "", &body); err == nil {
			_ = response.Body.Close()
		}
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it goes on")
	}
	_ = errors.Join(calls.Close(), back.Close(), there.Close(), backThere.Close())
}

// With several seats, each workspace must keep its seat, and they must not all have the same one.
func TestWorkspacesAreSpreadOverTheSeats(t *testing.T) {
	counts, moved := map[int]int{}, 0
	for i := range 1000 {
		workspace := fmt.Sprintf("ws-%d", i)
		at := seat.Of(workspace, 4)
		counts[at]++
		if now := seat.Of(workspace, 5); now != at {
			moved++
			if now != 5 {
				t.Errorf("%s moves from seat %d to seat %d, which was there before", workspace, at, now)
			}
		}
	}
	for n := 1; n <= 4; n++ {
		if counts[n] < 150 {
			t.Errorf("the seats have %v of 1000 workspaces", counts)
		}
	}
	if moved < 100 || moved > 300 {
		t.Errorf("a fifth seat moves %d of 1000 workspaces", moved)
	}
}

// The versions of both sides must have one in common, and the highest one is used.
func TestBothSidesAgreeOnAVersion(t *testing.T) {
	for _, c := range []struct {
		lowest, highest, want int
	}{{1, 1, 1}, {1, 9, protocol.Highest}, {protocol.Highest + 1, protocol.Highest + 2, 0}} {
		got, err := protocol.Agree(protocol.Hello{Lowest: c.lowest, Highest: c.highest})
		if got != c.want || (err == nil) != (c.want != 0) {
			t.Errorf("with %d to %d they agree on %d, %v", c.lowest, c.highest, got, err)
		}
	}
}

// Of requests that were the first ones of an engine, and began at the same time, all but one failed: each had opened a
// connection of its own, and there is only one.
func TestTheFirstRequestsOfAnEngineMayBeginTogether(t *testing.T) {
	h := newHarness(t, 1)
	var begun sync.WaitGroup
	begun.Add(50)
	h.engine.PlanFunc = func(ctx context.Context, j *work.Job) (*work.PlanResult, error) {
		begun.Done()
		begun.Wait()
		_, err := j.State.Read(ctx)
		return &work.PlanResult{}, err
	}
	h.Start()
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			j, _, _ := job(t, fmt.Sprintf("run-%d", i))
			if _, err := h.Plan(t.Context(), j); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// An engine learned that an apply was canceled when it had begun: it resumed the apply, and started operations,
// although it had only to settle what was under way. After the restore of a backup, machines were created twice.
func TestAnEngineKnowsBeforeItBeginsThatAJobWasStopped(t *testing.T) {
	h := newHarness(t, 1)
	h.Start()
	h.engine.ApplyFunc = func(_ context.Context, j *work.Job) (*work.ApplyResult, error) {
		if !errors.Is(context.Cause(j.Stopping), work.ErrCanceled) {
			return nil, errors.New("it does not know")
		}
		return nil, work.ErrStopped
	}
	for range 50 {
		j, _, _ := job(t, "run-1")
		j.Resumed, j.Plan = true, []byte("plan of run-1")
		var stop context.CancelCauseFunc
		j.Stopping, stop = context.WithCancelCause(t.Context())
		stop(work.ErrCanceled)
		if _, err := h.Apply(t.Context(), j); !errors.Is(err, work.ErrStopped) {
			t.Fatal(err)
		}
	}
}
