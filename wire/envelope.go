package wire

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const (
	// CompressOver is the size in bytes above which messages are compressed.
	CompressOver = 16 << 10
	// SpillOver is the size in bytes, after compression, above which messages go to a blob.
	SpillOver = 256 << 10
	// MaxMessage is the largest message in bytes, before compression, that Pack and Unpack accept.
	MaxMessage = 512 << 20
)

// An envelope is a byte of format, a byte of flags, from format 2 on a byte with the version of the message in it, and
// the body. The version is not encrypted, so that a worker that cannot read a message leaves it to others, without its
// key. Versions of the protocol up to 5 have format 1.
const (
	plainEnvelope    = 1
	envelopeFormat   = 2
	lastPlainVersion = 5
)

const (
	envelopeCompressed = 1 << iota
	envelopeSealed
	envelopeBlob // the body names a blob, and its key
)

var errEnvelope = errors.New("malformed envelope")

// Packer puts messages of one run into envelopes, and takes them out. Large messages are compressed. Messages that are
// still large go to a blob, which is sealed with a key of its own that the envelope contains. Without Blobs they stay
// in the envelope, as in a worker's journal.
//
// With a Sealer the envelope is sealed, as everything that the server stores must be, and an envelope that is not
// sealed is refused. Without one, as on the fast lane, which stores no envelopes, it is not sealed.
type Packer struct {
	Run    string
	Sealer *Sealer
	// Blobs stores large messages; Incoming is where received ones are read from, and nil for Blobs.
	Blobs, Incoming Blobs
	// Rand is the source of the blobs' keys; it must be safe for concurrent use.
	Rand io.Reader
	// Held is the memory reserved for the message of Unpack; nil limits nothing. The caller releases it.
	Held *Reservation
	// Version is the version of the protocol of what Pack packs; 0 means the highest that this program speaks.
	Version int
}

// EnvelopeVersion returns the version of the message in an envelope, without opening it: for a sealed one, Unpack finds
// out whether somebody has changed it. It is 0 for what is no envelope.
func EnvelopeVersion(packed []byte) int {
	switch {
	case len(packed) > 2 && packed[0] == envelopeFormat:
		return int(packed[2])
	case len(packed) > 1 && packed[0] == plainEnvelope:
		return lastPlainVersion
	}
	return 0
}

// head returns the bytes of an envelope before its body.
func (p Packer) head(flags byte) []byte {
	version := cmp.Or(p.Version, Spoken().Highest)
	if version <= lastPlainVersion {
		return []byte{plainEnvelope, flags}
	}
	return []byte{envelopeFormat, flags, byte(version)} //nolint:gosec // at most MaxVersion
}

// Pack returns the envelope of data. Unpack needs the same about, which is the subject of the message, so that a sealed
// message is refused under another subject. It returns a *TooLargeError for more than MaxMessage bytes.
func (p Packer) Pack(ctx context.Context, about string, data []byte) ([]byte, error) {
	if len(data) > MaxMessage {
		return nil, &TooLargeError{about, int64(len(data))}
	}
	var flags byte
	if len(data) > CompressOver {
		if small := compress(data); len(small) < len(data) {
			data, flags = small, flags|envelopeCompressed
		}
	}
	if len(data) > SpillOver && p.Blobs != nil {
		ref, err := p.spill(ctx, data)
		if err != nil {
			return nil, fmt.Errorf("moving a message of %d bytes to a blob: %w", len(data), err)
		}
		data, flags = ref, flags|envelopeBlob
	}
	if p.Sealer == nil {
		return append(p.head(flags), data...), nil
	}
	head := p.head(flags | envelopeSealed)
	out := append(make([]byte, 0, len(head)+nonceSize+len(data)+tagSize), head...)
	return p.Sealer.Seal(out, data, bound(head, about))
}

