package service

import (
	"io"
	"sync"

	"github.com/millipede-iac/millipede/service/store"
)

// maxPending bounds the part of a log that is kept in memory while it cannot be written, in bytes.
const maxPending = 1 << 20

// bufferedLog is a log that hides a full disk from its writers: it keeps the text that could not be written in
// memory, and writes it before later text. Safe for concurrent use.
type bufferedLog struct {
	log io.Writer

	mu      sync.Mutex // guards pending and the order of writes
	pending []byte
}

// Write implements io.Writer. It returns an error if the disk has been full for so long that maxPending is
// exceeded, or for any other problem of the disk.
func (l *bufferedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.flush()
	n := 0
	if err == nil {
		n, err = l.log.Write(p)
	}
	if store.NoRoom(err) && len(l.pending)+len(p)-n <= maxPending {
		l.pending = append(l.pending, p[n:]...)
		return len(p), nil
	}
	return n, err
}

// Flush writes the text that is kept in memory.
func (l *bufferedLog) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flush()
}

func (l *bufferedLog) flush() error {
	if len(l.pending) == 0 {
		return nil
	}
	n, err := l.log.Write(l.pending)
	l.pending = l.pending[n:]
	return err
}
