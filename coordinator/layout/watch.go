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

	"github.com/millipede-iac/millipede/view/timeline"
)

// OpWatch asks for the run that the process carries out, or is about to: after the answer come lines of JSON, first the
// model of the run as soon as it has begun, then its changes, until it has ended.
const OpWatch = "watch"

const (
	// watchEvery is how often the changes of a run are sent at most.
	watchEvery = 100 * time.Millisecond
	// watchAtLeast is how often a line is sent when nothing changes, so that either side hears that the other is gone.
	watchAtLeast = 2 * time.Second
	// maxLine is how long a line is at most: that of a model of a million vertices.
	maxLine = 256 << 20
)

// Watched has those who watch see a run from now on.
func (s *Server) Watched(b *timeline.Book) {
	s.watching.Lock()
	defer s.watching.Unlock()
	s.book = b
	close(s.begun)
	s.begun = make(chan struct{})
}

// current returns the run under way, nil without one, and what is closed when another one begins.
func (s *Server) current() (*timeline.Book, <-chan struct{}) {
	s.watching.Lock()
	defer s.watching.Unlock()
	return s.book, s.begun
}

// watch sends a run to somebody who watches it.
func (s *Server) watch(conn net.Conn) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	s.working.Add(1)
	go func() { // it ends with the connection
		defer s.working.Done()
		defer cancel()
		_, _ = io.Copy(io.Discard, conn) //nolint:errcheck // nothing is expected but the end
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
	book, begun := s.current()
	for book == nil {
		select {
		case <-begun:
		case <-ctx.Done():
			return
		}
		book, begun = s.current()
	}
	m := book.Model(0)
	since := func() int64 { return max(0, time.Since(time.UnixMilli(m.Head.Begun)).Milliseconds()) }
	m = book.Model(since())
	if !send(m) || m.Head.Outcome != "" {
		return
	}
	for cursor := m.Cursor; ; {
		waiting, stop := context.WithTimeout(ctx, watchAtLeast)
		_ = book.Wait(waiting, cursor) //nolint:errcheck // what there is is sent in any case
		stop()
		if ctx.Err() != nil {
			return
		}
		c := book.Since(cursor, since())
		if !send(c) || c.Head.Outcome != "" {
			return
		}
		cursor = c.Cursor
		select {
		case <-time.After(watchEvery):
		case <-ctx.Done():
			// The process is about to end: what it has written last is the outcome of the run.
			send(book.Since(cursor, since()))
			return
		}
	}
}

// Watch has the process that has the store open tell of its run: see is called with each line that it sends, until the
// run has ended, see returns an error, or ctx ends. The error is ErrNobody when there is no such process.
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
