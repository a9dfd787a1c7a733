package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/wire"
)

// claimWindow is how long after its delivery a task may be claimed. The registers of a finished run stay blocked for
// purgeGrace, which is longer, so that a worker that slept through the end of the run cannot claim an emptied register.
const (
	claimWindow = 10 * time.Minute
	purgeGrace  = 6 * claimWindow
)

// Claim implements wire.Claims. After a write with an unknown outcome it reads the register, and repeats the write with
// the same nonce while the register is empty.
func (c *Conn) Claim(ctx context.Context, ref wire.TaskRef, claim wire.Claim) (wire.Claim, error) {
	if claim.Nonce == "" {
		panic("jet: a claim without a nonce")
	}
	if err := c.topology.ensure(ctx, claimsStream(ref.Pool)); err != nil {
		return wire.Claim{}, err
	}
	for {
		if err := c.checkFresh(ref, claim); err != nil {
			return wire.Claim{}, err
		}
		err := c.writeClaim(ctx, ref, claim)
		if err == nil {
			return claim, c.checkFresh(ref, claim)
		}
		if errors.Is(err, wire.ErrDisconnected) {
			return wire.Claim{}, fmt.Errorf("claiming %s: %w", ref.Attempt, err)
		}
		if !conflict(err) && !temporary(err) {
			return wire.Claim{}, fmt.Errorf("claiming %s: %w", ref.Attempt, err)
		}
		found, readErr := c.ReadClaim(ctx, ref)
		switch {
		case readErr == nil:
			return found, c.checkFresh(ref, claim)
		case !errors.Is(readErr, wire.ErrNotFound):
			return wire.Claim{}, readErr
		}
		if sleep.For(ctx, 10*time.Millisecond) != nil {
			return wire.Claim{}, fmt.Errorf("claiming %s: %w", ref.Attempt, ctx.Err())
		}
	}
}

func (c *Conn) checkFresh(ref wire.TaskRef, claim wire.Claim) error {
	if !claim.Tombstone && c.fetched.stale(ref.Attempt, time.Now()) {
		return fmt.Errorf("claiming %s: %w", ref.Attempt, wire.ErrStale)
	}
	return nil
}

func (c *Conn) writeClaim(ctx context.Context, ref wire.TaskRef, claim wire.Claim) error {
	// No message ID: the server would take another handling of the same task for a duplicate, and report it as stored.
	domain, known := c.fetched.domain(ref.Attempt)
	if !known {
		domain, known = c.regions.domain(claimsStream(ref.Pool))
	}
	return c.storeIn(ctx, domain, known, &nats.Msg{Subject: wire.ClaimSubject(ref), Data: wire.EncodeClaim(claim)},
		jetstream.WithExpectLastSequencePerSubject(0))
}

// conflict reports whether an error means that the register has a content.
func conflict(err error) bool {
	apiErr := (*jetstream.APIError)(nil)
	if !errors.As(err, &apiErr) {
		return false
	}
	switch apiErr.ErrorCode {
	case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		return true
	case codeStoreFailed: // it says more things than one: that the stream is full, for instance
		return strings.Contains(apiErr.Description, tooManyOfOneSubject)
	}
	return false
}

// ReadClaim implements wire.Claims.
func (c *Conn) ReadClaim(ctx context.Context, ref wire.TaskRef) (wire.Claim, error) {
	m, err := c.lastMessage(ctx, claimsStream(ref.Pool), wire.ClaimSubject(ref))
	if err != nil {
		return wire.Claim{}, fmt.Errorf("reading the claim of %s: %w", ref.Attempt, err)
	}
	return wire.DecodeClaim(m.Data)
}

// storedMessage is a message as the stream's leader has it.
type storedMessage struct {
	Subject  string    `json:"subject"`
	Sequence uint64    `json:"seq"`
	Data     []byte    `json:"data"`
	Headers  []byte    `json:"hdrs"`
	Time     time.Time `json:"time"`
}

// header returns the header of the message; nil for one without.
func (m *storedMessage) header() (nats.Header, error) {
	if len(m.Headers) == 0 {
		return nil, nil
	}
	return nats.DecodeHeadersMsg(m.Headers)
}

// lastMessage reads the last message of a subject from the leader, or returns wire.ErrNotFound. It needs no more rights
// than $JS.API.STREAM.MSG.GET of the stream.
func (c *Conn) lastMessage(ctx context.Context, stream, subject string) (*storedMessage, error) {
	return c.getMessage(ctx, stream, map[string]any{"last_by_subj": subject})
}

func (c *Conn) getMessage(ctx context.Context, stream string, query map[string]any) (*storedMessage, error) {
	body, err := json.Marshal(query)
	if err != nil {
		return nil, err
	}
	subject := c.regions.apiPrefix(stream) + "STREAM.MSG.GET." + stream
	answer, err := c.request(ctx, subject, body)
	if err != nil {
		return nil, err
	}
	var got struct {
		Message *storedMessage      `json:"message"`
		Error   *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &got); err != nil {
		return nil, fmt.Errorf("reading the answer of stream %s: %w", stream, err)
	}
	switch {
	case got.Error != nil && (got.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound ||
		got.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound):
		return nil, wire.ErrNotFound
	case got.Error != nil:
		return nil, problem(got.Error)
	case got.Message == nil:
		return nil, fmt.Errorf("stream %s answered without a message", stream)
	}
	return got.Message, nil
}
