package jet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/wire"
)

const (
	// leaderPoll is the interval at which a stream without a leader is asked whether it has one again.
	leaderPoll = 100 * time.Millisecond
	// storeCheckEvery is the interval at which HighWater also checks that the streams take writes.
	storeCheckEvery = 3 * time.Second
)

// tryFor is how long one try of a request may take before it is sent again. A request to a server that died, or to a
// stream without a leader, is lost; waiting for the whole time-out would delay its sender.
func (c *Conn) tryFor() time.Duration { return c.opts.Timeout * 2 / 5 }

// store publishes a message and returns when a stream has stored it. A message without an answer is sent again as soon
// as the stream has a leader, so it may be stored twice. The error is wire.ErrStore if the stream answers that it
// cannot store the message.
func (c *Conn) store(ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt) error {
	domain, known := c.regions.domain(streamOf(m.Subject))
	return c.storeIn(ctx, domain, known, m, opts...)
}

// storeIn is store with the domain, if it is known, whose acknowledgement counts.
func (c *Conn) storeIn(ctx context.Context, domain string, known bool, m *nats.Msg,
	opts ...jetstream.PublishOpt) error {
	whole, cancel := c.bounded(ctx)
	defer cancel()
	opts = append(opts, jetstream.WithRetryAttempts(0), jetstream.WithExpectStream(streamOf(m.Subject)))
	answered := false
	for {
		if err := c.opts.trouble(); err != nil {
			return err
		}
		try, end := context.WithTimeout(whole, c.tryFor())
		ack, err := c.js.PublishMsg(try, m, opts...)
		end()
		if err == nil {
			return checkAck(m.Subject, ack, domain, known)
		}
		if isCode(err, codeOtherStream) {
			return fmt.Errorf("%w: the subject %s belongs to the stream %s, and another one has it (%w)", wire.ErrElsewhere,
				m.Subject, streamOf(m.Subject), err)
		}
		if reachedBound(err) {
			return tooFull(err, m.Subject)
		}
		if err = c.denied(problem(err), m.Subject); !errors.Is(err, wire.ErrUnanswered) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if whole.Err() != nil {
			if answered {
				return fmt.Errorf("%w: the stream of %s answers, but stores nothing. Its disk may be full, or NATS "+
					"has kept the error of an earlier write",
					wire.ErrStore, m.Subject)
			}
			return err
		}
		if answered, err = c.awaitLeader(whole, m.Subject); err != nil {
			return err
		}
	}
}

// checkAck checks who has acknowledged a message. Whichever stream has a subject answers a publisher; the publisher can
// name a stream, but no domain.
func checkAck(subject string, ack *jetstream.PubAck, domain string, known bool) error {
	stream := streamOf(subject)
	if ack.Stream != stream || known && ack.Domain != domain {
		return fmt.Errorf("%w: %s was stored by the stream %s%s, and not by %s%s", wire.ErrElsewhere, subject, ack.Stream,
			inDomain(ack.Domain), stream, inDomain(domain))
	}
	return nil
}

// inDomain names a domain in a sentence; nothing for none.
func inDomain(domain string) string {
	if domain == "" {
		return ""
	}
	return fmt.Sprintf(" in the domain %q", domain)
}

// reachedBound reports whether a stream refuses a message because of its bound.
func reachedBound(err error) bool {
	apiErr := (*jetstream.APIError)(nil)
	return errors.As(err, &apiErr) && (strings.Contains(apiErr.Description, tooManyBytes) ||
		strings.Contains(apiErr.Description, tooManyMessages))
}

// tooFull tells a publisher which stream is full, with advice for the user.
func tooFull(err error, subject string) error {
	return fmt.Errorf("%w: %s (%w)", wire.ErrFull, fullText(streamOf(subject), ""), err)
}

// awaitLeader waits until a stream answers for a subject, or ctx ends.
func (c *Conn) awaitLeader(ctx context.Context, subject string) (answered bool, err error) {
	for ctx.Err() == nil {
		// The stream that is expected does not exist, so the stream's leader refuses the message before it would store
		// it.
		probe := &nats.Msg{Subject: subject, Header: nats.Header{jetstream.ExpectedStreamHeader: {"PROBE"}}}
		try, end := context.WithTimeout(ctx, c.tryFor())
		_, err := c.nc.RequestMsgWithContext(try, probe)
		end()
		if err = problem(err); err == nil {
			return true, nil
		}
		if !errors.Is(err, wire.ErrUnanswered) {
			return false, err
		}
		if sleep.For(ctx, leaderPoll) != nil {
			break
		}
	}
	return false, nil //nolint:nilerr // the end of the context is no error
}

// request sends a request that may be repeated to the server or a stream. It repeats it while there is no answer,
// within the time-out.
func (c *Conn) request(ctx context.Context, subject string, data []byte) (*nats.Msg, error) {
	whole, cancel := c.bounded(ctx)
	defer cancel()
	for {
		try, end := context.WithTimeout(whole, c.tryFor())
		m, err := c.nc.RequestWithContext(try, subject, data)
		end()
		err = c.denied(problem(err), subject)
		if !errors.Is(err, wire.ErrUnanswered) {
			return m, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if sleep.For(whole, leaderPoll) != nil {
			return nil, err
		}
	}
}

// The codes of the server's answers about its storage.
const (
	codeStoreFailed      = 10077
	codePurgeFailed      = 10110
	codeNoMemory         = 10028
	codeInsufficient     = 10023
	codeStorageExceeded  = 10047
	codeNotEnabled       = 10076
	codeNotAvailable     = 10008
	codeOtherStream      = 10060
	tooManyOfOneSubject  = "maximum messages per subject exceeded"
	tooManyBytes         = "maximum bytes exceeded"
	tooManyMessages      = "maximum messages exceeded"
	storageErrorNoSpace  = "no space left"
	storageErrorQuota    = "quota exceeded"
	storageErrorTooLarge = "file too large"
	storageErrorReadOnly = "read-only file system"
	storageErrorIO       = "input/output error"
)

// refusedStore reports whether an answer of the server means that it cannot store messages.
func refusedStore(e *jetstream.APIError) bool {
	switch e.ErrorCode {
	case codeInsufficient, codeStorageExceeded, codeNoMemory, codeNotEnabled, codePurgeFailed:
		return true
	case codeStoreFailed:
		return !strings.Contains(e.Description, tooManyOfOneSubject)
	}
	for _, s := range []string{tooManyBytes, tooManyMessages, storageErrorNoSpace, storageErrorQuota,
		storageErrorTooLarge, storageErrorReadOnly, storageErrorIO} {
		if strings.Contains(e.Description, s) {
			return true
		}
	}
	return false
}

// checks records when the streams were last asked whether they take writes, and their answers.
type checks struct {
	mu  sync.Mutex // guards the fields below
	at  time.Time
	err error
}

// writable returns wire.ErrStore if a stream has stopped taking writes. After a failed write a server keeps the error
// and no longer answers publishers, but reports the error to a purge; purging a subject without messages writes
// nothing.
func (c *Conn) writable(ctx context.Context) error {
	if c.opts.inProcess != nil {
		return c.opts.trouble()
	}
	k := &c.checks
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); k.at.IsZero() || now.Sub(k.at) >= storeCheckEvery {
		k.at, k.err = now, nil
		for _, name := range c.topology.names() {
			if c.regions.of(name) != "" {
				continue // see ofRegion
			}
			err := c.topology.purge(ctx, name, "none")
			if errors.Is(err, wire.ErrStore) {
				k.err = fmt.Errorf("stream %s: %w", name, err)
				break
			}
		}
	}
	return k.err
}
