package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/events"
	"github.com/millipede-iac/millipede/view/timeline"
)

// Rhythms of watching.
const (
	// watchEvery is how often changes are sent at most, watchAtLeast how often a line is sent when there are none, so
	// that either side hears that the other is gone.
	watchEvery   = 100 * time.Millisecond
	watchAtLeast = 2 * time.Second
)

// Watched is a line of what a run does. Exactly one of Model and Changes is there, or none of them.
type Watched struct {
	// Phase is "plan" or "apply".
	Phase string `json:"phase,omitempty"`
	// Model is the phase as it is, without its story; Changes are those since the last line.
	Model   *timeline.Model   `json:"model,omitempty"`
	Changes *timeline.Changes `json:"changes,omitempty"`
	// Status is that of the run.
	Status string `json:"status"`
	// Over tells that no line will follow.
	Over bool `json:"over,omitempty"`
}

// watcher sends what a run does to one who watches it.
type watcher struct {
	*server
	r      *http.Request
	w      http.ResponseWriter
	out    *http.ResponseController
	token  string
	phase  string // that was sent last
	cursor uint64
}

// watch sends a run, line by line, until it is over. Who comes again says with phase and cursor what was read already.
func (s *server) watch(w http.ResponseWriter, r *http.Request, token string, a *service.Actor) error {
	v, err := s.FindRun(a, r.PathValue("run"))
	if err != nil {
		return err
	}
	x := &watcher{server: s, r: r, w: w, out: http.NewResponseController(w), token: token,
		phase: r.URL.Query().Get("phase")}
	if text := r.URL.Query().Get("cursor"); text != "" {
		if x.cursor, err = strconv.ParseUint(text, 10, 64); err != nil {
			return fmt.Errorf("%w: the cursor %q is no number", service.ErrInvalid, text)
		}
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy must not hold it back
	w.WriteHeader(http.StatusOK)
	x.run(a, v)
	return nil
}

// run ends with the run, with the connection, or when the token is not good any more.
func (x *watcher) run(a *service.Actor, v *service.RunView) {
	at := x.Stream().Now()
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
			_ = x.line(Watched{Status: string(v.Status), Over: true}) // who asked has gone away otherwise
			return
		}
		wait, cancel := context.WithTimeout(x.r.Context(), watchAtLeast)
		b, err := x.Stream().Read(wait, at, func(e *events.Event) bool { return e.Run == v.ID })
		cancel()
		if x.r.Context().Err() != nil || b.Closed {
			return
		}
		if at = b.Next; err != nil && x.line(Watched{Status: string(v.Status)}) != nil {
			return
		}
		if a, err = x.Authenticate(x.token, ""); err != nil {
			return
		}
		if v, err = x.FindRun(a, v.ID); err != nil {
			return
		}
	}
}

// send sends a phase: what goes on until it ends, or what there was. It tells whether somebody listens still.
func (x *watcher) send(a *service.Actor, v *service.RunView, phase, id string) bool {
	reader, err := x.FollowTimeline(a, id)
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
		case err != nil: // nothing happens: the token may have ended meanwhile
			if a, err = x.Authenticate(x.token, ""); err != nil || !x.MaySee(a, v.Workspace) {
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
		x.rest(watchEvery)
	}
	return true
}

// ended sends a phase that is over and that the other side does not know to be.
func (x *watcher) ended(a *service.Actor, v *service.RunView, phase, id string) bool {
	if x.phase == phase && x.cursor == 0 {
		return true // it was sent as ended
	}
	write, _, err := x.Timeline(a, id, timeline.Shape)
	if errors.Is(err, service.ErrNotFound) {
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

func (x *watcher) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-x.r.Context().Done():
	}
}
