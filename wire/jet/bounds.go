package jet

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/wire"
)

// Each stream on an external server has a bound in bytes, so that none can fill the storage that all share. JetStream
// reserves the bytes of a stream that has a bound, and refuses a further stream rather than let reserved bytes run out.
// A full stream refuses messages (discard new). See docs/adr/0027.
//
// Streams of an embedded server have no bounds: only one process can reach them.

// bound is how much a stream may hold: bytes on a server with enough storage, and the largest message.
type bound struct{ bytes, message int64 }

const (
	mib = 1 << 20
	// ampleStorage is the storage for which the bounds are made, in bytes: that of deploy/nats, for six pools. An account
	// that may store less gets its part of each bound.
	ampleStorage = 20 << 30
	// leastBytes is the least bound of a stream in bytes.
	leastBytes = 8 * mib
)

func boundOf(stream string) bound {
	_, kind := poolOf(stream)
	switch kind {
	case registersOfPool:
		return bound{256 * mib, 16 << 10}
	case keysOfPool:
		return bound{64 * mib, 16 << 10}
	case tasksOfPool, resultsOfPool:
		return bound{256 * mib, mib}
	case blobsOfPool:
		return bound{1024 * mib, 0}
	}
	switch stream {
	case settingsStream:
		return bound{leastBytes, 64 << 10}
	case admitStream:
		return bound{64 * mib, 16 << 10}
	case bucket{name: blobBucket}.stream():
		return bound{6 * 1024 * mib, 0}
	}
	return bound{}
}

// share returns the part of a bound that a stream gets. The caller has the token of making.
func (t *topology) share(ctx context.Context, stream string, bytes int64, replicas int) int64 {
	store := t.c.regions.storage(stream)
	allowed, err := store.allowed.get(func() (int64, error) { return t.c.allowedBytes(ctx, stream, replicas) })
	if err != nil || allowed < 0 {
		allowed = ampleStorage
	}
	if store.found > 0 {
		allowed = min(allowed, store.found)
	}
	return part(bytes, allowed)
}

// part returns the part of a bound for storage of that many bytes.
func part(bytes, storage int64) int64 {
	if storage >= ampleStorage {
		return bytes
	}
	return max(bytes/1024*(storage/(ampleStorage/1024)), leastBytes)
}

// allowedBytes asks how many bytes this account may store, of streams with that many replicas; -1 for any number.
func (c *Conn) allowedBytes(ctx context.Context, stream string, replicas int) (int64, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	info, err := c.regions.at(stream).AccountInfo(ctx)
	if err != nil {
		return -1, problem(err)
	}
	if tier, ok := info.Tiers[fmt.Sprintf("R%d", replicas)]; ok { // its bytes are those of one replica
		return tier.Limits.MaxStore, nil
	}
	if info.Limits.MaxStore < 0 {
		return -1, nil
	}
	return info.Limits.MaxStore / int64(max(replicas, 1)), nil
}

// noSpace reports whether the server refuses a stream, or a bound, because it cannot reserve the bytes.
func noSpace(err error) bool {
	return isCode(err, codeStorageExceeded) || isCode(err, codeInsufficient) || isCode(err, codeNoPeers)
}

func isCode(err error, code jetstream.ErrorCode) bool {
	apiErr := (*jetstream.APIError)(nil)
	return errors.As(err, &apiErr) && apiErr.ErrorCode == code
}

// within calls make with the bound of a stream, or with its part of the storage that the server can still reserve, if
// that is less. The server does not report that amount, so within tries ever smaller bounds. One stream is made at a
// time, because until its bound is lowered to its part it has all the storage. If another process does the same, within
// waits for its end.
func (t *topology) within(ctx context.Context, stream string, replicas int, make func(bytes int64) error) error {
	b := boundOf(stream)
	if t.c.opts.inProcess != nil || b.bytes == 0 {
		return make(-1)
	}
	making := t.c.regions.storage(stream).making
	select {
	case making <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-making }()
	err := t.fit(ctx, stream, b, replicas, make)
	for range 5 {
		if !noSpace(err) || isCode(err, codeNoPeers) || sleep.For(ctx, topologyPoll) != nil {
			break
		}
		err = t.fit(ctx, stream, b, replicas, make)
	}
	if noSpace(err) && !isCode(err, codeNoPeers) {
		err = fmt.Errorf("NATS has reserved all of its storage for other streams: raise max_file_store, or lower their "+
			"bounds (nats stream edit --max-bytes): %w", err)
	}
	return err
}

