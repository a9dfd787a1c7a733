package jet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/state/log"
	"github.com/millipede-iac/millipede/wire"
)

// The log of a group is a stream with a subject for each store. The leader of the stream accepts an entry only if it
// expects the last sequence of its subject, and a majority of the servers has stored it before it is acknowledged. What
// is too large for an entry is in a second stream, with a subject for each part. docs/format/log.md explains the
// settings.

// GroupLog is the log of a group. It implements log.Transport, and lives as long as its connection.
type GroupLog struct {
	c           *Conn
	group       string // as a token
	incarnation log.ID
}

var _ log.Transport = (*GroupLog)(nil)

// ErrNoGroup means that the servers have no log of a group.
var ErrNoGroup = errors.New("NATS has no log of this group")

// ErrGroupExists means that the servers have a log of a group already.
var ErrGroupExists = errors.New("NATS has a log of this group already")

// metadataIncarnation is the stream's note of the incarnation of the group, in hexadecimal.
const metadataIncarnation = "millipede-incarnation"

func logStream(group string) string   { return "LOG-" + group }
func partsStream(group string) string { return "LOGPARTS-" + group }

func (l *GroupLog) subject(store string) string { return "log." + l.group + "." + wire.Token(store) }

// part returns the subject of a part. The pieces of its name are the tokens, so that names can be listed by their
// beginnings.
func (l *GroupLog) part(name string) string {
	tokens := strings.Split(name, "/")
	for i, t := range tokens {
		tokens[i] = wire.Token(t)
	}
	return l.parts() + strings.Join(tokens, ".")
}

func (l *GroupLog) parts() string { return "logpart." + l.group + "." }

// logConfig returns the settings of the two streams of a group. bytes are reserved for each; -1 for no bound.
func (l *GroupLog) logConfig(replicas int, bytes int64) (entries, parts jetstream.StreamConfig) {
	common := jetstream.StreamConfig{
		Storage: l.c.opts.storage(), Replicas: replicas, Discard: jetstream.DiscardNew, MaxBytes: bytes,
		MaxMsgs: -1, MaxMsgsPerSubject: -1, MaxConsumers: -1, MaxMsgSize: -1,
		Metadata: map[string]string{metadataIncarnation: l.incarnation.String()},
	}
	entries, parts = common, common
	entries.Name, entries.Subjects = logStream(l.group), []string{"log." + l.group + ".*"}
	entries.DenyDelete = true
	parts.Name, parts.Subjects = partsStream(l.group), []string{l.parts() + ">"}
	parts.MaxMsgsPerSubject, parts.DiscardNewPerSubject = 1, true // a name has one content
	return entries, parts
}

// GroupLogs creates and opens the logs of groups. It is valid as long as its connection.
type GroupLogs struct{ c *Conn }

// GroupLogs returns the logs of groups on the servers.
func (c *Conn) GroupLogs() GroupLogs { return GroupLogs{c} }

// Create creates the log of a new group, whose first member makes it. bytes are to be reserved for each of its two
// streams; less if the servers cannot; 0 for no bound. The error is ErrGroupExists if there is one; a repetition with
// the same incarnation succeeds.
func (g GroupLogs) Create(ctx context.Context, group string, incarnation log.ID, bytes int64) (*GroupLog, error) {
	c := g.c
	l := &GroupLog{c: c, group: wire.Token(group), incarnation: incarnation}
	if bytes == 0 {
		bytes = -1
	}
	began := time.Now()
	for {
		err := c.patiently(ctx, func() error { return problem(l.create(ctx, bytes)) })
		switch {
		case err == nil:
			return g.Open(ctx, group)
		case isCode(err, codeNoPeers) && time.Since(began) < peersPatience: // servers that are just starting
			if sleep.For(ctx, leaderPoll) != nil {
				return nil, context.Cause(ctx)
			}
		case noSpace(err) && !isCode(err, codeNoPeers) && bytes/2 >= leastBytes:
			bytes /= 2
		case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse):
			there, err := g.Open(ctx, group)
			if err == nil && there.incarnation != incarnation {
				err = fmt.Errorf("group %q: %w", group, ErrGroupExists)
			}
			return there, err
		default:
			return nil, fmt.Errorf("creating the log of the group %q: %w", group, err)
		}
	}
}

// Remove removes the log of a group, with everything that it has. It is no error if there is none.
func (g GroupLogs) Remove(ctx context.Context, group string) error {
	token := wire.Token(group)
	for _, name := range []string{logStream(token), partsStream(token)} { // without the first one there is no group
		err := g.c.patiently(ctx, func() error {
			ctx, cancel := g.c.bounded(ctx)
			defer cancel()
			return problem(g.c.js.DeleteStream(ctx, name))
		})
		if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) && !errors.Is(err, wire.ErrNotFound) {
			return fmt.Errorf("removing the log of the group %q: %w", group, err)
		}
	}
	return nil
}

// create creates the streams, the one of the entries last: without it there is no group. A cluster that has too few
// servers for three replicas gets none: a log with one replica would be lost with its server.
func (l *GroupLog) create(ctx context.Context, bytes int64) error {
	c := l.c
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	entries, parts := l.logConfig(c.topology.replicas(logStream(l.group)), bytes)
	if _, err := c.js.CreateStream(ctx, parts); err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return err
	}
	_, err := c.js.CreateStream(ctx, entries)
	return err
}

