package wire

import (
	"fmt"

	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/millipede-iac/millipede/internal/coding"
)

// The greatest depth of nested values: in messages, and in schemas, whose blocks contain blocks.
const (
	messageDepth = 16
	schemasDepth = 256
)

// VersionError says that a peer speaks another version of the protocol. Nothing else of its message was read.
type VersionError struct {
	// What is the kind of the message: "task" or "result".
	What string
	// Peer is the version of the message; Own are those that this program reads.
	Peer int
	Own  Versions
}

func (e *VersionError) Error() string {
	older := "the coordinator or the worker that sent it"
	if e.Peer > e.Own.Highest {
		older = "this program"
	}
	return fmt.Sprintf("the %s is of protocol version %d, and this program speaks version %s; update %s", e.What,
		e.Peer, e.Own, older)
}

// EncodeTask returns the task's message, in its version. It panics for a task without exactly one operation.
func EncodeTask(t *Task) []byte {
	if t.operations() != 1 {
		panic(fmt.Sprintf("wire: the task for %s has %d operations", t.Address, t.operations()))
	}
	if t.Protocol == 0 {
		c := *t
		c.Protocol = Spoken().Highest
		t = &c
	}
	if data, ok := coding.MarshalRow(t.row); ok {
		return data
	}
	return marshal(t)
}

// DecodeTask reads a task's message. It returns a *VersionError for a peer of another version. The result does not
// share memory with data.
func DecodeTask(data []byte) (*Task, error) {
	t, err := decodeRow("task", data, Spoken(), (*Task).row)
	if err != nil {
		return nil, err
	}
	if n := t.operations(); n != 1 {
		return nil, fmt.Errorf("the task has %d operations instead of one", n)
	}
	return t, nil
}

// EncodeResult returns the result's message, in its version.
func EncodeResult(r *Result) []byte {
	if r.Protocol == 0 {
		c := *r
		c.Protocol = Spoken().Highest
		r = &c
	}
	if data, ok := coding.MarshalRow(r.row); ok {
		return data
	}
	return marshal(r)
}

// DecodeResult reads a result's message. It returns a *VersionError for a peer of another version. The result does
// not share memory with data.
func DecodeResult(data []byte) (*Result, error) {
	reads := Spoken()
	reads.Lowest = min(reads.Lowest, lowestResult)
	return decodeRow("result", data, reads, (*Result).row)
}

func (t *Task) operations() int {
	n := 0
	for _, set := range [...]bool{
		t.Schema != nil, t.Validate != nil, t.Plan != nil, t.Read != nil, t.Apply != nil, t.Import != nil,
		t.Ephemeral != nil, t.Function != nil, t.Provision != nil, t.List != nil, t.Action != nil,
	} {
		if set {
			n++
		}
	}
	return n
}

// EncodePage returns the message of a page.
func EncodePage(p *ListPage) []byte { return marshal(p) }

// DecodePage reads a page.
func DecodePage(data []byte) (*ListPage, error) {
	p, err := unmarshalAs[ListPage]("page of a list", data)
	return &p, err
}

// EncodeClaim returns the content of a register.
func EncodeClaim(c Claim) []byte { return marshal(&c) }

// DecodeClaim reads the content of a register. It refuses more than MaxClaim bytes.
func DecodeClaim(data []byte) (Claim, error) {
	if len(data) > MaxClaim {
		return Claim{}, fmt.Errorf("the claim has %d bytes", len(data))
	}
	return unmarshalAs[Claim]("claim", data)
}

// EncodePermitRequest returns the body of an admission message.
func EncodePermitRequest(r PermitRequest) []byte { return marshal(&r) }

// DecodePermitRequest reads the body of an admission message.
func DecodePermitRequest(data []byte) (PermitRequest, error) {
	return unmarshalAs[PermitRequest]("permit request", data)
}

