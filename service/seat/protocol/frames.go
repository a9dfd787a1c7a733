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
	// maxFrame bounds a message, in bytes: plans are part of one.
	maxFrame = 1 << 30
	depth    = 8
)

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

// Read reads one frame into a message. The error is io.EOF if there is no further one. It believes no length: memory is
// proportional to the bytes that have arrived.
func Read(r io.Reader, message any) error {
	var head [headSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return io.EOF
		}
		return fmt.Errorf("reading from the other side: %w", err)
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxFrame {
		return fmt.Errorf("the other side announces a message of %d bytes, and at most %d are possible", size, maxFrame)
	}
	var data bytes.Buffer
	if _, err := io.CopyN(&data, r, int64(size)); err != nil {
		return fmt.Errorf("a message of the other side is cut off: %w", err)
	}
	if err := coding.Unmarshal(data.Bytes(), depth, message); err != nil {
		return fmt.Errorf("a message of the other side: %w", err)
	}
	return nil
}
