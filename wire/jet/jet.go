// Package jet implements the transport of package wire over NATS JetStream.
//
// A Conn is a connection to an external cluster, or to a server embedded in the process (Embed); both use the same
// code. The package decides nothing about runs. By itself it only extends permits, passes permits of other coordinators
// to their owners, and repeats requests that were lost. docs/format/wire.md describes the streams and messages,
// docs/adr the reasons.
package jet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/wire"
)

var (
	_ wire.Transport = (*Conn)(nil)
	_ wire.Regions   = (*Conn)(nil)
)

// Options say how to connect. The zero value with a URL connects without credentials and creates nothing.
type Options struct {
	// URL is one or more servers, separated by commas. Empty for an embedded server.
	URL string
	// Name is the name of the connection in the server's list.
	Name string

	// At most one kind of credentials: a .creds file, a file with an nkey seed, user and password, or a token. User and
	// password may stand in the URL instead.
	CredentialsFile, NKeyFile string
	User, Password, Token     string
	// CAFile, CertificateFile and KeyFile are PEM files for TLS; the last two are for client certificates.
	CAFile, CertificateFile, KeyFile string
	// InboxPrefix replaces _INBOX where permissions give a client a prefix of its own.
	InboxPrefix string

	// Provision lets the connection create streams and consumers: on an external server all streams when it connects,
	// because workers may lack the permission and wait for them; on an embedded server each at its first use. Coordinators
	// set it.
	Provision bool
	// Replicas is the number of replicas of streams that the connection creates; 0 means three in a cluster and one
	// otherwise.
	Replicas int

	// Timeout is how long one request to the server may take; 0 means 5 s.
	Timeout time.Duration
	// AckWait is the time after which an unacknowledged message is delivered again; 0 means 5 s for tasks and permits, and
	// 3 s for results. The shorter it is, the sooner others get the messages of a killed process. It must be longer than
	// the pauses of a healthy process.
	AckWait time.Duration
	// Workers is the number of workers, if known: Presence.Workers waits until that many have announced themselves. 0
	// makes it wait until no more do.
	Workers int
	// Domain is the JetStream domain of a worker in a region with a message store of its own, and Pools are those of the
	// worker, in whose buckets the packages are then. The domain is announced in heartbeats; what another domain
	// acknowledges does not count.
	Domain string
	Pools  []string
	// Log receives a line about each event that the caller cannot see otherwise, such as a missing permission or a lost
	// connection. It may be called from any goroutine; nil drops the lines.
	Log func(line string)

	inProcess nats.InProcessConnProvider
	// trouble returns why an embedded server cannot store messages at the moment.
	trouble func() error
	// volatile keeps the streams of an embedded server in memory.
	volatile bool
}

func (o Options) withDefaults() Options {
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	if o.trouble == nil {
		o.trouble = func() error { return nil }
	}
	return o
}

func (o Options) ackWait(standard time.Duration) time.Duration {
	if o.AckWait != 0 {
		return o.AckWait
	}
	return standard
}

// bufferedMessages is the number of messages that a subscription may have received and not passed on yet. The client
// allocates the whole buffer at once: 64 KiB, instead of 512 KiB at its default, for each subscription.
const bufferedMessages = 8 << 10

// Conn is one connection. It is safe for concurrent use. Close it.
type Conn struct {
	opts Options
	nc   *nats.Conn
	js   jetstream.JetStream

	// ctx ends with the connection; group waits for the goroutines that run until then.
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup
	life   sync.RWMutex // held for writing while closed is set, for reading while something joins the group
	closed bool

	// The parts of the contract that have a type of their own.
	regions
	presence
	semaphore

	link     link
	denials  denials
	topology topology
	outcomes outcomes
	fetched  fetchTimes
	calls    calls
	purger   purger
	checks   checks
	home     atomic.Pointer[string] // the domain of the streams of the connected server's account; nil if it is not known

	complaints rateLimitedLog

	onClose func()
}

