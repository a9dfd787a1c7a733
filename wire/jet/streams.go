package jet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/wire"
)

// The streams. docs/format/wire.md explains each setting.
const (
	admitStream = "ADMIT"
	blobBucket  = "BLOB"

	// The registers and the keys of each pool are in streams of their own, because permissions to read a stream cannot be
	// limited to subjects; the results are, because the bytes of a stream can be limited, and those of a subject cannot;
	// the tasks are, because all that a pool needs can then be in the store of its region.
	tasksPrefix   = "TASKS-"
	claimsPrefix  = "CLAIMS-"
	keysPrefix    = "KEYS-"
	resultsPrefix = "RESULTS-"
)

func tasksStream(pool string) string   { return tasksPrefix + wire.Token(pool) }
func claimsStream(pool string) string  { return claimsPrefix + wire.Token(pool) }
func keysStream(pool string) string    { return keysPrefix + wire.Token(pool) }
func resultsStream(pool string) string { return resultsPrefix + wire.Token(pool) }

// kind is the content of a pool's stream.
type kind byte

const (
	ofNoPool kind = iota
	tasksOfPool
	registersOfPool
	keysOfPool
	resultsOfPool
	blobsOfPool
)

// poolOf returns the token of the pool that a stream belongs to, and the kind of the stream. For blobs the name of the
// pool is coded as in names of buckets.
func poolOf(stream string) (pool string, k kind) {
	for k, prefix := range map[kind]string{tasksOfPool: tasksPrefix, registersOfPool: claimsPrefix,
		keysOfPool: keysPrefix, resultsOfPool: resultsPrefix, blobsOfPool: bucket{name: blobBucket}.stream() + "_"} {
		if pool, ok := strings.CutPrefix(stream, prefix); ok {
			return pool, k
		}
	}
	return "", ofNoPool
}

// streamOf returns the stream that stores the messages of a subject; empty for a subject of which nothing is stored.
func streamOf(subject string) string {
	t := strings.SplitN(subject, ".", 3)
	if subject == settingsSubject || t[0]+"." == leftPrefix {
		return settingsStream
	}
	if len(t) < 2 {
		return ""
	}
	switch t[0] {
	case "admit":
		return admitStream
	case "task":
		return tasksPrefix + t[1]
	case "claim", "done":
		return claimsPrefix + t[1]
	case "key":
		return keysPrefix + t[1]
	case "result":
		return resultsPrefix + t[1]
	case "log":
		return logStream(t[1])
	case "logpart":
		return partsStream(t[1])
	case "$O":
		return bucket{name: t[1]}.stream()
	}
	return ""
}

const (
	// A message is delivered again after this time if the server or the process that had it died. A process needs some ten
	// milliseconds before it acknowledges; a message that arrives twice costs one read of a register.
	taskAckWait   = 5 * time.Second
	resultAckWait = 3 * time.Second
	permitAckWait = 5 * time.Second
	// dedupWindow is how long the server recognizes a duplicate. That saves work, and nothing depends on it.
	dedupWindow = 2 * time.Minute
	// maxUnacked is far above the number of unacknowledged messages of a pool's workers or a coordinator.
	maxUnacked = 20_000
)

// storage is where streams are kept.
func (o Options) storage() jetstream.StorageType {
	if o.volatile {
		return jetstream.MemoryStorage
	}
	return jetstream.FileStorage
}

func streamConfig(name string, replicas int, storage jetstream.StorageType) jetstream.StreamConfig {
	cfg := jetstream.StreamConfig{
		Name: name, Storage: storage, Replicas: replicas,
		Discard: jetstream.DiscardNew, MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxConsumers: -1,
		MaxMsgSize: -1,
		Duplicates: dedupWindow,
	}
	switch pool, kind := poolOf(name); kind {
	case registersOfPool:
		cfg.Subjects = []string{"claim." + pool + ".>", "done." + pool + ".*"}
		cfg.MaxMsgsPerSubject, cfg.DiscardNewPerSubject, cfg.DenyDelete = 1, true, true
		return cfg
	case keysOfPool:
		cfg.Subjects = []string{"key." + pool + ".>"}
		cfg.MaxMsgsPerSubject = 1
		return cfg
	case tasksOfPool:
		cfg.Subjects, cfg.Retention = []string{"task." + pool + ".>"}, jetstream.WorkQueuePolicy
		cfg.AllowMsgTTL = true // see taskLife
		return cfg
	case resultsOfPool:
		cfg.Subjects, cfg.Retention = []string{"result." + pool + ".>"}, jetstream.WorkQueuePolicy
		return cfg
	}
	switch name {
	case settingsStream:
		cfg.Subjects, cfg.MaxMsgsPerSubject = []string{settingsSubject, leftPrefix + "*.*"}, 1
	case admitStream:
		cfg.Subjects, cfg.Retention = []string{"admit.>"}, jetstream.WorkQueuePolicy
	}
	return cfg
}