// fit is one attempt of within.
func (t *topology) fit(ctx context.Context, stream string, b bound, replicas int, make func(bytes int64) error) error {
	bytes := t.share(ctx, stream, b.bytes, replicas)
	err := make(bytes)
	for bytesLeft := bytes / 2; bytesLeft >= leastBytes && noSpace(err); bytesLeft /= 2 {
		if err = make(bytesLeft); err != nil {
			continue
		}
		t.c.regions.storage(stream).found = bytesLeft
		if bytes = min(part(b.bytes, bytesLeft), bytesLeft); bytes < bytesLeft {
			if bytes, err = t.lower(ctx, stream, bytes); err != nil {
				return err
			}
		}
		t.c.opts.Log(fmt.Sprintf("NATS has not enough storage for a stream %s of %d MiB: it holds %d MiB. Raise "+
			"max_file_store, and give the stream more (nats stream edit --max-bytes).", stream, b.bytes/mib, bytes/mib))
		return nil
	}
	if noSpace(err) && !isCode(err, codeNoPeers) {
		if err = make(-1); err == nil {
			t.c.opts.Log(fmt.Sprintf("NATS has no storage left to reserve for stream %s, which gets no bound: it may "+
				"fill the storage that all share. Raise max_file_store, or lower the bounds of other streams, and give "+
				"this one a bound (nats stream edit --max-bytes).", stream))
		}
	}
	return err
}

// lower lowers the bound of a stream that was just made, but not below twice what it holds. It returns the new bound.
func (t *topology) lower(ctx context.Context, stream string, bytes int64) (int64, error) {
	js := t.c.regions.at(stream)
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	cfg := s.CachedInfo().Config
	cfg.MaxBytes = max(bytes, 2*int64(min(s.CachedInfo().State.Bytes, 1<<60))) //nolint:gosec // bounded
	_, err = js.UpdateStream(ctx, cfg)
	return cfg.MaxBytes, err
}

// bind gives a stream of an earlier version, which has no bound, the one that it would get today. A bound that somebody
// has chosen stays.
func (t *topology) bind(ctx context.Context, s jetstream.Stream) (jetstream.Stream, error) {
	info := s.CachedInfo()
	cfg, b := info.Config, boundOf(info.Config.Name)
	if !t.c.opts.Provision || t.c.opts.inProcess != nil || b.bytes == 0 || cfg.MaxBytes > 0 {
		return s, nil
	}
	if _, kind := poolOf(cfg.Name); kind == keysOfPool {
		cfg.Discard = jetstream.DiscardNew // a full stream would drop keys
	}
	if b.message > 0 && cfg.MaxMsgSize <= 0 {
		cfg.MaxMsgSize = int32(b.message) //nolint:gosec // at most 1 MiB
	}
	err := t.within(ctx, cfg.Name, cfg.Replicas, func(bytes int64) error {
		if bytes < 0 {
			return nil
		}
		cfg.MaxBytes = max(bytes, 2*int64(min(info.State.Bytes, 1<<60))) //nolint:gosec // bounded
		updated, err := t.c.regions.at(cfg.Name).UpdateStream(ctx, cfg)
		if err == nil {
			s = updated
		}
		return err
	})
	if err != nil {
		t.c.opts.Log(fmt.Sprintf("stream %s keeps no bound, so it may fill the storage that all share: %s", cfg.Name,
			err))
	}
	return s, nil
}

// full returns the text about a stream that accepts no more messages; empty for one that accepts them.
func full(info *jetstream.StreamInfo) string {
	limit := info.Config.MaxBytes
	if limit <= 0 {
		return ""
	}
	margin := max(boundOf(info.Config.Name).message, 1<<10)
	if int64(min(info.State.Bytes, 1<<62))+margin <= limit { //nolint:gosec // bounded
		return ""
	}
	return fullText(info.Config.Name, fmt.Sprintf(" (%d of %d bytes)", info.State.Bytes, limit))
}

// fullText says that a stream is full, with advice for the user.
func fullText(stream, state string) string {
	pool, kind := poolOf(stream)
	name, err := wire.Untoken(pool)
	if err != nil {
		name = pool
	}
	switch kind {
	case resultsOfPool:
		return fmt.Sprintf("stream %s with the results of pool %q is full%s. Results of runs that have not ended may "+
			"fill it (coordinator runs list, runs resume), or a worker of the pool that publishes results that nobody has "+
			"requested (nats stream subjects %s). Remove those (nats stream purge --subject), or give the stream more room "+
			"(nats stream edit --max-bytes)", stream, name, state, stream)
	case tasksOfPool:
		return fmt.Sprintf("stream %s with the tasks of pool %q is full%s. Its workers may be stopped, or have been for "+
			"long. Start them, or give the stream more room (nats stream edit --max-bytes)", stream, name, state)
	case registersOfPool, keysOfPool:
		return fmt.Sprintf("stream %s of pool %q is full%s. The messages of runs are removed an hour after their end. "+
			"End the runs (coordinator runs list, runs resume), or give the stream more room (nats stream edit "+
			"--max-bytes)", stream, name, state)
	}
	return fmt.Sprintf("stream %s is full%s: give it more room (nats stream edit --max-bytes)", stream, state)
}