// Connect opens a connection. It fails if no server answers. Afterwards the connection reconnects by itself until
// Close; while it is down, operations return wire.ErrDisconnected. Close the connection.
func Connect(ctx context.Context, o Options) (*Conn, error) {
	o = o.withDefaults()
	if o.URL == "" && o.inProcess == nil {
		return nil, errors.New("no NATS server is named")
	}
	c := &Conn{opts: o}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	natsOptions, err := c.natsOptions(ctx)
	if err != nil {
		c.cancel()
		return nil, err
	}
	c.link.up(time.Now())
	c.nc, err = nats.Connect(o.URL, natsOptions...)
	if err != nil {
		c.cancel()
		return nil, connectError(o, err)
	}
	c.js, err = jetstream.New(c.nc, jetstream.WithDefaultTimeout(o.Timeout))
	if err != nil {
		c.nc.Close()
		c.cancel()
		return nil, err
	}
	c.regions.init(c)
	c.topology.init(c)
	c.outcomes.init(c)
	c.calls.init(c)
	c.presence.init(c)
	c.semaphore.init(c)
	c.purger.c = c
	if o.inProcess != nil || o.Domain != "" {
		c.home.Store(&o.Domain)
	}
	if o.Provision && o.inProcess == nil {
		if err := c.findStores(ctx); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	if o.Provision {
		if err := c.patiently(ctx, func() error { return older{c}.retire(ctx) }); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	if o.Provision && o.inProcess == nil {
		if err := c.topology.createAll(ctx); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

func connectError(o Options, err error) error {
	if o.URL == "" {
		return fmt.Errorf("connecting to the embedded NATS server: %w", err)
	}
	return fmt.Errorf("connecting to NATS at %s: %w", redact(o.URL), err)
}

// redact hides user and password of the servers in a URL list.
func redact(urls string) string {
	list := strings.Split(urls, ",")
	for i, u := range list {
		if at := strings.LastIndexByte(u, '@'); at >= 0 {
			scheme := 0
			if s := strings.Index(u, "://"); s >= 0 {
				scheme = s + 3
			}
			list[i] = u[:scheme] + u[at+1:]
		}
	}
	return strings.Join(list, ",")
}

func (c *Conn) natsOptions(ctx context.Context) ([]nats.Option, error) {
	o := c.opts
	timeout := o.Timeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, max(time.Until(deadline), time.Millisecond))
	}
	list := []nats.Option{
		nats.Name(o.Name), nats.Timeout(timeout),
		nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond), nats.ReconnectJitter(100*time.Millisecond,
			250*time.Millisecond),
		nats.ReconnectBufSize(-1), // a message is sent now or not at all: nobody may act later on a decision of now
		nats.PermissionErrOnSubscribe(true),
		nats.PingInterval(2 * time.Second), nats.MaxPingsOutstanding(2),
		nats.SyncQueueLen(bufferedMessages),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			c.link.down()
			if err != nil && !errors.Is(err, io.EOF) && c.ctx.Err() == nil {
				o.Log("lost the connection to NATS: " + err.Error())
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			c.link.up(time.Now())
			o.Log("connected to NATS again, at " + redact(nc.ConnectedUrl()))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			if c.denials.note(err) {
				return
			}
			if sub != nil {
				o.Log("NATS, subject " + sub.Subject + ": " + err.Error())
				return
			}
			o.Log("NATS: " + err.Error())
		}),
	}
	if o.inProcess != nil {
		list = append(list, nats.InProcessServer(o.inProcess))
	}
	if o.InboxPrefix != "" {
		list = append(list, nats.CustomInboxPrefix(o.InboxPrefix))
	}
	if o.CAFile != "" {
		list = append(list, nats.RootCAs(o.CAFile))
	}
	if o.CertificateFile != "" || o.KeyFile != "" {
		list = append(list, nats.ClientCert(o.CertificateFile, o.KeyFile))
	}
	credentials, err := o.credentials()
	if err != nil {
		return nil, err
	}
	return append(list, credentials...), nil
}

func (o Options) credentials() ([]nats.Option, error) {
	var list []nats.Option
	if o.CredentialsFile != "" {
		list = append(list, nats.UserCredentials(o.CredentialsFile))
	}
	if o.NKeyFile != "" {
		nkey, err := nats.NkeyOptionFromSeed(o.NKeyFile)
		if err != nil {
			return nil, fmt.Errorf("reading the nkey seed in %s: %w", o.NKeyFile, err)
		}
		list = append(list, nkey)
	}
	if o.User != "" {
		list = append(list, nats.UserInfo(o.User, o.Password))
	}
	if o.Token != "" {
		list = append(list, nats.Token(o.Token))
	}
	if len(list) > 1 {
		return nil, errors.New("more than one kind of NATS credentials is given: choose one of a credentials file, " +
			"an nkey, a user, a token")
	}
	return list, nil
}

// UserKey returns the nkey of the user who connects, from its seed file or from the credentials; nil for a user with
// only a password, a token or a certificate.
func (o Options) UserKey() (nkeys.KeyPair, error) {
	file := o.NKeyFile
	if o.CredentialsFile != "" {
		file = o.CredentialsFile
	}
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the nkey of the NATS user: %w", err)
	}
	pair, err := nkeys.ParseDecoratedUserNKey(text)
	if err != nil {
		return nil, fmt.Errorf("reading the nkey of the NATS user in %s: %w", file, err)
	}
	return pair, nil
}

