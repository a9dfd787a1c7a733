package wire

import (
	"bytes"
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
	// CompressOver is the size in bytes above which a message is compressed.
	CompressOver = 16 << 10
	// SpillOver is the size in bytes above which a message, compressed, goes to a blob.
	SpillOver = 256 << 10
	// MaxMessage is the largest message in bytes, before compression, that Unpack makes.
	MaxMessage = 512 << 20
)

// An envelope is a byte of format, a byte of flags, and the body.
const envelopeFormat = 1

const (
	envelopeCompressed = 1 << iota
	envelopeSealed
	envelopeBlob // the body names a blob, and its key
)

var errEnvelope = errors.New("malformed envelope")

// Packer puts messages of one run into envelopes and takes them out again. Large ones are compressed; still larger ones
// go to a blob, which is always sealed, by a key of its own that the envelope holds. Without Blobs they stay whole, as
// a worker's journal keeps them.
//
// With a Sealer the envelope is sealed, as whatever is persisted on the way must be, and one that is not sealed is
// refused. Without, as on the fast lane, which persists no envelope, it is in the clear.
type Packer struct {
	Run    string
	Sealer *Sealer
	// Blobs is where large messages go; Incoming is where they come from, and nil for the same place.
	Blobs, Incoming Blobs
	// Rand is the source of the blobs' keys; it must be safe for concurrent use.
	Rand io.Reader
}

// Pack returns the envelope of data. Unpack must be told the same about: the message's subject, so that nothing sealed
// can be passed off as something else.
func (p Packer) Pack(ctx context.Context, about string, data []byte) ([]byte, error) {
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
		return append([]byte{envelopeFormat, flags}, data...), nil
	}
	flags |= envelopeSealed
	out := make([]byte, 2, 2+nonceSize+len(data)+tagSize)
	out[0], out[1] = envelopeFormat, flags
	return p.Sealer.Seal(out, data, bound(out, about))
}

// Unpack returns what Pack was given. It returns ErrNoKey for a sealed envelope when there is no Sealer,
// ErrNotAuthentic for one that is not what was packed, and ErrNotFound when its blob is gone. The result may share
// memory with packed.
func (p Packer) Unpack(ctx context.Context, about string, packed []byte) ([]byte, error) {
	if len(packed) < 2 {
		return nil, errEnvelope
	}
	head, data := packed[:2:2], packed[2:]
	if head[0] != envelopeFormat || head[1] > envelopeCompressed|envelopeSealed|envelopeBlob {
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
	if head[1]&envelopeBlob != 0 {
		if data, err = p.fetch(ctx, data); err != nil {
			return nil, fmt.Errorf("fetching a message from its blob: %w", err)
		}
	}
	if head[1]&envelopeCompressed != 0 {
		return decompress(data)
	}
	return data, nil
}

// Expands tells whether an envelope may hold much more than its own size: what it holds is compressed, or in a blob.
// The flags say so before anything is opened.
func Expands(packed []byte) bool {
	return len(packed) >= 2 && packed[1]&(envelopeCompressed|envelopeBlob) != 0
}

// bound is what an envelope's seal covers beside the body.
func bound(head []byte, about string) []byte {
	return append(bytes.Clone(head), about...)
}

// SpillName is the name under which a spilled message of a run is bound, so that PurgeRun finds it.
func SpillName(run, sha256 string) string { return SpillPrefix(run) + sha256 }

// SpillPrefix is what the names of all spilled messages of a run begin with.
func SpillPrefix(run string) string { return "run/" + Token(run) + "/" }

// spill stores data as a blob that is sealed with a key of its own, and returns the blob's hash and the key.
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

func (p Packer) fetch(ctx context.Context, ref []byte) ([]byte, error) {
	if len(ref) != sha256.Size+runKeySize {
		return nil, errEnvelope
	}
	from := p.Incoming
	if from == nil {
		from = p.Blobs
	}
	blob, err := from.GetBlob(ctx, hex.EncodeToString(ref[:sha256.Size]))
	if err != nil {
		return nil, err
	}
	s, err := newSealer(ref[sha256.Size:], p.Rand)
	if err != nil {
		return nil, err
	}
	return s.Open(blob, nil)
}

var (
	compressor = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2))
		if err != nil {
			panic("wire: " + err.Error())
		}
		return e
	})
	decompressor = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(MaxMessage))
		if err != nil {
			panic("wire: " + err.Error())
		}
		return d
	})
)

func compress(data []byte) []byte { return compressor().EncodeAll(data, nil) }

func decompress(data []byte) ([]byte, error) {
	out, err := decompressor().DecodeAll(data, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEnvelope, err)
	}
	return out, nil
}
