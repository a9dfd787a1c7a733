package store

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the API's checksum of uploads
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/millipede-iac/millipede/internal/wholefile"
	"github.com/millipede-iac/millipede/state/seal"
)

// A file is a sequence of frames, each of them the length of the encrypted bytes and these bytes. A frame is
// bound by its authentication tag to its file and its position there.
const (
	frameSize = 64 << 10 // the maximum of plain bytes in a frame
	overhead  = 24 + 16  // nonce and tag
)

// ErrTooLarge means that an upload exceeds its limit.
var ErrTooLarge = errors.New("it is larger than allowed")

// ErrCut means that a connection ended before an upload was complete.
var ErrCut = errors.New("the connection ended before the upload was complete")

// whole is a reader that turns io.ErrUnexpectedEOF into ErrCut: io.ReadFull returns the same error when the input ends
// within its buffer, so that a broken connection could be taken for the end of the input.
type whole struct{ r io.Reader }

func (w whole) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = ErrCut
	}
	return n, err
}

// Written describes a written file.
type Written struct {
	Size int64
	MD5  string // of the plain bytes, in hex
}

// path returns the path of a file. Names have the form kind/ID, and are made by the service only.
func (s *Store) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

// Write stores the content of r under a name, and replaces an earlier file of that name. The file is durable
// when Write returns. If there is an error, the earlier file stays; the error is ErrTooLarge for more than
// limit bytes.
func (s *Store) Write(name string, r io.Reader, limit int64) (w Written, err error) {
	err = s.around("file", name, func() error { w, err = s.write(name, r, limit); return err })
	return w, s.noted(err)
}

func (s *Store) write(name string, r io.Reader, limit int64) (w Written, err error) {
	path := s.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return w, err
	}
	err = s.files.Durable(path, wholefile.Private, func(out io.Writer) (err error) {
		w, err = writeFrames(out, s.key, name, whole{r}, limit)
		return err
	})
	if err == nil && s.depot != nil {
		err = s.depot.Keep(name, path) // before a record names the file
	}
	return w, err
}

// Cache is Write for data that can be made again: it does not sync, so that a loss of power may lose the file.
func (s *Store) Cache(name string, data []byte) error {
	return s.noted(s.around("file", name, func() error {
		path := s.path(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		return wholefile.Write(path, wholefile.Private, func(out io.Writer) error {
			_, err := writeFrames(out, s.key, name, bytes.NewReader(data), int64(len(data)))
			return err
		})
	}))
}

// writeFrames writes the content of r, and a last frame that marks the end.
func writeFrames(out io.Writer, key *seal.Key, name string, r io.Reader, limit int64) (Written, error) {
	var (
		sum    = md5.New() //nolint:gosec // see above
		buffer = make([]byte, frameSize)
		w      Written
	)
	for i := 0; ; i++ {
		n, err := io.ReadFull(r, buffer)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return w, err
		}
		last := err != nil
		if w.Size += int64(n); w.Size > limit {
			return w, ErrTooLarge
		}
		sum.Write(buffer[:n])
		if err := writeFrame(out, key, framePlace(name, i, last), buffer[:n]); err != nil {
			return w, err
		}
		if last {
			w.MD5 = hex.EncodeToString(sum.Sum(nil))
			return w, nil //nolint:nilerr // it is the end of the content
		}
	}
}

// framePlace returns the additional data with which a frame is authenticated.
func framePlace(name string, i int, last bool) []byte {
	return fmt.Appendf(nil, "%s#%d#%t", name, i, last)
}

func writeFrame(out io.Writer, key *seal.Key, place, plain []byte) error {
	sealed := key.Seal(place, plain)
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(sealed)), uint32(len(sealed))) //nolint:gosec // under 100 kB
	_, err := out.Write(append(frame, sealed...))
	return err
}

// readFrame reads the encrypted bytes of a frame, into buffer if they fit. The error is io.EOF at the end of
// the file, and io.ErrUnexpectedEOF within a frame.
func readFrame(in io.Reader, buffer []byte) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(length[:]))
	if n > frameSize+overhead {
		return nil, errors.New("a frame exceeds the maximum length")
	}
	if cap(buffer) < n {
		buffer = make([]byte, n)
	}
	sealed := buffer[:n]
	if _, err := io.ReadFull(in, sealed); err != nil {
		return nil, fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
	}
	return sealed, nil
}

// Read returns a reader of a file. The error wraps ErrNotFound if there is no such file. The caller closes the
// reader. The content is complete when the reader returns io.EOF.
func (s *Store) Read(name string) (io.ReadCloser, error) {
	f, err := s.openFile(name)
	if err != nil {
		return nil, err
	}
	return &reader{file: f, key: s.key, name: name}, nil
}

// openFile opens a file, which it fetches if only the depot has it. The error wraps ErrNotFound if nobody has it.
func (s *Store) openFile(name string) (*os.File, error) {
	path := s.path(name)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && s.depot != nil {
		if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			err = s.depot.Fetch(name, path)
		}
		if err == nil {
			f, err = os.Open(path)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the file %s: %w", name, ErrNotFound)
	}
	return f, err
}

// ReadAll returns the content of a file. The error wraps ErrNotFound if there is no such file.
func (s *Store) ReadAll(name string) ([]byte, error) {
	r, err := s.Read(name)
	if err != nil {
		return nil, err
	}
	var all bytes.Buffer
	if f, ok := r.(*reader); ok {
		if info, err := f.file.Stat(); err == nil { // slightly more than the content
			all.Grow(int(info.Size()))
		}
	}
	_, err = io.Copy(&all, r)
	return all.Bytes(), errors.Join(err, r.Close())
}

// Remove removes a file if it exists; during a backup, removal is deferred until its end.
func (s *Store) Remove(name string) error {
	if s.defers(name) {
		return nil
	}
	return s.remove(name)
}

// defers reports whether a file is removed at the end of a backup.
func (s *Store) defers(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pins == 0 {
		return false
	}
	s.doomed = append(s.doomed, name)
	return true
}

func (s *Store) remove(name string) error {
	if err := os.Remove(s.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if s.depot != nil {
		return s.depot.Drop(name)
	}
	return nil
}

// reader decrypts a file.
type reader struct {
	file  *os.File
	key   *seal.Key
	name  string
	frame int
	rest  []byte
	ended bool
	// sealed and plain are buffers for a frame, encrypted and decrypted.
	sealed, plain []byte
}

// next decrypts the next frame. The error is io.EOF after the last one.
func (r *reader) next() error {
	if r.ended {
		return io.EOF
	}
	sealed, err := readFrame(r.file, r.sealed)
	if err != nil {
		return fmt.Errorf("reading %s: %w", r.name, notEOF(err)) // the last frame is missing
	}
	r.sealed = sealed[:0]
	size := len(sealed)
	if r.key != nil {
		size -= overhead
	}
	last := size < frameSize // all other frames are full
	if r.rest, err = r.key.OpenTo(r.plain, framePlace(r.name, r.frame, last), sealed); err != nil {
		return fmt.Errorf("reading %s: %w", r.name, err)
	}
	r.plain, r.frame, r.ended = r.rest[:0], r.frame+1, last
	return nil
}

func (r *reader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// WriteTo implements io.WriterTo.
func (r *reader) WriteTo(w io.Writer) (n int64, err error) {
	for {
		written, err := w.Write(r.rest)
		n += int64(written)
		if err != nil {
			return n, err
		}
		r.rest = nil
		if err := r.next(); errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return n, err
		}
	}
}

func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (r *reader) Close() error { return r.file.Close() }
