package journal

import (
	"testing"

	"github.com/millipede-iac/millipede/wire"
)

// FuzzDecodeFrame decodes frames with random content and a correct checksum.
func FuzzDecodeFrame(f *testing.F) {
	frame, err := encodeFrame(Entry{Ref: wire.TaskRef{Pool: "p", Run: "r", Attempt: "a"}, Nonce: "n", Status: Ended,
		Message: []byte("result")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(frame[headerSize:])
	f.Fuzz(func(t *testing.T, body []byte) {
		e, n, err := decodeFrame(framed(body))
		if n == 0 || err != nil {
			return
		}
		again, err := encodeFrame(e)
		if err != nil {
			t.Fatal(err)
		}
		if same, _, err := decodeFrame(again); err != nil || same.Ref != e.Ref || same.Status != e.Status ||
			string(same.Message) != string(e.Message) {
			t.Errorf("%+v is read as %+v", e, same)
		}
	})
}
