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
)

// Log is a text that grows while others read it. Safe for concurrent use.
//
// What was written survives the end of the process at once, and a loss of power from Sync or Close on. A line that a
// crash cut off is dropped when the log is opened again.
type Log struct {
	name string
	file *os.File
	s    *Store

	mu     sync.Mutex // guards what follows, and writing to the file
	frames []frame
	size   int64         // of the plain bytes
	end    int64         // of the file
	closed bool          // nothing more comes
	grown  chan struct{} // is closed when there is more, or the log ends
	// readers is how many read just now, or wait.
	readers int
}

// frame is where a piece of the text lies.
type frame struct {
	start int64 // in the plain text
	at    int64 // in the file
	plain int
}

// OpenLog opens a log to be written and read; it is made when it is not there. The caller closes it.
func (s *Store) OpenLog(name string) (*Log, error) {
	path := s.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	l := &Log{name: name, file: f, s: s, grown: make(chan struct{})}
	if err := l.load(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := f.Truncate(l.end); err != nil { // what a crash has cut off
		return nil, errors.Join(err, f.Close())
	}
	return l, nil
}

// ReadLog opens a log to which nothing is written any more. The error wraps ErrNotFound where there is none. The caller
// closes it.
func (s *Store) ReadLog(name string) (*Log, error) {
	f, err := os.Open(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the log %s: %w", name, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	l := &Log{name: name, file: f, s: s, closed: true}
	if err := l.load(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return l, nil
}

// load reads where the frames lie, up to what a crash has cut off at the end.
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
			return written, errors.Join(err, seekErr, l.file.Truncate(l.end)) // half a frame may be there
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
	return written, nil
}

// Size returns how many bytes the text has.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size
}

// A log that many follow is told to them in larger pieces: who reads its end waits a moment, the longer the more
// readers there are, so that what an answer costs does not come with each line for each of them. One alone waits for
// nothing.
const (
	gatherEach = 400 * time.Microsecond
	gatherMost = 400 * time.Millisecond
	tail       = 4 << 10 // what counts as the end, in bytes
)

// ReadAt returns at most limit bytes of the text from offset on. Where nothing is yet it waits until something is, the
// log ends, or ctx does, and then may return nothing.
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
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
			}
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

// read collects the bytes from the frames.
func (l *Log) read(frames []frame, offset int64, limit int) ([]byte, error) {
	i, j := 0, len(frames)
	for i < j { // the first frame that ends behind offset
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

// Sync makes what was written survive a loss of power.
func (l *Log) Sync() error { return l.file.Sync() }

// End says that nothing more comes, and makes the log durable. It can still be read.
func (l *Log) End() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	close(l.grown)
	return l.file.Sync()
}

// Close ends the log, and its reading.
func (l *Log) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.grown)
	}
	l.mu.Unlock()
	return l.file.Close()
}
