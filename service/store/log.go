package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/internal/sleep"
)

// Log is a text that can be read while it is written. Safe for concurrent use.
//
// Written text survives the end of the process at once, and a loss of power after Sync or Close. Opening a log
// removes a line that a crash has truncated.
type Log struct {
	name string
	file *os.File
	s    *Store

	mu     sync.Mutex // guards the fields below, and writes to the file
	frames []frame
	size   int64         // plain bytes
	end    int64         // bytes of the file
	kept   int64         // bytes of the file that the depot has
	ended  bool          // End was called
	closed bool          // nothing more is written
	grown  chan struct{} // closed when text was written or the log has ended
	// readers is the number of calls of ReadAt in progress.
	readers int
}

// frame is the position of a piece of the text.
type frame struct {
	start int64 // in the plain text
	at    int64 // in the file
	plain int
}

// OpenLog opens a log for writing and reading, and creates it if necessary. The caller closes it.
func (s *Store) OpenLog(name string) (*Log, error) {
	path := s.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if s.depot != nil { // another member may have begun it
		if f, err := s.openFile(name); err == nil {
			err = f.Close()
			if err != nil {
				return nil, err
			}
		} else if !errors.Is(err, ErrNotFound) {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	l := &Log{name: name, file: f, s: s, grown: make(chan struct{})}
	if err := l.load(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := f.Truncate(l.end); err != nil { // remove a frame that a crash has truncated
		return nil, errors.Join(err, f.Close())
	}
	s.tails.grew(l)
	return l, nil
}

// ReadLog opens a completed log for reading. The error wraps ErrNotFound if there is none. The caller closes
// it.
func (s *Store) ReadLog(name string) (*Log, error) {
	f, err := s.openFile(name)
	if err != nil {
		return nil, err
	}
	l := &Log{name: name, file: f, s: s, closed: true}
	if err := l.load(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return l, nil
}

// load reads the positions of the frames. It ignores a truncated frame at the end.
func (l *Log) load() error {
	for {
		sealed, err := readFrame(l.file, nil)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			_, err := l.file.Seek(l.end, io.SeekStart)
			return err
		}
		if err != nil {
			return fmt.Errorf("reading the log %s: %w", l.name, err)
		}
		n := len(sealed)
		if l.s.key != nil {
			n -= overhead
		}
		l.add(n, 4+len(sealed))
	}
}

func (l *Log) add(plain, inFile int) {
	l.frames = append(l.frames, frame{start: l.size, at: l.end, plain: plain})
	l.size += int64(plain)
	l.end += int64(inFile)
}

// Write appends to the log.
func (l *Log) Write(p []byte) (n int, err error) {
	err = l.s.around("log", l.name, func() error { n, err = l.write(p); return err })
	return n, l.s.noted(err)
}

func (l *Log) write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, fs.ErrClosed
	}
	written := 0
	for len(p) > 0 {
		part := p[:min(len(p), frameSize)]
		place := framePlace(l.name, len(l.frames), false)
		if err := writeFrame(l.file, l.s.key, place, part); err != nil {
			_, seekErr := l.file.Seek(l.end, io.SeekStart)
			return written, errors.Join(err, seekErr, l.file.Truncate(l.end)) // remove a partial frame
		}
		inFile := 4 + len(part)
		if l.s.key != nil {
			inFile += overhead
		}
		l.add(len(part), inFile)
		written += len(part)
		p = p[len(part):]
	}
	close(l.grown)
	l.grown = make(chan struct{})
	l.s.tails.grew(l)
	return written, nil
}

// Size returns the length of the text in bytes.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size
}

// If many clients follow a log, its end is delivered in larger pieces: a reader of the end waits for a moment
// that grows with the number of readers, which reduces the number of responses. A single reader does not wait.
const (
	gatherEach = 400 * time.Microsecond
	gatherMost = 400 * time.Millisecond
	tail       = 4 << 10 // the size of the end of a log, in bytes
)

// ReadAt returns up to limit bytes of the text from offset. If there are none yet, it waits until there are
// some, the log ends, or ctx ends; in the last two cases the result may be empty.
func (l *Log) ReadAt(ctx context.Context, offset int64, limit int) ([]byte, error) {
	l.mu.Lock()
	l.readers++
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.readers--
	}()
	gathered := false
	for {
		l.mu.Lock()
		frames, size, grown, closed, others := l.frames, l.size, l.grown, l.closed, l.readers-1
		l.mu.Unlock()
		pause := min(time.Duration(others)*gatherEach, gatherMost)
		if offset < size && (closed || gathered || pause == 0 || size-offset >= min(tail, int64(limit))) {
			return l.read(frames, offset, limit)
		}
		if closed {
			return nil, nil
		}
		if offset < size {
			_ = sleep.For(ctx, pause)
			gathered = true
			continue
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// read decrypts the bytes from the frames.
func (l *Log) read(frames []frame, offset int64, limit int) ([]byte, error) {
	i, j := 0, len(frames)
	for i < j { // find the first frame that ends after offset
		if m := (i + j) / 2; frames[m].start+int64(frames[m].plain) > offset {
			j = m
		} else {
			i = m + 1
		}
	}
	out := make([]byte, 0, min(limit, frameSize))
	for ; i < len(frames) && len(out) < limit; i++ {
		f := frames[i]
		n := f.plain
		if l.s.key != nil {
			n += overhead
		}
		sealed := make([]byte, n)
		if _, err := l.file.ReadAt(sealed, f.at+4); err != nil {
			return nil, fmt.Errorf("reading the log %s: %w", l.name, err)
		}
		plain, err := l.s.key.Open(framePlace(l.name, i, false), sealed)
		if err != nil {
			return nil, fmt.Errorf("reading the log %s: %w", l.name, err)
		}
		plain = plain[max(0, offset-f.start):]
		out = append(out, plain[:min(len(plain), limit-len(out))]...)
	}
	return out, nil
}

// Sync makes the written text survive a loss of power.
func (l *Log) Sync() error { return l.file.Sync() }

// End marks the log as complete, and makes it durable. It can still be read.
func (l *Log) End() error {
	if l.over() {
		return nil
	}
	if err := l.file.Sync(); err != nil || l.s.depot == nil {
		return err
	}
	l.s.tails.ends(l)
	return l.s.depot.Keep(l.name, l.file.Name())
}

// over has nothing more written, and reports whether that was so before.
func (l *Log) over() (before bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return true
	}
	l.closed = true
	close(l.grown)
	return false
}

// Close ends the log and closes its file.
func (l *Log) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.grown)
	}
	l.mu.Unlock()
	return l.file.Close()
}