// checkStream returns an error if a stream that somebody created by hand lacks a setting that the protocol needs.
func checkStream(have jetstream.StreamConfig, storage jetstream.StorageType) error {
	want := streamConfig(have.Name, have.Replicas, storage)
	_, kind := poolOf(have.Name)
	switch {
	case have.Retention != want.Retention:
		return fmt.Errorf("stream %s has retention %s instead of %s", have.Name, have.Retention, want.Retention)
	case have.Storage != storage:
		return fmt.Errorf("stream %s is kept in memory: what it acknowledged would be lost with the server", have.Name)
	case kind == registersOfPool && (have.MaxMsgsPerSubject != 1 || !have.DiscardNewPerSubject ||
		have.Discard != jetstream.DiscardNew):
		return fmt.Errorf("stream %s is not write-once: it needs max_msgs_per_subject 1, discard new, "+
			"discard_new_per_subject", have.Name)
	case have.MaxAge != 0:
		return fmt.Errorf("stream %s drops messages after %s", have.Name, have.MaxAge)
	}
	return nil
}

// topology keeps the handles of streams and consumers, each made on its first use.
type topology struct {
	c         *Conn
	mu        sync.Mutex // guards the maps
	streams   map[string]*lazy[jetstream.Stream]
	consumers map[string]*lazy[jetstream.Consumer]
	buckets   map[string]*lazy[jetstream.ObjectStore]

	looked map[string]time.Time // when a consumer was last looked at; mu guards it
	short  time.Time            // since when the cluster has lacked servers for a new stream; mu guards it

	listing sync.Mutex // held while the server is asked for the names of all streams; it guards the fields below
	listed  time.Time
	others  []string // the names that the server listed
}

func (t *topology) init(c *Conn) {
	t.c = c
	t.streams = map[string]*lazy[jetstream.Stream]{}
	t.consumers = map[string]*lazy[jetstream.Consumer]{}
	t.buckets = map[string]*lazy[jetstream.ObjectStore]{}
	t.looked = map[string]time.Time{}
}

// names returns the names of the streams that this connection uses.
func (t *topology) names() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.streams))
}

// listEvery is for how long the names of the streams that others use are good. A stream that this connection uses, as
// that of every pool of its runs, is always listed.
const listEvery = 10 * time.Second

// list returns the names of all streams of the connected server, those of the pools with a store of their own, and some
// that do not exist.
func (t *topology) list(ctx context.Context) ([]string, error) {
	t.listing.Lock()
	defer t.listing.Unlock()
	if now := time.Now(); t.listed.IsZero() || now.Sub(t.listed) >= listEvery {
		ctx, cancel := t.c.bounded(ctx)
		defer cancel()
		var names []string
		list := t.c.js.StreamNames(ctx)
		for name := range list.Name() {
			names = append(names, name)
		}
		if err := list.Err(); err != nil {
			return nil, problem(err)
		}
		t.listed, t.others = now, names
	}
	regional := t.c.regions.own()
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.AppendSeq(slices.Clone(t.others), maps.Keys(t.streams))
	for name := range t.buckets {
		all = append(all, bucket{name: name}.stream())
	}
	for pool := range regional {
		all = append(all, tasksStream(pool), claimsStream(pool), keysStream(pool), resultsStream(pool),
			bucket{name: poolBucket(pool)}.stream())
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// createAll creates what is not of a pool. The streams of each pool are created before the pool's first task.
func (t *topology) createAll(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return t.c.patiently(ctx, func() error { return t.ensure(ctx, admitStream) }) })
	group.Go(func() error { return t.c.patiently(ctx, func() error { return t.c.blobs().open(ctx) }) })
	return group.Wait()
}