// Open opens the log of a group. The error wraps ErrNoGroup if there is none, and says which setting of its streams
// is not safe.
func (g GroupLogs) Open(ctx context.Context, group string) (*GroupLog, error) {
	l := &GroupLog{c: g.c, group: wire.Token(group)}
	var entries jetstream.StreamConfig
	err := g.c.patiently(ctx, func() (err error) {
		entries, err = l.open(ctx, logStream(l.group))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("opening the log of the group %q: %w", group, err)
	}
	if err := l.incarnation.Parse(entries.Metadata[metadataIncarnation]); err != nil || l.incarnation == (log.ID{}) {
		return nil, fmt.Errorf("opening the log of the group %q: the stream %s does not say of which incarnation it is "+
			"(its metadata lack %s): Millipede has not created it", group, entries.Name, metadataIncarnation)
	}
	if _, err := l.open(ctx, partsStream(l.group)); err != nil {
		return nil, fmt.Errorf("opening the log of the group %q: %w", group, err)
	}
	return l, nil
}

// open checks a stream of a log.
func (l *GroupLog) open(ctx context.Context, name string) (have jetstream.StreamConfig, err error) {
	ctx, cancel := l.c.bounded(ctx)
	defer cancel()
	s, err := l.c.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return have, ErrNoGroup
	}
	if err != nil {
		return have, problem(err)
	}
	have = s.CachedInfo().Config
	entries, parts := l.logConfig(have.Replicas, have.MaxBytes)
	want := entries
	if name == parts.Name {
		want = parts
	}
	why := ""
	switch {
	case have.Retention != want.Retention || have.Discard != want.Discard || have.MaxAge != 0 || have.MaxMsgs > 0 ||
		have.MaxMsgsPerSubject != want.MaxMsgsPerSubject:
		why = "it drops messages; it needs retention limits, discard new, no max_age, no max_msgs"
	case have.Storage != want.Storage:
		why = "it is kept in memory"
	case have.AllowDirect || have.MirrorDirect:
		why = "replicas that are behind answer for it (allow_direct)"
	case want.DenyDelete && !have.DenyDelete:
		why = "single messages can be deleted; it needs deny_delete"
	case len(have.Sources) > 0 || have.Mirror != nil:
		why = "it is filled from another stream"
	}
	if why != "" {
		return have, fmt.Errorf("the stream %s is no log: %s", name, why)
	}
	return have, nil
}

// Incarnation returns the incarnation of the group, as its maker has recorded it.
func (l *GroupLog) Incarnation() log.ID { return l.incarnation }

// logProblem turns errors into those of package log.
func logProblem(err error) error {
	switch err = problem(err); {
	case errors.Is(err, wire.ErrNotFound):
		return fmt.Errorf("%w: %w", log.ErrNone, err)
	case temporary(err), errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %w", log.ErrUnanswered, err)
	}
	return err
}

// wrongLast is how the server begins the text of a refusal that names the last sequence.
const wrongLast = "wrong last sequence: "

// Append implements log.Transport.
func (l *GroupLog) Append(ctx context.Context, store string, expected uint64, entry []byte) (uint64, error) {
	if err := l.c.opts.trouble(); err != nil {
		return 0, fmt.Errorf("%w: %w", log.ErrUnanswered, err)
	}
	ctx, cancel := context.WithTimeout(ctx, l.c.tryFor())
	defer cancel()
	m := &nats.Msg{Subject: l.subject(store), Data: entry}
	// No message ID: the server would take a repetition for a duplicate, and acknowledge what it has not stored.
	ack, err := l.c.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0),
		jetstream.WithExpectLastSequencePerSubject(expected), jetstream.WithExpectStream(logStream(l.group)))
	if err == nil {
		return ack.Sequence, nil
	}
	if apiErr := (*jetstream.APIError)(nil); errors.As(err, &apiErr) {
		switch apiErr.ErrorCode {
		case jetstream.JSErrCodeStreamWrongLastSequence:
			text, named := strings.CutPrefix(apiErr.Description, wrongLast)
			if last, err := strconv.ParseUint(text, 10, 64); named && err == nil {
				return 0, &log.Refused{Last: last}
			}
			return 0, fmt.Errorf("%w: %w", log.ErrUndecided, err)
		case jetstream.JSErrCodeStreamWrongLastSequenceConstant:
			return 0, fmt.Errorf("%w: %w", log.ErrUndecided, err)
		}
		if reachedBound(err) {
			return 0, fmt.Errorf("%w: %s (%w)", log.ErrUnanswered, fullText(logStream(l.group), ""), err)
		}
	}
	// An answer about the storage is none about the entry: an earlier copy of it may be in flight.
	return 0, fmt.Errorf("%w: %w", log.ErrUnanswered, problem(err))
}

const (
	// logPoll is the interval at which Next looks for an entry that nobody has announced.
	logPoll = 100 * time.Millisecond
	// logSoon is the first pause after an entry was announced: it is published before it is stored. Each further pause
	// is twice as long.
	logSoon = time.Millisecond
)