// Close ends the connection's goroutines and closes it. Its permits stay held; tasks and results that were fetched and
// not acknowledged are delivered again to others.
func (c *Conn) Close() error {
	c.life.Lock()
	c.closed = true
	c.life.Unlock()
	c.cancel()
	c.group.Wait()
	var err error
	if c.nc.IsConnected() {
		err = c.nc.FlushTimeout(c.opts.Timeout) // acknowledgements and releases under way
	}
	c.nc.Close()
	if c.onClose != nil {
		c.onClose()
	}
	if errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrTimeout) {
		return nil
	}
	return err
}

// Connected implements wire.Presence.
func (c *Conn) Connected() time.Duration { return c.link.since(time.Now()) }

// link records since when the connection is up.
type link struct {
	mu    sync.Mutex // guards start
	start time.Time  // zero while the connection is down
}

func (l *link) up(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.start = now
}

func (l *link) down() { l.up(time.Time{}) }

func (l *link) since(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.start.IsZero() {
		return 0
	}
	return max(now.Sub(l.start), 1)
}

// begin runs fn on a goroutine, and returns true, unless the connection is closed. Close ends c.ctx and waits for it.
func (c *Conn) begin(fn func()) bool {
	c.life.RLock()
	defer c.life.RUnlock()
	if !c.closed {
		c.group.Go(fn)
	}
	return !c.closed
}

// bounded returns ctx with the request time-out, unless it has a deadline of its own.
func (c *Conn) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.opts.Timeout)
}

// RoundTrip measures how long the server takes to answer.
func (c *Conn) RoundTrip(ctx context.Context) (time.Duration, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	began := time.Now()
	err := problem(c.nc.FlushWithContext(ctx))
	return time.Since(began), err
}

// problem turns errors of the NATS client into those of package wire.
func problem(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrPermissionViolation):
		return fmt.Errorf("%w: %w", wire.ErrDenied, err)
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionReconnecting),
		errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrConnectionClosed),
		errors.Is(err, nats.ErrInvalidConnection),
		errors.Is(err, nats.ErrBadSubscription):
		return fmt.Errorf("%w: %w", wire.ErrDisconnected, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout),
		errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrAsyncPublishTimeout),
		errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, jetstream.ErrServerShutdown):
		return fmt.Errorf("%w: %w", wire.ErrUnanswered, err)
	}
	if apiErr := (*jetstream.APIError)(nil); errors.As(err, &apiErr) {
		switch {
		case apiErr.ErrorCode == codeNotAvailable:
			return fmt.Errorf("%w: %w", wire.ErrUnanswered, err)
		case refusedStore(apiErr):
			return fmt.Errorf("%w: %w", wire.ErrStore, err)
		}
	}
	return err
}

// temporary reports whether a repetition may succeed.
func temporary(err error) bool {
	return errors.Is(err, wire.ErrDisconnected) || errors.Is(err, wire.ErrUnanswered) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoHeartbeat) ||
		errors.Is(err, jetstream.ErrNoStreamResponse) ||
		errors.Is(err, jetstream.ErrConsumerLeadershipChanged) || errors.Is(err, jetstream.ErrServerShutdown)
}

// elapsed returns the time between two readings of the clock: the longer of the times by the monotonic clock, which
// stands still while the machine sleeps, and by the wall clock, which somebody may set.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

const (
	// startPatience is how long a connection that has just been made waits for a cluster that elects a leader.
	startPatience = 10 * time.Minute
	// startTold is after how long that is logged.
	startTold = 3 * time.Second
)

// patiently repeats a request while the servers do not answer it: a command may begin while they elect a leader. A
// server that has no JetStream at all answers at once that nobody is there.
func (c *Conn) patiently(ctx context.Context, do func() error) error {
	began, told := time.Now(), false
	for {
		err := do()
		if err == nil || !errors.Is(err, wire.ErrUnanswered) && !errors.Is(err, wire.ErrDisconnected) ||
			errors.Is(err, nats.ErrNoResponders) && time.Since(began) >= c.opts.Timeout ||
			c.opts.inProcess != nil || ctx.Err() != nil || time.Since(began) >= startPatience {
			return err
		}
		if !told && time.Since(began) >= startTold {
			told = true
			c.opts.Log("NATS does not answer yet, as while its servers elect a leader: " + err.Error())
		}
		if sleep.For(ctx, leaderPoll) != nil {
			return err
		}
	}
}