// PermitOffer passes the admission message of a request to the coordinator that made the request.
type PermitOffer struct {
	Limit   string        `msgpack:"l"`
	Request PermitRequest `msgpack:"r"`
	// Ack is the subject on which the admission is extended and acknowledged.
	Ack string `msgpack:"a"`
}

// EncodePermitOffer returns the message of an offer.
func EncodePermitOffer(o PermitOffer) []byte { return marshal(&o) }

// DecodePermitOffer reads an offer.
func DecodePermitOffer(data []byte) (PermitOffer, error) {
	return unmarshalAs[PermitOffer]("permit offer", data)
}

// EncodeHeartbeat returns the message of a heartbeat.
func EncodeHeartbeat(h Heartbeat) []byte { return marshal(&h) }

// DecodeHeartbeat reads a heartbeat, also of other protocol versions: the coordinator shows such workers, but gives
// them no work.
func DecodeHeartbeat(data []byte) (Heartbeat, error) {
	return unmarshalAs[Heartbeat]("heartbeat", data)
}

// EncodeControl returns a control message.
func EncodeControl(c Control) []byte { return marshal(&c) }

// DecodeControl reads a control message.
func DecodeControl(data []byte) (Control, error) {
	return unmarshalAs[Control]("control message", data)
}

// EncodeEvent returns the message of a live event.
func EncodeEvent(e Event) []byte { return marshal(&e) }

// DecodeEvent reads a live event. It refuses more than MaxEvent bytes.
func DecodeEvent(data []byte) (Event, error) {
	if len(data) > MaxEvent {
		return Event{}, fmt.Errorf("the event has %d bytes", len(data))
	}
	return unmarshalAs[Event]("event", data)
}

// marshal encodes a message of this package, which cannot fail.
func marshal(v any) []byte { return coding.Marshal(v) }

func unmarshalAs[T any](what string, data []byte) (T, error) {
	var v T
	err := unmarshal(what, data, &v)
	return v, err
}

func unmarshal(what string, data []byte, v any) error {
	if err := coding.Unmarshal(data, messageDepth, v); err != nil {
		return fmt.Errorf("cannot read the %s: %w", what, err)
	}
	return nil
}

// decodeRow reads a task or a result. It checks the version before anything else, because the rest may have another
// meaning in another version.
func decodeRow[T any](what string, data []byte, reads Versions, row func(*T, *coding.Row)) (*T, error) {
	peer, err := peekVersion(data)
	if err != nil {
		return nil, fmt.Errorf("cannot read the %s: %w", what, err)
	}
	if !reads.Has(peer) {
		return nil, &VersionError{What: what, Peer: peer, Own: reads}
	}
	v := new(T)
	if coding.UnmarshalRow(data, func(r *coding.Row) { row(v, r) }) {
		return v, nil
	}
	v = new(T) // without the fields that were read
	if err := unmarshal(what, data, v); err != nil {
		return nil, err
	}
	return v, nil
}

// MessageVersion returns the version of an encoded task or result; 0 for anything else.
func MessageVersion(data []byte) int {
	version, err := peekVersion(data)
	if err != nil {
		return 0
	}
	return version
}

// peekVersion reads the version, which is the first element of a message in every version of the protocol.
func peekVersion(data []byte) (int, error) {
	if len(data) == 0 {
		return 0, coding.ErrMalformed
	}
	var skip int
	switch c := data[0]; {
	case msgpcode.IsFixedArray(c):
		skip = 1
	case c == msgpcode.Array16:
		skip = 3
	default:
		return 0, coding.ErrMalformed
	}
	if len(data) <= skip {
		return 0, coding.ErrMalformed
	}
	version := data[skip:]
	switch c := version[0]; {
	case c <= 0x7f:
		return int(c), nil
	case c == msgpcode.Uint8 && len(version) > 1:
		return int(version[1]), nil
	case c == msgpcode.Uint16 && len(version) > 2:
		return int(version[1])<<8 | int(version[2]), nil
	}
	return 0, coding.ErrMalformed
}
