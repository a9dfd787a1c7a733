// Package bounds reads files whole, up to a limit.
//
// A name that a user gives may lead to a file without an end, such as a device, or to one that was named by mistake.
// Reading it must end with an answer, not with the machine's memory. The package knows no formats, and cannot be
// interrupted: who reads ends the process, or does not wait for the reader.
package bounds

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// The limits, by the content of a file.
const (
	// Text is for text that people write: configuration, variables, settings, lock files, keys.
	Text = 64 << 20
	// State is for snapshots and saved plans, which grow with the estate.
	State = 1 << 30
	// Content is for files that expressions read.
	Content = 128 << 20
	// Stream is the most that is taken from a pipe or a device, whose size nobody knows before.
	Stream = 128 << 20
)

// The limits of values, which expressions compute.
const (
	// Depth is how deep texts and values may be nested. Recursion over them takes less than 10 MiB of stack.
	Depth = 1000
	// Elements is how many elements the result of one expression, and how many steps its loops may have.
	Elements = 1 << 20
	// String is the length of a computed string in bytes.
	String = 64 << 20
	// Instances is how many instances all blocks of a run have together.
	Instances = 1 << 18
	// Texts is the length of all strings together, in bytes, that the loops of one expression compute.
	Texts = 2 * String
)

// TooLargeError tells that a file was not read because of its size.
type TooLargeError struct {
	Name  string
	Limit int64
}

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s is larger than %d MiB, which is the most that is read of such a file", e.Name, e.Limit>>20)
}

// ReadFile returns the content of a file, or a *TooLargeError. Of what is no regular file at most Stream is read.
func ReadFile(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	return ReadOpen(f, name, limit)
}

// ReadOpen is ReadFile for the rest of a file that is open. The caller closes it.
func ReadOpen(f fs.File, name string, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("it is a directory")}
	}
	if !info.Mode().IsRegular() {
		return ReadAll(f, name, min(limit, Stream))
	}
	if info.Size() > limit {
		return nil, &TooLargeError{name, limit}
	}
	return readAll(f, name, limit, info.Size())
}

// ReadAll returns the whole content of a reader, or a *TooLargeError. name describes the reader in that error.
func ReadAll(r io.Reader, name string, limit int64) ([]byte, error) {
	return readAll(r, name, limit, 0)
}

// readAll reads what is expected to have a certain size.
func readAll(r io.Reader, name string, limit, size int64) ([]byte, error) {
	const least = 512
	out := make([]byte, 0, max(size, least)+1) // one more byte, so that the end is seen without growing
	for {
		n, err := r.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		switch {
		case int64(len(out)) > limit:
			return nil, &TooLargeError{name, limit}
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		}
		if len(out) == cap(out) {
			grown := make([]byte, len(out), min(int64(len(out))*2, limit+1))
			copy(grown, out)
			out = grown
		}
	}
}
