package service

import (
	"crypto/md5" //nolint:gosec // the API's checksum of uploads
	"encoding/hex"
	"errors"
	"io"
	"sync"

	"github.com/millipede-iac/millipede/service/store"
)

// queues lets one upload of a thing go on at a time: the same one again, because its answer was lost, may come while
// the first is still being written. The zero value is ready.
type queues struct {
	mu sync.Mutex // guards of
	of map[string]*line
}

// line is who uploads one thing, and who waits for that.
type line struct {
	turn sync.Mutex
	in   int
}

// take waits for the turn to upload a thing. The caller calls leave when done.
func (q *queues) take(what string) (leave func()) {
	q.mu.Lock()
	if q.of == nil {
		q.of = map[string]*line{}
	}
	l := q.of[what]
	if l == nil {
		l = &line{}
		q.of[what] = l
	}
	l.in++
	q.mu.Unlock()
	l.turn.Lock()
	return func() {
		l.turn.Unlock()
		q.mu.Lock()
		defer q.mu.Unlock()
		if l.in--; l.in == 0 {
			delete(q.of, what)
		}
	}
}

// repeats checks that an upload to an address that has been used is the same one again, whose answer was lost: with
// other bytes the error is the conflict.
func repeats(data io.Reader, size, limit int64, sum string, otherwise error) error {
	if err := fits(size, limit); err != nil {
		return err
	}
	h := md5.New() //nolint:gosec // see above
	n, err := io.Copy(h, io.LimitReader(data, limit+1))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return told(store.ErrCut)
	case err != nil:
		return err
	case n > limit:
		return &problem413{limit}
	case hex.EncodeToString(h.Sum(nil)) != sum:
		return otherwise
	}
	return nil
}
