package jet

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/wire"
)

// Objects are read by requests alone. The client's own way is a push consumer, which needs the right to create
// consumers; and a client with that right can have the server send arbitrary messages to any subject, tasks included.
// It does not work across accounts either.

func (b bucket) stream() string { return "OBJ_" + b.name }

// info returns the stream leader's information about an object, or wire.ErrNotFound.
func (b bucket) info(ctx context.Context, name string) (*jetstream.ObjectInfo, error) {
	m, err := b.c.lastMessage(ctx, b.stream(), b.description(name))
	if err != nil {
		return nil, err
	}
	info := new(jetstream.ObjectInfo)
	if err := json.Unmarshal(m.Data, info); err != nil {
		return nil, fmt.Errorf("reading what is stored as %s: %w", name, err)
	}
	if info.Deleted {
		return nil, wire.ErrNotFound
	}
	return info, nil
}

// whole reports whether the stream's leader has all parts of an object. The object store's own Put, which earlier
// versions used, publishes parts and description without waiting for each other; when it misses an acknowledgment, it
// removes the parts, though the description may be stored.
func (b bucket) whole(ctx context.Context, info *jetstream.ObjectInfo) (bool, error) {
	if info.Chunks == 0 {
		return true, nil
	}
	parts := b.parts(info)
	body, err := json.Marshal(map[string]any{"subjects_filter": parts})
	if err != nil {
		return false, err
	}
	answer, err := b.c.request(ctx, b.c.regions.apiPrefix(b.stream())+"STREAM.INFO."+b.stream(), body)
	if err != nil {
		return false, err
	}
	var got struct {
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &got); err != nil {
		return false, fmt.Errorf("reading the answer of stream %s: %w", b.stream(), err)
	}
	if got.Error != nil {
		return false, problem(got.Error)
	}
	return got.State.Subjects[parts] >= uint64(info.Chunks), nil
}

// objects returns the names of the objects, deleted ones included.
func (b bucket) objects(ctx context.Context) ([]string, error) {
	s, err := b.c.topology.existing(ctx, b.stream())
	if err != nil || s == nil {
		return nil, err
	}
	ctx, cancel := b.c.bounded(ctx)
	defer cancel()
	all := b.descriptions()
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(all+"*"))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, problem(err)
	}
	names := make([]string, 0, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		name, err := base64.URLEncoding.DecodeString(strings.TrimPrefix(subject, all))
		if err != nil {
			continue // no client has stored it
		}
		names = append(names, string(name))
	}
	return names, nil
}

// remove deletes an object that nobody stores any more; it need not exist. The object store's own Delete leaves a
// message for each deleted object in the stream, for ever: a service would have some for each run that it executed.
// A crash in between leaves an object without parts, which counts as not found.
func (b bucket) remove(ctx context.Context, name string) error {
	info, err := b.info(ctx, name)
	if err != nil && !errors.Is(err, wire.ErrNotFound) {
		return err
	}
	if info != nil {
		if err := b.c.topology.purge(ctx, b.stream(), b.parts(info)); err != nil {
			return err
		}
	}
	return b.c.topology.purge(ctx, b.stream(), b.description(name))
}

// descriptions is the prefix of the subjects of the objects' descriptions; description is the subject of one.
func (b bucket) descriptions() string { return "$O." + b.name + ".M." }
func (b bucket) description(name string) string {
	return b.descriptions() + base64.URLEncoding.EncodeToString([]byte(name))
}

// parts is the subject of an object's parts.
func (b bucket) parts(info *jetstream.ObjectInfo) string { return "$O." + b.name + ".C." + info.NUID }

// put stores an object, in place of one with this name. Each part is stored before the next is sent, and the
// description comes last. The client's own Put sends all of them at once: on a slow line, the acknowledgment of the
// last one came too late; and when it misses one, it removes the parts, though the description may be stored.
func (b bucket) put(ctx context.Context, name string, data []byte) error {
	if err := b.open(ctx); err != nil {
		return err
	}
	var was *jetstream.ObjectInfo
	err := patiently(ctx, func() (err error) {
		was, err = b.info(ctx, name)
		return err
	})
	if err != nil && !errors.Is(err, wire.ErrNotFound) {
		return err
	}
	size := max(1, min(maxPart, b.c.nc.MaxPayload()/2))
	info := &jetstream.ObjectInfo{Bucket: b.name, NUID: rand.Text(), Size: uint64(len(data)),
		ObjectMeta: jetstream.ObjectMeta{Name: name,
			Opts: &jetstream.ObjectMetaOptions{ChunkSize: uint32(size)}}} //nolint:gosec // bounded
	digest := sha256.New()
	digest.Write(data)
	info.Digest = jetstream.GetObjectDigestValue(digest)
	drop := func(of *jetstream.ObjectInfo) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropWithin)
		defer cancel()
		_ = b.c.topology.purge(ctx, b.stream(), b.parts(of)) // parts without a description only take space
	}
	for part := range slices.Chunk(data, int(size)) {
		info.Chunks++
		m := &nats.Msg{Subject: b.parts(info), Data: part}
		id := jetstream.WithMsgID(fmt.Sprint(info.NUID, "-", info.Chunks))
		if err := patiently(ctx, func() error { return b.c.store(ctx, m, id) }); err != nil {
			drop(info)
			return err
		}
	}
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	m := &nats.Msg{Subject: b.description(name), Data: text, Header: nats.Header{
		jetstream.MsgRollup: {jetstream.MsgRollupSubject}}}
	if err := patiently(ctx, func() error { return b.c.store(ctx, m) }); err != nil {
		return err // it may be stored all the same, so the parts stay
	}
	if was != nil {
		drop(was)
	}
	return nil
}

