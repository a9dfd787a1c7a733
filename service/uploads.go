package service

import (
	"crypto/md5" //nolint:gosec // the API's checksum of uploads
	"encoding/hex"
	"errors"
	"io"
	"sync"

	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// queues serializes the uploads of one object: a client that has lost the response may repeat an upload while
// the first is still being written. The zero value is ready for use.
type queues struct {
	mu sync.Mutex // guards of
	of map[string]*line
}

// line counts the upload of an object and those that wait for it.
type line struct {
	turn sync.Mutex
	in   int
}

// take waits until no other upload of the object is in progress. The caller calls leave when done.
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

// repeats checks that an upload to a used address repeats the first upload, whose response was lost. If the
// content differs, it returns the error otherwise.
func repeats(data io.Reader, size, limit int64, sum string, otherwise error) error {
	if err := fits(size, limit); err != nil {
		return err
	}
	h := md5.New() //nolint:gosec // see above
	n, err := io.Copy(h, io.LimitReader(data, limit+1))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return tables.Translated(store.ErrCut)
	case err != nil:
		return err
	case n > limit:
		return &problem413{limit}
	case hex.EncodeToString(h.Sum(nil)) != sum:
		return otherwise
	}
	return nil
}
