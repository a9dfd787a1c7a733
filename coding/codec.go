// Package coding is the msgpack codec of everything that Millipede sends and stores, with the bounds of what it reads.
//
// Whoever wrote the bytes, reading them takes memory and time in proportion to their number, and ends with a value or
// an error: depth, lengths, types and the size of numbers are checked before the decoders of msgpack and cty see
// anything, and their panics become errors. The package knows no message and no file: what is in them is their owners'
// business.
package coding

import (
	"bytes"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

type encoder struct {
	buf bytes.Buffer
	enc *msgpack.Encoder
}

type decoder struct {
	r   bytes.Reader
	dec *msgpack.Decoder
}

var (
	encoders = sync.Pool{New: func() any {
		e := new(encoder)
		e.enc = msgpack.NewEncoder(&e.buf)
		e.enc.UseCompactInts(true)
		e.enc.UseArrayEncodedStructs(true) // by position: half the time, and no field names
		return e
	}}
	decoders = sync.Pool{New: func() any {
		d := new(decoder)
		d.dec = msgpack.NewDecoder(&d.r)
		return d
	}}
)

// maxPooled keeps one large message from holding its buffer for ever.
const maxPooled = 1 << 20

// Marshal writes a message: a struct by the positions of its fields. One that does not encode is a bug, and panics.
func Marshal(v any) []byte {
	return EncodeWith(func(enc *msgpack.Encoder) error { return enc.Encode(v) })
}

// EncodeWith returns what write wrote. An error of write is a bug, and panics.
func EncodeWith(write func(*msgpack.Encoder) error) []byte {
	e := encoders.Get().(*encoder)
	e.buf.Reset()
	if err := write(e.enc); err != nil {
		panic("coding: a message does not encode: " + err.Error())
	}
	data := bytes.Clone(e.buf.Bytes())
	if e.buf.Cap() <= maxPooled {
		encoders.Put(e)
	}
	return data
}

// Unmarshal reads one message that nests at most depth deep into v. It does not share memory with data.
func Unmarshal(data []byte, depth int, v any) error {
	if err := CheckBounds(data, depth); err != nil {
		return err
	}
	return DecodeWith(data, func(dec *msgpack.Decoder) error { return dec.Decode(v) })
}

// DecodeWith has read take a value from data, which CheckBounds has accepted.
func DecodeWith(data []byte, read func(*msgpack.Decoder) error) (err error) {
	d := decoders.Get().(*decoder)
	d.r.Reset(data)
	d.dec.ResetReader(&d.r)
	defer hostile(&err) // after which the decoder is not used again
	err = read(d.dec)
	d.r.Reset(nil)
	decoders.Put(d)
	return err
}
