package seat_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/service/seat"
	"github.com/millipede-iac/millipede/service/seat/protocol"
	"github.com/millipede-iac/millipede/service/work"
)

// attacked returns seats whose engine somebody has taken over: it answers the first call with attack.
func attacked(t *testing.T, attack func(w http.ResponseWriter)) *seat.Seats {
	t.Helper()
	calls, callsThere := net.Pipe()
	back, backThere := net.Pipe()
	done := make(chan struct{})
	end := sync.OnceFunc(func() {
		_ = errors.Join(calls.Close(), callsThere.Close(), back.Close(), backThere.Close())
		close(done)
	})
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+protocol.HelloPath, func(w http.ResponseWriter, _ *http.Request) {
		_ = protocol.Write(w, protocol.Welcome{Version: protocol.Highest})
	})
	mux.HandleFunc("GET "+protocol.BeatPath, protocol.Beat)
	mux.HandleFunc("POST "+protocol.QuitPath, func(http.ResponseWriter, *http.Request) { end() })
	mux.HandleFunc("POST "+protocol.CallPath, func(w http.ResponseWriter, _ *http.Request) { attack(w) })
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = protocol.Serve(callsThere, mux, protocol.MostCalls)
	}()
	s := seat.New(seat.Options{Seats: 1, MaxState: 1 << 20, MaxAnswer: 1 << 20, Log: slog.New(slog.DiscardHandler),
		Handler: func(seat.Peer) http.Handler { return http.NotFoundHandler() },
		Ready:   func(context.Context, seat.Peer) error { return nil },
		Epoch:   func(int) (uint64, error) { return 1, nil },
		Start: func(ctx context.Context, _ int, _ uint64, _ int64) (*seat.Process, error) {
			select {
			case <-done: // there is no other engine
				<-ctx.Done()
				return nil, ctx.Err()
			default:
			}
			return &seat.Process{Calls: calls, Back: back, Done: done, Kill: end,
				Reason: func() error { return nil }}, nil
		},
	})
	s.Start()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
	return s
}

