// Package coding is the msgpack codec for everything that Millipede sends and stores, with bounds on decoding.
//
// For bytes of any origin, decoding needs memory and time proportional to their number, and returns a value or an
// error: depth, lengths, types and the size of numbers are checked before the decoders of msgpack and cty are
// called, and their panics become errors. The package does not know any messages or files.
package coding

import (
	"bytes"
	"reflect"
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

// maxPooled bounds the size of buffers that are kept for reuse.
const maxPooled = 1 << 20

// Marshal encodes a message: a struct as an array of its fields. It panics if the message cannot be encoded, which
// is a bug.
func Marshal(v any) []byte {
	return EncodeWith(func(enc *msgpack.Encoder) error { return enc.Encode(v) })
}

// EncodeWith returns the output of write. It panics if write returns an error, which is a bug.
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

// Unmarshal decodes one message with a nesting of at most depth into v, a pointer to a zero value. It does not share
// memory with data. Structs of the message may have more fields than those of v, which are skipped, or fewer: the
// missing ones are zero.
func Unmarshal(data []byte, depth int, v any) error {
	if err := CheckBounds(data, depth); err != nil {
		return err
	}
	decode := func(dec *msgpack.Decoder) error { return dec.Decode(v) }
	err := DecodeWith(data, decode)
	if err == nil {
		return nil
	}
	to := reflect.ValueOf(v)
	fitted, changed := fit(data, to.Type())
	if !changed {
		return err
	}
	to.Elem().SetZero() // it may have some of the fields
	return DecodeWith(fitted, decode)
}

// DecodeWith calls read to decode a value from data, which CheckBounds must have accepted.
func DecodeWith(data []byte, read func(*msgpack.Decoder) error) (err error) {
	d := decoders.Get().(*decoder)
	d.r.Reset(data)
	d.dec.ResetReader(&d.r)
	defer malformed(&err) // the decoder is not reused after a panic
	err = read(d.dec)
	d.r.Reset(nil)
	decoders.Put(d)
	return err
}
