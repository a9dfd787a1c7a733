package web

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/events"
	"github.com/millipede-iac/millipede/service/tables"
)

// Intervals of streams.
const (
	// beat is the interval at which an idle stream sends a sign of life.
	beat = 15 * time.Second
	// pause is the minimum time between two parts of a stream: changes in between are sent together.
	pause = 150 * time.Millisecond
)

// stream is a stream of server-sent events.
type stream struct {
	w http.ResponseWriter
	c *http.ResponseController
}

func (c *call) stream() *stream {
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // a proxy must not buffer the stream
	c.w.WriteHeader(http.StatusOK)
	return &stream{c.w, http.NewResponseController(c.w)}
}

// send sends an event; data must have no line breaks, which JSON does not have. An empty kind is a sign of
// life.
func (s *stream) send(kind, id string, data []byte) error {
	var err error
	if kind == "" {
		_, err = fmt.Fprint(s.w, ": \n\n")
	} else {
		_, err = fmt.Fprintf(s.w, "event: %s\nid: %s\ndata: %s\n\n", kind, id, data)
	}
	return errors.Join(err, s.c.Flush())
}

// follow sends "changed" for events that are wanted and that the person may see, and "reset" if the page must
// be reloaded. A browser that reconnects continues after the last event that it received.
func (c *call) follow(wanted func(*events.Event) bool) error {
	cursor := events.ParseCursor(c.r.URL.Query().Get("cursor"))
	if id := c.r.Header.Get("Last-Event-ID"); id != "" {
		cursor = events.ParseCursor(id)
	}
	out := c.stream()
	for {
		ctx, cancel := context.WithTimeout(c.r.Context(), beat)
		b, err := c.svc.Stream().Read(ctx, cursor, wanted)
		cancel()
		if c.r.Context().Err() != nil {
			return nil //nolint:nilerr // the client has disconnected
		}
		cursor = b.Next
		switch {
		case err != nil:
			if c.expired() {
				return nil
			}
			err = out.send("", "", nil)
		case b.Reset:
			err = out.send("reset", cursor.String(), []byte("{}"))
		default:
			if c.expired() {
				return nil
			}
			err = c.sendChanged(out, b)
		}
		if err != nil || b.Closed {
			return nil //nolint:nilerr // the client has disconnected
		}
		c.rest(pause)
	}
}

// sendChanged sends the events that the person may see.
func (c *call) sendChanged(out *stream, b events.Batch) error {
	runs, spaces := map[string]bool{}, map[string]bool{}
	may := map[string]bool{}
	for _, e := range b.Events {
		ok, asked := may[e.Workspace]
		if !asked {
			ok = c.svc.Runs.MaySee(c.actor, e.Workspace)
			may[e.Workspace] = ok
		}
		if !ok {
			continue
		}
		spaces[e.Workspace] = true
		if e.Run != "" {
			runs[e.Run] = true
		}
	}
	if len(spaces) == 0 {
		return out.send("", "", nil)
	}
	data, err := json.Marshal(map[string]any{"workspaces": sortedKeys(spaces), "runs": sortedKeys(runs)})
	if err != nil {
		panic(err) // strings can always be marshalled
	}
	return out.send("changed", b.Next.String(), data)
}

// expired reports whether the session has ended. It also updates the rights of the person.
func (c *call) expired() bool {
	actor, err := c.svc.Tokens.Authenticate(c.token, c.from)
	if err != nil || actor.User == nil {
		return true
	}
	c.actor = actor
	return false
}

// rest waits.
func (c *call) rest(d time.Duration) {
	_ = sleep.For(c.r.Context(), d)
}

func (c *call) overviewEvents() error {
	if _, err := c.svc.Organizations.Find(c.actor, c.arg("org")); err != nil {
		return err
	}
	return c.follow(nil) // events of workspaces that the person may not see are omitted
}

func (c *call) workspaceEvents() error {
	w, err := c.svc.Workspaces.Named(c.actor, c.arg("org"), c.arg("ws"))
	if err != nil {
		return err
	}
	return c.follow(func(e *events.Event) bool { return e.Workspace == w.ID })
}

func (c *call) runEvents() error {
	v, err := c.runAsked()
	if err != nil {
		return err
	}
	return c.follow(func(e *events.Event) bool {
		return e.Run == v.ID || e.Workspace == v.Workspace && e.Kind == events.WorkspaceChanged
	})
}

// timeline sends the timeline of a phase: a model or, if a stream is requested, the changes since a cursor
// while the phase is in progress.
func (c *call) timeline() error {
	v, err := c.runAsked()
	if err != nil {
		return err
	}
	phase := v.Plan.ID
	if c.arg("phase") == "apply" {
		phase = v.Apply.ID
	}
	if c.r.URL.Query().Has("cursor") {
		return c.timelineChanges(phase)
	}
	piece := timeline.Shape
	switch query := c.r.URL.Query(); {
	case query.Has("story"):
		piece = timeline.Story
	case query.Has("outline"):
		piece = timeline.Outline
	}
	write, live, err := c.svc.Timelines.Read(c.actor, phase, piece)
	if errors.Is(err, tables.ErrNotFound) { // there is none yet, or the phase has ended without one
		c.w.Header().Set("X-Live", strconv.FormatBool(v.Status.Computes()))
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("X-Live", strconv.FormatBool(live))
	c.pack(write)
	return nil
}

// pack sends the output of write, compressed if the browser supports that. Its errors mean that the client has
// disconnected.
func (c *call) pack(write func(io.Writer) error) {
	c.w.Header().Set("Vary", "Accept-Encoding")
	if !strings.Contains(c.r.Header.Get("Accept-Encoding"), "gzip") {
		_ = write(c.w)
		return
	}
	c.w.Header().Set("Content-Encoding", "gzip")
	z, err := gzip.NewWriterLevel(c.w, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is valid
	}
	if write(z) == nil {
		_ = z.Close()
	}
}

func (c *call) timelineChanges(phase string) error {
	text := c.r.URL.Query().Get("cursor")
	if id := c.r.Header.Get("Last-Event-ID"); id != "" {
		text = id
	}
	cursor, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		cursor = 0
	}
	reader, err := c.svc.Timelines.Follow(c.actor, phase)
	if err != nil {
		return err
	}
	out := c.stream()
	for over := reader == nil; !over; {
		var changes *timeline.Changes
		ctx, cancel := context.WithTimeout(c.r.Context(), beat)
		changes, over, err = reader.Next(ctx, cursor)
		cancel()
		switch {
		case c.r.Context().Err() != nil, c.expired():
			return nil //nolint:nilerr // the client has disconnected, or may not read on
		case err != nil:
			err = out.send("", "", nil)
		default:
			cursor = changes.Cursor
			var data []byte
			if data, err = json.Marshal(changes); err == nil {
				err = out.send("changes", strconv.FormatUint(cursor, 10), data)
			}
		}
		if err != nil {
			return nil //nolint:nilerr // the client has disconnected
		}
		c.rest(pause)
	}
	_ = out.send("end", strconv.FormatUint(cursor, 10), []byte("{}")) // an error means that the client has disconnected
	return nil
}

// runAsked returns the run in the path. It must belong to the organization and the workspace in the path.
func (c *call) runAsked() (*service.RunView, error) {
	v, err := c.svc.Runs.Find(c.actor, c.arg("run"))
	if err != nil {
		return nil, err
	}
	if v.On.Name != c.arg("ws") || v.Organization != c.arg("org") {
		return nil, errNotThere
	}
	return v, nil
}