// Next implements log.Transport. It asks the stream's leader. While it waits, it hears the entries that are published,
// before they are stored or refused, and asks again then.
func (l *GroupLog) Next(ctx context.Context, store string, from uint64, wait time.Duration) (uint64, []byte, error) {
	subject := l.subject(store)
	query := map[string]any{"seq": max(from, 1), "next_by_subj": subject}
	sequence, data, err := l.get(ctx, logStream(l.group), query)
	if !errors.Is(err, log.ErrNone) || wait <= 0 {
		return sequence, data, err
	}
	until := time.Now().Add(wait)
	announced, err := l.c.nc.SubscribeSync(subject)
	if err != nil {
		return 0, nil, logProblem(err)
	}
	defer l.c.unsubscribe(announced) //nolint:errcheck // it ends with the connection at the latest
	pause := logPoll
	for {
		sequence, data, err := l.get(ctx, logStream(l.group), query)
		if !errors.Is(err, log.ErrNone) || time.Now().After(until) {
			return sequence, data, err
		}
		if pause < logPoll {
			pause *= 2
			if err := sleep.For(ctx, min(pause, max(time.Until(until), logSoon))); err != nil {
				return 0, nil, fmt.Errorf("%w: %w", log.ErrUnanswered, err)
			}
			continue
		}
		hear, cancel := context.WithTimeout(ctx, min(logPoll, max(time.Until(until), logSoon)))
		_, err = announced.NextMsgWithContext(hear)
		cancel()
		if err == nil {
			pause = logSoon
		}
		if ctx.Err() != nil {
			return 0, nil, fmt.Errorf("%w: %w", log.ErrUnanswered, context.Cause(ctx))
		}
	}
}

// get reads a message from the leader of a stream.
func (l *GroupLog) get(ctx context.Context, stream string, query map[string]any) (uint64, []byte, error) {
	m, err := l.c.getMessage(ctx, stream, query)
	if err != nil {
		return 0, nil, logProblem(err)
	}
	return m.Sequence, m.Data, nil
}

// Purge implements log.Transport.
func (l *GroupLog) Purge(ctx context.Context, horizon uint64) error {
	if err := ctx.Err(); err != nil {
		return logProblem(err)
	}
	if horizon <= 1 {
		return nil // 0 would mean all of it
	}
	return l.purge(ctx, logStream(l.group), jetstream.WithPurgeSequence(horizon))
}

func (l *GroupLog) purge(ctx context.Context, stream string, what jetstream.StreamPurgeOpt) error {
	ctx, cancel := l.c.bounded(ctx)
	defer cancel()
	s, err := l.c.js.Stream(ctx, stream)
	if err == nil {
		err = s.Purge(ctx, what)
	}
	if err != nil {
		return fmt.Errorf("purging %s: %w", stream, logProblem(err))
	}
	return nil
}

// Put implements log.Transport.
func (l *GroupLog) Put(ctx context.Context, name string, part []byte) error {
	if len(part) > log.MaxPart {
		return fmt.Errorf("the part %s has %d bytes, more than %d", name, len(part), log.MaxPart)
	}
	if err := ctx.Err(); err != nil {
		return logProblem(err)
	}
	m := &nats.Msg{Subject: l.part(name), Data: part}
	err := l.c.store(ctx, m, jetstream.WithExpectStream(partsStream(l.group)))
	if conflict(err) {
		return nil // it is there already, or was stored by a try whose answer was lost
	}
	if err != nil {
		return fmt.Errorf("storing the part %s: %w", name, logProblem(err))
	}
	return nil
}

// Get implements log.Transport.
func (l *GroupLog) Get(ctx context.Context, name string) ([]byte, error) {
	_, data, err := l.get(ctx, partsStream(l.group), map[string]any{"last_by_subj": l.part(name)})
	if err != nil {
		return nil, fmt.Errorf("reading the part %s: %w", name, err)
	}
	return data, nil
}

// List implements log.Transport.
func (l *GroupLog) List(ctx context.Context, prefix string) ([]string, error) {
	ctx, cancel := l.c.bounded(ctx)
	defer cancel()
	s, err := l.c.js.Stream(ctx, partsStream(l.group))
	if err != nil {
		return nil, logProblem(err)
	}
	filter := l.parts() + ">"
	if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
		filter = l.part(prefix[:i]) + ".>"
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return nil, logProblem(err)
	}
	var names []string
	for subject := range info.State.Subjects {
		tokens := strings.Split(strings.TrimPrefix(subject, l.parts()), ".")
		for i, t := range tokens {
			if tokens[i], err = wire.Untoken(t); err != nil {
				return nil, fmt.Errorf("the parts of the log have the subject %s, which is not ours: %w", subject, err)
			}
		}
		if name := strings.Join(tokens, "/"); strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names, nil
}

// Remove implements log.Transport.
func (l *GroupLog) Remove(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return logProblem(err)
	}
	return l.purge(ctx, partsStream(l.group), jetstream.WithPurgeSubject(l.part(name)))
}
