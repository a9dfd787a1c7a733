package host

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/service/seat/protocol"
)

const (
	// logPause is how long text of the log may wait for more, and maxLog how much of it at most, in bytes.
	logPause = 150 * time.Millisecond
	maxLog   = 32 << 10
	// changesPause is the minimum time between two messages about the timeline.
	changesPause = 250 * time.Millisecond
)

// sender sends the frames of a call. If the service does not receive them any more, they are dropped: the call is then
// being stopped. Safe for concurrent use.
type sender struct {
	mu     sync.Mutex // guards the fields below
	to     http.ResponseWriter
	flush  func() error
	log    []byte
	timer  *time.Timer // sends the log; nil when there is none
	closed bool

	following sync.WaitGroup
	unfollow  func()
}

// newSender begins the response.
func newSender(w http.ResponseWriter) *sender {
	s := &sender{to: w, flush: http.NewResponseController(w).Flush, unfollow: func() {}}
	w.WriteHeader(http.StatusOK)
	_ = s.flush() // an error ends the request, which the reader of its body notices
	return s
}

// send sends a frame, after the log that was written before it.
func (s *sender) send(f *protocol.ToService) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sendLog()
	s.write(f)
}

// write requires the lock.
func (s *sender) write(f *protocol.ToService) {
	if s.closed {
		return
	}
	if protocol.Write(s.to, f) != nil || s.flush() != nil {
		s.closed = true
	}
}

// sendLog requires the lock.
func (s *sender) sendLog() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	for piece := range slices.Chunk(s.log, maxLog) {
		s.write(&protocol.ToService{Log: piece})
	}
	s.log = nil
}

// logWriter is the log of a call.
type logWriter struct{ *sender }

// Write implements io.Writer.
func (w logWriter) Write(p []byte) (int, error) {
	s := w.sender
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, p...)
	switch {
	case len(s.log) >= maxLog:
		s.sendLog()
	case s.timer == nil:
		s.timer = time.AfterFunc(logPause, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.sendLog()
		})
	}
	return len(p), nil
}

// follow sends the changes of a timeline until the call ends, or another timeline of the call begins.
func (s *sender) follow(r *timeline.Recorder, engine string) {
	s.endTimeline()
	head, err := json.Marshal(r.Since(0, 0).Head)
	if err != nil {
		panic("host: the head of a timeline cannot be coded: " + err.Error())
	}
	s.send(&protocol.ToService{Begun: &protocol.Begun{Head: head, Engine: engine}})
	ctx, end := context.WithCancel(context.Background())
	s.unfollow = end
	s.following.Go(func() { s.sendChanges(ctx, r) })
}

// endTimeline sends the last changes of a timeline.
func (s *sender) endTimeline() {
	s.unfollow()
	s.following.Wait()
}

func (s *sender) sendChanges(ctx context.Context, r *timeline.Recorder) {
	cursor, over := uint64(0), false
	for {
		ended := r.Wait(ctx, cursor) != nil
		c := r.Since(cursor, 0)
		if c.Cursor > cursor {
			cursor = c.Cursor
			var data []byte
			data, over = codedChanges(c, over)
			s.send(&protocol.ToService{Changes: data})
		}
		if ended {
			return
		}
		select {
		case <-time.After(changesPause):
		case <-ctx.Done():
		}
	}
}

// tooMany takes the place of the operations of a timeline that does not fit into a frame.
const tooMany = "The operations of the run are not shown: there are too many, or their errors are too long."

// codedChanges returns the changes of a timeline in JSON. If they do not fit into a frame, they have no vertices from
// then on: over says that it was so before, and that it is.
func codedChanges(c *timeline.Changes, over bool) ([]byte, bool) {
	for try := 0; ; try++ {
		if over {
			c.Vertices, c.Head.Errors = nil, append([]string{tooMany}, c.Head.Errors...)
		}
		if try > 1 {
			c.Head.Errors, c.Shortages = []string{tooMany}, nil
		}
		data, err := json.Marshal(c)
		if err != nil {
			panic("host: the changes of a timeline cannot be coded: " + err.Error())
		}
		if len(data) < protocol.MaxProgress-maxLog || try > 1 {
			return data, over
		}
		over = true
	}
}

// close sends the answer as the last frame.
func (s *sender) close(a *protocol.Answer) {
	s.endTimeline()
	s.send(&protocol.ToService{Answer: a})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}
