package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/events"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/tables"
)

// Intervals of a watch.
const (
	// watchEvery is the minimum interval between lines. watchAtLeast is the interval of empty lines when there
	// are no changes; they reveal a broken connection to both sides.
	watchEvery   = 100 * time.Millisecond
	watchAtLeast = 2 * time.Second
)

// Watched is a line of the progress of a run. It has a Model, or Changes, or neither.
type Watched struct {
	// Phase is "plan" or "apply".
	Phase string `json:"phase,omitempty"`
	// Model is the present state of the phase, without its story; Changes are the changes since the last line.
	Model   *timeline.Model   `json:"model,omitempty"`
	Changes *timeline.Changes `json:"changes,omitempty"`
	// Status is the status of the run; Waits says why a run waits that is not in a phase.
	Status string `json:"status"`
	Waits  string `json:"waits,omitempty"`
	// Over says that no further line follows.
	Over bool `json:"over,omitempty"`
}

// watcher sends the progress of a run to one client.
type watcher struct {
	*server
	r      *http.Request
	w      http.ResponseWriter
	out    *http.ResponseController
	token  string
	phase  string // the last one that was sent
	cursor uint64
}

// watch streams the progress of a run until it ends. A client that reconnects sends the phase and the cursor up
// to which it has read.
func (s *server) watch(w http.ResponseWriter, r *http.Request, token string, a *rights.Actor) error {
	v, err := s.svc.Runs.Find(a, r.PathValue("run"))
	if err != nil {
		return err
	}
	x := &watcher{server: s, r: r, w: w, out: http.NewResponseController(w), token: token,
		phase: r.URL.Query().Get("phase")}
	if text := r.URL.Query().Get("cursor"); text != "" {
		if x.cursor, err = strconv.ParseUint(text, 10, 64); err != nil {
			return fmt.Errorf("%w: the cursor %q is not a number", tables.ErrInvalid, text)
		}
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy must not buffer the stream
	w.WriteHeader(http.StatusOK)
	x.run(a, v)
	return nil
}

// run sends lines until the run ends, the connection breaks, or the token becomes invalid.
func (x *watcher) run(a *rights.Actor, v *service.RunView) {
	at := x.svc.Stream().Now()
	for {
		phase, id := "plan", v.Plan.ID
		if !v.Apply.Started.IsZero() {
			phase, id = "apply", v.Apply.ID
		}
		over := v.Status.Final()
		if !x.send(a, v, phase, id) {
			return
		}
		if over {
			_ = x.line(Watched{Status: string(v.Status), Over: true}) // an error means that the client has disconnected
			return
		}
		if x.standing(v) != nil {
			return
		}
		wait, cancel := context.WithTimeout(x.r.Context(), watchAtLeast)
		// The error is that of wait.
		b, _ := x.svc.Stream().Read(wait, at, func(e *events.Event) bool { return e.Run == v.ID })
		cancel()
		if x.r.Context().Err() != nil || b.Closed {
			return
		}
		at = b.Next
		var err error
		if a, err = x.svc.Tokens.Authenticate(x.token, ""); err != nil {
			return
		}
		if v, err = x.svc.Runs.Find(a, v.ID); err != nil {
			return
		}
	}
}

// standing sends the status of a run between its phases, and why it waits.
func (x *watcher) standing(v *service.RunView) error {
	line := Watched{Status: string(v.Status)}
	if !v.Status.Computes() {
		w, err := x.svc.Runs.WaitsFor(&v.Run)
		if err != nil {
			x.log.Warn("cannot tell why a run waits", "run", v.ID, "error", err)
		}
		if w.Kind != "approval" || !v.AutoApply {
			line.Waits = w.Text
		}
	}
	return x.line(line)
}

// send sends a phase until it ends, or all of an ended phase. It returns false if the client has disconnected.
func (x *watcher) send(a *rights.Actor, v *service.RunView, phase, id string) bool {
	reader, err := x.svc.Timelines.Follow(a, id)
	if err != nil {
		return false
	}
	if reader == nil {
		return x.ended(a, v, phase, id)
	}
	if x.phase != phase {
		x.phase, x.cursor = phase, 0
	}
	for first, over := x.cursor == 0, false; !over; first = false {
		var c *timeline.Changes
		wait, cancel := context.WithTimeout(x.r.Context(), watchAtLeast)
		c, over, err = reader.Next(wait, x.cursor)
		cancel()
		line := Watched{Phase: phase, Status: string(v.Status)}
		switch {
		case x.r.Context().Err() != nil:
			return false
		case err != nil: // no changes: check whether the token is still valid
			if a, err = x.svc.Tokens.Authenticate(x.token, ""); err != nil || !x.svc.Runs.MaySee(a, v.Workspace) {
				return false
			}
		case first:
			line.Model = &timeline.Model{Cursor: c.Cursor, Head: c.Head, Counts: c.Counts, Vertices: c.Vertices,
				Shortages: c.Shortages}
			x.cursor = c.Cursor
		default:
			line.Changes = c
			x.cursor = c.Cursor
		}
		if x.line(line) != nil {
			return false
		}
		_ = sleep.For(x.r.Context(), watchEvery)
	}
	return true
}

// ended sends an ended phase, unless the client has it already.
func (x *watcher) ended(a *rights.Actor, v *service.RunView, phase, id string) bool {
	if x.phase == phase && x.cursor == 0 {
		return true // it was sent as ended
	}
	write, _, err := x.svc.Timelines.Read(a, id, timeline.Shape)
	if errors.Is(err, tables.ErrNotFound) {
		return true
	}
	m := new(timeline.Model)
	var text buffer
	if err != nil || write(&text) != nil || json.Unmarshal(text, m) != nil {
		return false
	}
	x.phase, x.cursor = phase, 0
	return x.line(Watched{Phase: phase, Status: string(v.Status), Model: m}) == nil
}

type buffer []byte

func (b *buffer) Write(p []byte) (int, error) { *b = append(*b, p...); return len(p), nil }

func (x *watcher) line(l Watched) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	_, err = x.w.Write(append(text, '\n'))
	return errors.Join(err, x.out.Flush())
}

// timeline returns a piece of the timeline of a run's last phase: its shape, or with ?piece=story the waits and
// attempts of its operations.
func (s *server) timeline(r *http.Request, a *rights.Actor) (any, error) {
	v, err := s.svc.Runs.Find(a, r.PathValue("run"))
	if err != nil {
		return nil, err
	}
	piece := timeline.Shape
	switch r.URL.Query().Get("piece") {
	case "", "shape":
	case "story":
		piece = timeline.Story
	default:
		return nil, fmt.Errorf("%w: the pieces of a timeline are \"shape\" and \"story\"", tables.ErrInvalid)
	}
	id := v.Plan.ID
	if !v.Apply.Started.IsZero() {
		id = v.Apply.ID
	}
	write, _, err := s.svc.Timelines.Read(a, id, piece)
	return stream{"application/json", write}, err
}
