package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/millipede-iac/millipede/internal/coding"
)

// A frame is the length of a message as four bytes, the highest first, and the message.
const (
	headSize = 4
	// maxFrame bounds what this program writes, in bytes; readers have limits of their own.
	maxFrame = 1 << 30
	depth    = 8
)

// The limits of readers, in bytes.
const (
	// MaxMessage bounds a message that has no content of runs: the longest are the packages of a run, with their
	// checksums.
	MaxMessage = 4 << 20
	// MaxCall bounds a call. An engine trusts the service; a call has a saved plan, and the schemas of its providers.
	MaxCall = maxFrame
	// MaxProgress bounds a frame to the service that has no answer. The longest begins the timeline of a run: it has all
	// operations, and a configuration has at most 262,144 instances, with about 200 bytes each.
	MaxProgress = 64 << 20
	// MaxText bounds the text of an error; what is longer is cut off.
	MaxText = 1 << 20
)

// Sized is the error of a message that is larger than its reader allows.
type Sized struct{ Size, Most int64 }

func (e *Sized) Error() string {
	return fmt.Sprintf("the other side announces a message of %d bytes, and at most %d are possible", e.Size, e.Most)
}

// Write writes a message as one frame.
func Write(w io.Writer, message any) error {
	data := coding.Marshal(message)
	if len(data) > maxFrame {
		return fmt.Errorf("a message between the service and an engine has %d bytes, and at most %d are possible",
			len(data), maxFrame)
	}
	head := binary.BigEndian.AppendUint32(nil, uint32(len(data))) //nolint:gosec // it is bounded
	if _, err := w.Write(append(head, data...)); err != nil {
		return fmt.Errorf("writing to the other side: %w", err)
	}
	return nil
}

// Read reads one frame of at most most bytes into a message. The error is io.EOF if there is no further one, and *Sized
// if it is larger. It believes no length: memory is proportional to the bytes that have arrived.
func Read(r io.Reader, message any, most int64) error {
	return ReadAdmitted(r, message, func(size int64) error {
		if size > most {
			return &Sized{size, most}
		}
		return nil
	})
}

// ReadAdmitted is Read for a reader that decides about the announced size, in bytes, before anything of the message is
// read. An error of admit is returned.
func ReadAdmitted(r io.Reader, message any, admit func(size int64) error) error {
	var head [headSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return io.EOF
		}
		return fmt.Errorf("reading from the other side: %w", err)
	}
	size := int64(binary.BigEndian.Uint32(head[:]))
	if err := admit(size); err != nil {
		return err
	}
	var data bytes.Buffer
	if _, err := io.CopyN(&data, r, size); err != nil {
		return fmt.Errorf("a message of the other side is cut off: %w", err)
	}
	if err := coding.Unmarshal(data.Bytes(), depth, message); err != nil {
		return fmt.Errorf("a message of the other side: %w", err)
	}
	return nil
}