// Unpack returns the message in an envelope. The errors are ErrNoKey for a sealed envelope without a Sealer,
// ErrNotAuthentic if the envelope was modified or has another subject, and ErrNotFound if its blob is gone. For more
// than MaxMessage bytes it returns a *TooLargeError before it reads them. It waits for memory for a large message
// (Held). The message may share memory with packed.
func (p Packer) Unpack(ctx context.Context, about string, packed []byte) ([]byte, error) {
	if len(packed) < 3 {
		return nil, errEnvelope
	}
	long := 3
	if packed[0] == plainEnvelope {
		long = 2
	}
	head, data := packed[:long:long], packed[long:]
	if head[0] < plainEnvelope || head[0] > envelopeFormat ||
		head[1] > envelopeCompressed|envelopeSealed|envelopeBlob {
		return nil, fmt.Errorf("%w: format %d, flags %x", errEnvelope, head[0], head[1])
	}
	sealed := head[1]&envelopeSealed != 0
	switch {
	case sealed && p.Sealer == nil:
		return nil, ErrNoKey
	case !sealed && p.Sealer != nil:
		return nil, fmt.Errorf("%w: it is not sealed", ErrNotAuthentic)
	}
	var err error
	if sealed {
		if data, err = p.Sealer.Open(data, bound(head, about)); err != nil {
			return nil, err
		}
	}
	compressed := head[1]&envelopeCompressed != 0
	if head[1]&envelopeBlob != 0 {
		if data, err = p.fetch(ctx, about, data, compressed); err != nil {
			return nil, fmt.Errorf("fetching a message from its blob: %w", err)
		}
	}
	if !compressed {
		return data, nil
	}
	return p.expand(ctx, about, data)
}

// bound returns the data that the seal of an envelope covers besides the body.
func bound(head []byte, about string) []byte {
	return append(bytes.Clone(head), about...)
}

// SpillName returns the name of the blob of a spilled message. PurgeRun finds the blob by it.
func SpillName(run, sha256 string) string { return SpillPrefix(run) + sha256 }

// SpillPrefix returns the prefix of the names of a run's spilled messages.
func SpillPrefix(run string) string { return "run/" + Token(run) + "/" }

// spill stores data as a blob, sealed with a key of its own, and returns the blob's hash and the key.
func (p Packer) spill(ctx context.Context, data []byte) ([]byte, error) {
	s, err := NewSealer(p.Rand)
	if err != nil {
		return nil, err
	}
	blob, err := s.Seal(nil, data, nil)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(blob)
	name := hex.EncodeToString(sum[:])
	if err := p.Blobs.PutBlob(ctx, name, blob); err != nil {
		return nil, err
	}
	if err := p.Blobs.NameBlob(ctx, SpillName(p.Run, name), name); err != nil {
		return nil, err
	}
	return append(sum[:], s.key[:]...), nil
}

// fetch reads a message from its blob. A compressed one tells its size when it was read; expand reserves memory for
// that.
func (p Packer) fetch(ctx context.Context, about string, ref []byte, compressed bool) ([]byte, error) {
	if len(ref) != sha256.Size+runKeySize {
		return nil, errEnvelope
	}
	from := p.Incoming
	if from == nil {
		from = p.Blobs
	}
	blob, err := from.GetBlobIf(ctx, hex.EncodeToString(ref[:sha256.Size]), func(bytes int64) error {
		if bytes > MaxMessage+nonceSize+tagSize {
			return &TooLargeError{about, bytes}
		}
		return p.Held.take(ctx, bytes, compressed)
	})
	if err != nil {
		return nil, err
	}
	s, err := newSealer(ref[sha256.Size:], p.Rand)
	if err != nil {
		return nil, err
	}
	return s.openInPlace(blob)
}

// expand decompresses a message.
func (p Packer) expand(ctx context.Context, about string, data []byte) ([]byte, error) {
	var head zstd.Header
	if err := head.Decode(data); err != nil {
		return nil, fmt.Errorf("%w: %w", errEnvelope, err)
	}
	if !head.HasFCS || head.Skippable {
		return nil, fmt.Errorf("%w: a compressed message has no size", errEnvelope)
	}
	if head.FrameContentSize > MaxMessage {
		return nil, &TooLargeError{about, int64(min(head.FrameContentSize, 1<<62))} //nolint:gosec // bounded
	}
	size := int64(head.FrameContentSize) //nolint:gosec // at most MaxMessage
	if err := p.Held.grow(ctx, int64(len(data))+size); err != nil {
		return nil, err
	}
	out, err := decompressor().DecodeAll(data, make([]byte, 0, size))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEnvelope, err)
	}
	return out, nil
}

var (
	compressor = sync.OnceValue(func() *zstd.Encoder {
		// With the default window, each of the encoders would keep 8 MiB.
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2),
			zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic("wire: " + err.Error())
		}
		return e
	})
	decompressor = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(MaxMessage),
			zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			panic("wire: " + err.Error())
		}
		return d
	})
)

func compress(data []byte) []byte { return compressor().EncodeAll(data, nil) }