// The service received messages of up to 1 GiB from an engine, of each kind, in each call.
func TestAMessageThatIsTooLargeEndsItsEngine(t *testing.T) {
	for name, announced := range map[string]uint32{"progress": 1 << 29, "larger than any": 1<<32 - 1} {
		s := attacked(t, func(w http.ResponseWriter) {
			head := []byte{byte(announced >> 24), byte(announced >> 16), byte(announced >> 8), byte(announced)}
			zeros := make([]byte, 1<<20)
			for _, err := w.Write(head); err == nil; {
				_, err = w.Write(zeros)
			}
		})
		j, _, _ := job(t, "run-1")
		if _, err := s.Plan(t.Context(), j); !errors.Is(err, work.ErrLost) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// The timeline that an engine sent grew in the memory of the service without bound.
func TestATimelineThatIsTooLargeIsNotKept(t *testing.T) {
	defer seat.BoundTimelines(2 << 20)()
	s := attacked(t, func(w http.ResponseWriter) {
		head, err := json.Marshal(timeline.Head{Run: "run-1", Command: "plan"})
		if err != nil {
			t.Error(err)
		}
		_ = protocol.Write(w, protocol.ToService{Begun: &protocol.Begun{Head: head, Engine: "e"}})
		failure := strings.Repeat("x", 20_000)
		for frame := range 40 {
			c := timeline.Changes{Head: timeline.Head{Run: "run-1", Command: "plan"}}
			for i := range 4 {
				c.Vertices = append(c.Vertices, timeline.Vertex{Number: 4*frame + i, Status: timeline.Failed, Failure: failure})
			}
			data, err := json.Marshal(&c)
			if err != nil {
				t.Error(err)
			}
			_ = protocol.Write(w, protocol.ToService{Changes: data})
		}
		_ = protocol.Write(w, protocol.ToService{Answer: &protocol.Answer{Plan: &work.PlanResult{}}})
	})
	j, _, _ := job(t, "run-1")
	var seen *timeline.Recorder
	j.Watched = func(r *timeline.Recorder, _ string) { seen = r }
	if _, err := s.Plan(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if m := seen.Model(0); len(m.Vertices) != 0 || len(m.Head.Errors) != 1 ||
		!strings.Contains(m.Head.Errors[0], "are not shown: they need more than 2 MiB") {
		t.Errorf("it has %d operations, and says %q", len(m.Vertices), m.Head.Errors)
	}
}

// The texts that an engine wanted to be concealed grew in the memory of the service without bound. If they are not
// kept, nothing may be shown any more.
func TestALogWithTooManySecretsIsWithheld(t *testing.T) {
	s := attacked(t, func(w http.ResponseWriter) {
		_ = protocol.Write(w, protocol.ToService{Log: []byte("before\n")})
		for i := range 20 {
			_ = protocol.Write(w, protocol.ToService{Conceal: []string{strings.Repeat(strconv.Itoa(i), 1<<20)}})
		}
		_ = protocol.Write(w, protocol.ToService{Log: []byte("the secret\n")})
		_ = protocol.Write(w, protocol.ToService{Answer: &protocol.Answer{Failure: &protocol.Failure{Text: "the secret"}}})
	})
	j, log, _ := job(t, "run-1")
	concealed := 0
	j.Conceal = func(all []string) { concealed += len(all[0]) }
	_, err := s.Plan(t.Context(), j)
	if err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(log.String(), "secret") ||
		!strings.Contains(log.String(), "before") || !strings.Contains(log.String(), "is withheld") {
		t.Errorf("the error is %v, and the log\n%s", err, log)
	}
	if concealed > 17<<20 {
		t.Errorf("%d bytes were to be concealed", concealed)
	}
}

// An engine whose answer the service does not accept must say so: otherwise it would be begun again in vain.
func TestAnAnswerThatIsTooLargeIsAnErrorOfTheRun(t *testing.T) {
	h := newHarness(t, 1)
	h.Start()
	h.engine.PlanFunc = func(context.Context, *work.Job) (*work.PlanResult, error) {
		return &work.PlanResult{Plan: make([]byte, 3<<20)}, nil
	}
	j, _, _ := job(t, "run-1")
	if _, err := h.Plan(t.Context(), j); err == nil || errors.Is(err, work.ErrLost) ||
		!strings.Contains(err.Error(), "has 3.0 MiB") {
		t.Errorf("the error is %v", err)
	}
	h.engine.PlanFunc = func(ctx context.Context, j *work.Job) (*work.PlanResult, error) {
		return nil, j.State.Write(ctx, make([]byte, 2<<20))
	}
	if _, err := h.Plan(t.Context(), j); err == nil || errors.Is(err, work.ErrLost) ||
		!strings.Contains(err.Error(), "has 2 MiB, and the service accepts at most 1 MiB") {
		t.Errorf("the error is %v", err)
	}
}

// The answers to the requests of a call were kept until its end, however many there were.
func TestTheServiceKeepsTheAnswersToTheNewestRequestsAlone(t *testing.T) {
	h := newHarness(t, 1)
	h.Start()
	began, goOn := make(chan struct{}), make(chan struct{})
	h.engine.PlanFunc = func(context.Context, *work.Job) (*work.PlanResult, error) {
		close(began)
		<-goOn
		return &work.PlanResult{}, nil
	}
	j, _, st := job(t, "run-1")
	ended := make(chan error, 1)
	go func() {
		_, err := h.Plan(t.Context(), j)
		ended <- err
	}()
	<-began
	write := func(number int) int {
		header := http.Header{}
		header.Set(protocol.EpochHeader, "1")
		header.Set(protocol.CallHeader, "1")
		header.Set(protocol.NumberHeader, strconv.Itoa(number))
		return request(t, h.Seats, header, "state "+strconv.Itoa(number))
	}
	for number := 1; number <= 200; number++ {
		if got := write(number); got != http.StatusOK {
			t.Fatalf("the request %d is answered with %d", number, got)
		}
	}
	if newest, oldest := write(200), write(1); newest != http.StatusOK || oldest == http.StatusOK {
		t.Errorf("repeated, the newest one is answered with %d, and the oldest one with %d", newest, oldest)
	}
	close(goOn)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if st.writes != 200 || string(st.data) != "state 200" {
		t.Errorf("the state was written %d times, and is %q", st.writes, st.data)
	}
}

// Answers that waited for room in the service had filled the window of the connection, so that the answer that had the
// room could not go on: all of them waited for ever.
func TestLargeAnswersThatWaitDoNotHoldTheOneThatIsReceived(t *testing.T) {
	h := newHarnessFor(t, 1, 48<<20)
	h.Start()
	const others = 8
	var began sync.WaitGroup
	began.Add(1 + others)
	h.engine.PlanFunc = func(_ context.Context, j *work.Job) (*work.PlanResult, error) {
		began.Done()
		began.Wait()
		size := 20 << 20 // with the first one, more than the room of 64 MiB
		if j.Run.ID == "run-0" {
			size = 47 << 20
		}
		return &work.PlanResult{Plan: make([]byte, size)}, nil
	}
	var all sync.WaitGroup
	for i := range 1 + others {
		all.Go(func() {
			j, _, _ := job(t, "run-"+strconv.Itoa(i))
			if _, err := h.Plan(t.Context(), j); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