const (
	// maxPart is how many bytes a part of an object has at most. NATS limits messages to 1 MiB by default.
	maxPart = 512 << 10
	// tries is for how many time-outs a part of an object is waited for, before the server counts as not answering.
	tries = 3
	// dropWithin is how long the removal of parts may take, after an interrupt as well.
	dropWithin = time.Second
	// chunkBatch is how many bytes of an object one request may bring.
	chunkBatch = 4 << 20
	// replicaPause is how long a replica is given to catch up.
	replicaPause = 20 * time.Millisecond
)

// read returns an object's content, unless ok returns an error for its size. If the leader has no part of the object,
// it counts as not found; see whole.
func (b bucket) read(ctx context.Context, name string, ok func(bytes int64) error) ([]byte, error) {
	info, err := b.info(ctx, name)
	for err == nil {
		data, failure := b.content(ctx, info, ok)
		if !errors.Is(failure, wire.ErrNotFound) {
			return data, failure
		}
		was := info.NUID
		if info, err = b.info(ctx, name); err == nil && info.NUID == was {
			return nil, failure
		} // otherwise another client has stored the object again, and removed the parts of before
	}
	return nil, err
}

// content returns the content of an object. The parts come from any replica, which may be behind the leader for a
// while. A batch that breaks off, because the line is slow or a server has stopped, is continued at the next part.
func (b bucket) content(ctx context.Context, info *jetstream.ObjectInfo, ok func(bytes int64) error) (data []byte,
	err error) {
	if info.Size > wire.MaxMessage+chunkBatch {
		return nil, fmt.Errorf("it has %d bytes, which is more than anybody stores", info.Size)
	}
	if err := ok(int64(info.Size)); err != nil { //nolint:gosec // bounded
		return nil, err
	}
	data = make([]byte, 0, info.Size)
	next, asked := uint64(1), false
	arrived := time.Now()
	for uint64(len(data)) < info.Size {
		had := len(data)
		data, next, err = b.readOn(ctx, b.parts(info), data, next)
		unanswered := errors.Is(err, wire.ErrUnanswered) && ctx.Err() == nil
		if err != nil && (!unanswered || len(data) == had && time.Since(arrived) >= tries*b.c.opts.Timeout) {
			return nil, err
		}
		if len(data) == 0 && !unanswered && !asked {
			asked = true
			if _, err := b.c.lastMessage(ctx, b.stream(), b.parts(info)); err != nil {
				return nil, err
			}
		}
		switch {
		case uint64(len(data)) > info.Size:
			return nil, fmt.Errorf("it has more than the %d bytes that it should have", info.Size)
		case len(data) > had:
			arrived = time.Now()
			continue
		case !unanswered && time.Since(arrived) > b.c.opts.Timeout:
			return nil, fmt.Errorf("%d of its %d bytes are missing", info.Size-uint64(len(data)), info.Size)
		}
		if sleep.For(ctx, replicaPause) != nil {
			return nil, ctx.Err()
		}
	}
	return data, nil
}

// patiently repeats a request while the server does not answer it, within the patience for a part of an object. A
// server that refuses to store it has answered.
func patiently(ctx context.Context, request func() error) (err error) {
	for range tries {
		err = request()
		refusal := (*jetstream.APIError)(nil)
		silent := errors.Is(err, wire.ErrUnanswered) || errors.Is(err, wire.ErrStore) && !errors.As(err, &refusal)
		if !silent || ctx.Err() != nil {
			break
		}
	}
	return err
}

// readOn appends a batch of an object's parts, from the message next on, to data. Each part has the request time-out to
// arrive. With an error, data and next are those of the parts that did.
func (b bucket) readOn(ctx context.Context, parts string, data []byte, next uint64) ([]byte, uint64, error) {
	sub, err := b.c.nc.SubscribeSync(b.c.nc.NewInbox())
	if err != nil {
		return data, next, problem(err)
	}
	defer b.c.unsubscribe(sub) //nolint:errcheck // it ends with the connection at the latest
	ask, err := json.Marshal(map[string]any{"seq": next, "next_by_subj": parts, "batch": 1000,
		"max_bytes": chunkBatch})
	if err != nil {
		return data, next, err
	}
	subject := b.c.regions.apiPrefix(b.stream()) + "DIRECT.GET." + b.stream()
	if err := b.c.nc.PublishRequest(subject, sub.Subject, ask); err != nil {
		return data, next, problem(err)
	}
	for {
		one, cancel := b.c.bounded(ctx)
		m, err := sub.NextMsgWithContext(one)
		cancel()
		if err != nil {
			return data, next, b.c.denied(problem(err), subject)
		}
		switch status := m.Header.Get("Status"); status {
		case "":
		case "204", "404": // the end of the batch; nothing of the object here
			return data, next, nil
		case "503":
			return data, next, problem(nats.ErrNoResponders)
		default:
			return data, next, errors.New("the server answers " + status + " " + m.Header.Get("Description"))
		}
		sequence, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
		if err != nil || sequence < next {
			return data, next, fmt.Errorf("a part of it has the sequence %q", m.Header.Get(jetstream.SequenceHeader))
		}
		data, next = append(data, m.Data...), sequence+1
	}
}
