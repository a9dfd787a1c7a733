package layout

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/internal/sleep"
)

// OpWatch requests the progress of the current run, or of the next one. The reply is followed by lines of JSON:
// first the model of the run when it has begun, then its changes until it has ended.
const OpWatch = "watch"

const (
	// watchEvery is the minimum interval between changes of a run.
	watchEvery = 100 * time.Millisecond
	// watchAtLeast is the interval of lines when nothing changes; they reveal a broken connection to both
	// sides.
	watchAtLeast = 2 * time.Second
	// maxLine is the maximum length of a line, enough for a model of a million vertices.
	maxLine = 256 << 20
)

// Watched sets the timeline that watching clients see from now on.
func (s *Server) Watched(b *timeline.Recorder) {
	s.watching.Lock()
	defer s.watching.Unlock()
	s.recorder = b
	close(s.begun)
	s.begun = make(chan struct{})
}

// current returns the timeline of the current run, nil if there is none, and a channel that is closed when
// another run begins.
func (s *Server) current() (*timeline.Recorder, <-chan struct{}) {
	s.watching.Lock()
	defer s.watching.Unlock()
	return s.recorder, s.begun
}

// watch sends the progress of a run to a client.
func (s *Server) watch(conn net.Conn) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	s.working.Add(1)
	go func() { // ends with the connection
		defer s.working.Done()
		defer cancel()
		_, _ = io.Copy(io.Discard, conn) // nothing is expected but the end
	}()
	defer closeQuietly(conn)
	send := func(v any) bool {
		text, err := json.Marshal(v)
		if err != nil || conn.SetDeadline(time.Now().Add(requestTime)) != nil {
			return false
		}
		_, err = conn.Write(append(text, '\n'))
		return err == nil && conn.SetDeadline(time.Time{}) == nil
	}
	if !send(Reply{Version: ServeVersion}) {
		return
	}
	recorder, begun := s.current()
	for recorder == nil {
		select {
		case <-begun:
		case <-ctx.Done():
			return
		}
		recorder, begun = s.current()
	}
	m := recorder.Model(0)
	since := func() int64 { return max(0, time.Since(time.UnixMilli(m.Head.Begun)).Milliseconds()) }
	m = recorder.Model(since())
	if !send(m) || m.Head.Outcome != "" {
		return
	}
	for cursor := m.Cursor; ; {
		waiting, stop := context.WithTimeout(ctx, watchAtLeast)
		_ = recorder.Wait(waiting, cursor) // the present changes are sent in any case
		stop()
		if ctx.Err() != nil {
			return
		}
		c := recorder.Since(cursor, since())
		if !send(c) || c.Head.Outcome != "" {
			return
		}
		cursor = c.Cursor
		if sleep.For(ctx, watchEvery) != nil {
			// The process is about to end: the last changes have the outcome of the run.
			send(recorder.Since(cursor, since()))
			return
		}
	}
}

// Watch requests the progress of the run from the process that has the store open. It calls see with each line
// until the run has ended, see returns an error, or ctx ends. The error is ErrNobody if there is no such
// process.
func (h Home) Watch(ctx context.Context, see func(line []byte) error) error {
	conn, err := h.dial(ctx)
	if err != nil {
		return err
	}
	defer closeQuietly(conn)
	stop := context.AfterFunc(ctx, func() { closeQuietly(conn) })
	defer stop()
	text, err := json.Marshal(Request{Version: ServeVersion, Op: OpWatch})
	if err != nil {
		return err
	}
	if _, err := conn.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("%w: %w", ErrNobody, err)
	}
	lines := bufio.NewScanner(conn)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for first := true; lines.Scan(); first = false {
		if !first {
			if err := see(lines.Bytes()); err != nil {
				return err
			}
			continue
		}
		var r Reply
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("%w: its answer cannot be read: %w", ErrNobody, err)
		}
		if r.Error != "" {
			return errors.New("the process that works on the state says: " + r.Error)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return lines.Err()
}