// findStores finds out where the streams are: in which domain those of the connected server are, and which pools have a
// store of their own.
func (c *Conn) findStores(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.patiently(ctx, func() error { return c.findHome(ctx) }) })
	group.Go(func() error {
		return c.patiently(ctx, func() error {
			_, err := c.regions.Domains(ctx)
			return err
		})
	})
	return group.Wait()
}

// findHome asks in which domain the account's streams are. A user who may not ask does not check it.
func (c *Conn) findHome(ctx context.Context) error {
	const subject = jetstream.DefaultAPIPrefix + "INFO"
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	info, err := c.js.AccountInfo(ctx)
	if err = c.denied(problem(err), subject); err == nil {
		c.home.Store(&info.Domain)
	}
	if errors.Is(err, wire.ErrDenied) {
		return nil
	}
	return err
}

// lazy is a value that is made at its first use. A failure is not kept.
type lazy[T any] struct {
	mu   sync.Mutex // held while the value is being made
	made bool
	v    T
}

func (l *lazy[T]) get(make func() (T, error)) (T, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.made {
		return l.v, nil
	}
	v, err := make()
	if err == nil {
		l.v, l.made = v, true
	}
	return v, err
}

func (l *lazy[T]) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made = false
}

// stream returns a stream. It creates it if this connection may.
func (t *topology) stream(ctx context.Context, name string) (jetstream.Stream, error) {
	return t.streamSlot(name).get(func() (jetstream.Stream, error) {
		ctx, cancel := t.c.bounded(ctx)
		defer cancel()
		s, err := t.create(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("opening stream %s: %w", name, problem(err))
		}
		if err := checkStream(s.CachedInfo().Config, t.c.opts.storage()); err != nil {
			return nil, err
		}
		if pool, kind := poolOf(name); kind == resultsOfPool {
			t.c.outcomes.know(pool)
		}
		return s, nil
	})
}

func (t *topology) create(ctx context.Context, name string) (jetstream.Stream, error) {
	js := t.c.regions.at(name)
	if !t.c.opts.Provision {
		return js.Stream(ctx, name)
	}
	var s jetstream.Stream
	err := t.replicated(name, func(replicas int) (err error) {
		s, err = t.make(ctx, name, replicas)
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		if s, err = js.Stream(ctx, name); err != nil {
			return nil, err
		}
		return t.bind(ctx, s) // other replicas, limits or placement stay as somebody has chosen them
	}
	return s, err
}

// replicated calls make with the number of replicas that a new stream gets. While the cluster has too few servers for
// it, as when they are just starting, the error is wire.ErrUnanswered: what is created with one replica keeps it. After
// peersPatience the stream gets one replica, and the log says so.
func (t *topology) replicated(stream string, make func(replicas int) error) error {
	replicas := t.replicas(stream)
	err := make(replicas)
	if isCode(err, codeNoCluster) { // a region with a single server
		return make(1)
	}
	if replicas == 1 || err != nil && !isCode(err, codeNoPeers) {
		return err
	}
	patience := t.lackServers(err != nil)
	switch {
	case err == nil:
		return nil
	case patience > 0:
		return fmt.Errorf("%w: the cluster has no %d servers for stream %s yet: %w", wire.ErrUnanswered, replicas,
			stream, err)
	}
	t.c.opts.Log(fmt.Sprintf("the cluster has no %d servers for stream %s: creating it with one replica", replicas,
		stream))
	return make(1)
}

// lackServers notes whether the cluster lacks servers for a new stream. It returns for how long to wait for them still.
func (t *topology) lackServers(lack bool) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !lack:
		t.short = time.Time{}
	case t.short.IsZero():
		t.short = time.Now()
	}
	return peersPatience - time.Since(t.short)
}

