package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/internal/failpoint"
	"github.com/millipede-iac/millipede/internal/wholefile"
)

// The file begins with magic. Frames follow: the length of the body and its CRC-32C, four bytes each, little
// endian; then the body, an Entry in msgpack. The last frame of an attempt is its current entry.
const (
	magic      = "millipede worker journal 1\n"
	headerSize = 8
	// maxBody is far above any message of the transport, so that a damaged length is detected.
	maxBody = 64 << 20
	// maxDepth is the maximum nesting of an entry.
	maxDepth = 8
	// slack is the size of outdated entries at which the file is rewritten.
	slack = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encodeFrame(e Entry) ([]byte, error) {
	body, err := msgpack.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encoding a journal entry: %w", err)
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("a journal entry of %d bytes is too large", len(body))
	}
	return framed(body), nil
}

// framed adds the length and the checksum before a body.
func framed(body []byte) []byte {
	frame := make([]byte, headerSize, headerSize+len(body))
	binary.LittleEndian.PutUint32(frame, uint32(len(body)))
	binary.LittleEndian.PutUint32(frame[4:], crc32.Checksum(body, castagnoli))
	return append(frame, body...)
}

// decodeFrame decodes the first frame of data and returns its length; 0 if there is no complete one. It returns
// ErrFormat for a complete one that this version cannot read: a crash leaves none, so a later version has written it.
func decodeFrame(data []byte) (Entry, int64, error) {
	if len(data) < headerSize {
		return Entry{}, 0, nil
	}
	n := int64(binary.LittleEndian.Uint32(data))
	// A crash may leave zeros, whose checksum would be right for an empty body.
	if n == 0 || n > maxBody || int64(len(data)) < headerSize+n {
		return Entry{}, 0, nil
	}
	body := data[headerSize : headerSize+n]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(data[4:]) {
		return Entry{}, 0, nil
	}
	var e Entry
	err := coding.Unmarshal(body, maxDepth, &e)
	switch {
	case err != nil:
		return Entry{}, 0, fmt.Errorf("%w: an entry is intact and cannot be decoded (%w). Use the version that wrote it",
			ErrFormat, err)
	case e.Ref.Attempt == "" || e.Status > Ended:
		return Entry{}, 0, fmt.Errorf("%w: an entry about the attempt %q has status %d. Use the version that wrote it",
			ErrFormat, e.Ref.Attempt, e.Status)
	}
	return e, headerSize + n, nil
}

// load reads or creates the file, and truncates an incomplete end.
func (j *Journal) load() (cut int64, err error) {
	file, err := os.OpenFile(j.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return 0, err
	}
	j.file = file
	cut, err = j.read()
	if err == nil {
		err = wholefile.SyncDir(filepath.Dir(j.path))
	}
	if err != nil {
		return 0, errors.Join(err, file.Close())
	}
	return cut, nil
}

func (j *Journal) read() (cut int64, err error) {
	data, err := io.ReadAll(j.file)
	if err != nil {
		return 0, err
	}
	if len(data) < len(magic) && bytes.HasPrefix([]byte(magic), data) {
		cut, data = int64(len(data)), []byte(magic) // new, or incomplete after a crash
		if _, err := j.file.WriteAt(data, 0); err != nil {
			return 0, err
		}
	}
	if !bytes.HasPrefix(data, []byte(magic)) {
		return 0, ErrFormat
	}
	j.size = int64(len(magic))
	for {
		e, n, err := decodeFrame(data[j.size:])
		if err != nil {
			return 0, err
		}
		if n == 0 {
			break
		}
		j.size += n
		j.keep(e, n)
	}
	if rest := int64(len(data)) - j.size; rest > 0 {
		cut = rest
		if err := j.file.Truncate(j.size); err != nil {
			return 0, err
		}
	}
	j.synced = j.size
	return cut, j.file.Sync()
}

// compact rewrites the file with only the live entries, once enough of it is outdated. The caller holds syncing.
func (j *Journal) compact() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var live int64
	for _, h := range j.live {
		live += h.bytes
	}
	if j.broken != nil || j.size < slack+2*live {
		return nil
	}
	switch err := j.rewrite(); {
	case errors.Is(err, ErrFull): // the outdated entries stay for now; the next durable entry tries again
		return nil
	case err != nil:
		j.broken = err
		return fmt.Errorf("%w: compacting: %w", ErrBroken, err)
	}
	return nil
}

// rewrite replaces the file by a new one with the live entries, once that is complete and synced: after a crash
// there is either one. Both files are closed for the renaming, because some systems require that.
func (j *Journal) rewrite() error {
	out := bytes.NewBufferString(magic)
	for _, e := range j.inOrder() {
		frame, err := encodeFrame(e)
		if err != nil {
			return err
		}
		out.Write(frame)
	}
	next := j.path + ".next"
	if err := writeDurably(next, out.Bytes()); err != nil {
		if full(err) {
			return errors.Join(ErrFull, err, os.Remove(next))
		}
		return err
	}
	failpoint.Hit(failpoint.JournalCopied)
	if err := j.file.Close(); err != nil {
		return err
	}
	if err := os.Rename(next, j.path); err != nil {
		return err
	}
	failpoint.Hit(failpoint.JournalMoved)
	if err := wholefile.SyncDir(filepath.Dir(j.path)); err != nil {
		return err
	}
	file, err := os.OpenFile(j.path, os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	j.file, j.size, j.synced = file, int64(out.Len()), int64(out.Len())
	j.generation++
	return nil
}

func writeDurably(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