// make creates a stream with the bound that it is to have.
func (t *topology) make(ctx context.Context, name string, replicas int) (s jetstream.Stream, err error) {
	cfg := streamConfig(name, replicas, t.c.opts.storage())
	if b := boundOf(name); b.message > 0 && t.c.opts.inProcess == nil {
		cfg.MaxMsgSize = int32(b.message) //nolint:gosec // at most 1 MiB
	}
	err = t.within(ctx, name, replicas, func(bytes int64) error {
		cfg.MaxBytes = bytes
		s, err = t.c.regions.at(name).CreateStream(ctx, cfg)
		return err
	})
	return s, err
}

const (
	// codeNoPeers is the server's "no suitable peers for placement".
	codeNoPeers = 10005
	// codeNoCluster is its "replicas > 1 not supported in non-clustered mode".
	codeNoCluster = 10074
	// peersPatience is how long a cluster may lack servers before streams are created with one replica.
	peersPatience = 10 * time.Second
)

// replicas returns how many replicas a new stream gets. The servers of a region do not tell whether they are a cluster.
func (t *topology) replicas(stream string) int {
	switch {
	case t.c.opts.Replicas > 0:
		return t.c.opts.Replicas
	case t.c.regions.of(stream) != "" || t.c.nc.ConnectedClusterName() != "":
		return 3
	}
	return 1
}

// ensure creates a stream before a message is published to it, if this connection may.
func (t *topology) ensure(ctx context.Context, name string) error {
	if !t.c.opts.Provision {
		return nil
	}
	_, err := t.stream(ctx, name)
	return err
}

// consumer returns a durable consumer. With create it makes it, if this connection may.
func (t *topology) consumer(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) (jetstream.Consumer,
	error) {
	l := t.slot(stream, cfg.Durable)
	return l.get(func() (jetstream.Consumer, error) {
		if err := t.ensure(ctx, stream); err != nil {
			return nil, err
		}
		ctx, cancel := t.c.bounded(ctx)
		defer cancel()
		js := t.c.regions.at(stream)
		consumer, err := js.Consumer(ctx, stream, cfg.Durable)
		if errors.Is(err, jetstream.ErrConsumerNotFound) && t.c.opts.Provision {
			consumer, err = js.CreateConsumer(ctx, stream, cfg)
			if errors.Is(err, jetstream.ErrConsumerExists) { // somebody else was faster, with other settings
				consumer, err = js.Consumer(ctx, stream, cfg.Durable)
			}
		}
		// an earlier version's
		if err == nil && t.c.opts.Provision && consumer.CachedInfo().Config.AckWait != cfg.AckWait {
			// else the messages come again a little later
			if updated, err := js.UpdateConsumer(ctx, stream, cfg); err == nil {
				consumer = updated
			}
		}
		if err != nil {
			err = t.c.denied(problem(err), t.c.regions.apiPrefix(stream)+"CONSUMER.INFO."+stream+"."+cfg.Durable)
			return nil, fmt.Errorf("opening consumer %s of stream %s: %w", cfg.Durable, stream, err)
		}
		return consumer, nil
	})
}

func (t *topology) streamSlot(name string) *lazy[jetstream.Stream] {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slotOf(t.streams, name)
}

func (t *topology) slot(stream, durable string) *lazy[jetstream.Consumer] {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slotOf(t.consumers, stream+"/"+durable)
}

func (t *topology) bucket(name string) *lazy[jetstream.ObjectStore] {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slotOf(t.buckets, name)
}

func slotOf[T any](m map[string]*lazy[T], key string) *lazy[T] {
	l := m[key]
	if l == nil {
		l = new(lazy[T])
		m[key] = l
	}
	return l
}

func poolConsumer(pool string, ackWait time.Duration) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: "pool-" + wire.Token(pool), FilterSubject: "task." + wire.Token(pool) + ".>",
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxDeliver: -1, MaxAckPending: maxUnacked,
	}
}

// resultConsumer returns the configuration of a coordinator's consumer, without its filter.
func resultConsumer(coordinator string, ackWait time.Duration) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:   "coordinator-" + wire.Token(coordinator),
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxDeliver: -1, MaxAckPending: maxUnacked,
		// The consumer of a coordinator that never returns is removed; its results stay in the stream.
		InactiveThreshold: 7 * 24 * time.Hour,
	}
}

// gone reports whether a consumer handle can no longer be used.
func gone(err error) bool {
	return errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrConsumerNotFound) ||
		errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerDoesNotExist)
}
