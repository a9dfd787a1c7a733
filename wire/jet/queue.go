package jet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/internal/trace"
	"github.com/millipede-iac/millipede/wire"
)

const (
	// releaseDelay is the time after which a released message is delivered again.
	releaseDelay = 250 * time.Millisecond
	// pullExpiry and pullHeartbeat bound a pull: a server that has gone away is noticed after two heartbeats, and a lost
	// wake-up costs no more than one pull.
	pullExpiry    = 6 * time.Second
	pullHeartbeat = time.Second
	// topologyPoll is the interval at which a worker looks for a consumer that a coordinator has yet to create.
	topologyPoll = 250 * time.Millisecond
)

// PublishTask implements wire.WorkQueue. It first creates the pool's consumer, registers, keys, bucket and the stream
// of its results if they do not exist, so that workers need no permission for that.
func (c *Conn) PublishTask(ctx context.Context, ref wire.TaskRef, data []byte) error {
	if c.opts.Provision {
		if err := c.checkConsumer(ctx, tasksStream(ref.Pool), poolConsumer(ref.Pool,
			c.opts.ackWait(taskAckWait))); err != nil {
			return err
		}
		if err := c.preparePool(ctx, ref.Pool); err != nil {
			return err
		}
	}
	m := &nats.Msg{Subject: wire.TaskSubject(ref), Data: data}
	traced(ctx, m)
	c.placed(m, ref)
	opts := []jetstream.PublishOpt{jetstream.WithMsgID(string(ref.Attempt))}
	if ttl, err := c.expires(ctx, ref.Pool); err != nil {
		return err
	} else if ttl {
		opts = append(opts, jetstream.WithMsgTTL(taskLife))
	}
	if err := c.store(ctx, m, opts...); err != nil {
		return fmt.Errorf("publishing task %s for pool %s: %w", ref.Attempt, ref.Pool, err)
	}
	return nil
}

// taskLife is how long a task may wait for a worker, by the clock of the store. A coordinator publishes a task again
// while nobody has claimed it. So a task whose coordinator is gone is not begun much later, when its region is there
// again, or its workers are.
const taskLife = claimWindow

// expires reports whether the stream of a pool's tasks removes them after taskLife. Servers before 2.11 do not, and
// coordinators alone ask.
func (c *Conn) expires(ctx context.Context, pool string) (bool, error) {
	if !c.opts.Provision {
		return false, nil
	}
	s, err := c.topology.stream(ctx, tasksStream(pool))
	if err != nil {
		return false, err
	}
	return s.CachedInfo().Config.AllowMsgTTL, nil
}

// placed names in a task the domain of its register: the worker believes no other one.
func (c *Conn) placed(m *nats.Msg, ref wire.TaskRef) {
	domain, known := c.regions.domain(claimsStream(ref.Pool))
	if !known {
		return
	}
	if m.Header == nil {
		m.Header = nats.Header{}
	}
	m.Header[domainHeader] = []string{domain}
}

// placeIn returns the domain that a message names; false if it names none, as those of earlier versions.
func placeIn(h nats.Header) (string, bool) {
	v, ok := h[domainHeader]
	if !ok || len(v) == 0 {
		return "", false
	}
	return v[0], true
}

// PublishResult implements wire.WorkQueue.
func (c *Conn) PublishResult(ctx context.Context, ref wire.TaskRef, data []byte) error {
	if err := c.topology.ensure(ctx, resultsStream(ref.Pool)); err != nil {
		return err
	}
	// No message ID: a late result and a report of doubt about the same attempt must both be stored.
	if err := c.store(ctx, &nats.Msg{Subject: wire.ResultSubject(ref), Data: data}); err != nil {
		return fmt.Errorf("publishing the result of %s: %w", ref.Attempt, err)
	}
	return nil
}

// FetchTasks implements wire.WorkQueue.
func (c *Conn) FetchTasks(ctx context.Context, pool string, n int) ([]wire.Delivery, error) {
	list, err := c.fetch(ctx, tasksStream(pool), poolConsumer(pool, c.opts.ackWait(taskAckWait)), n)
	if err != nil {
		return nil, fmt.Errorf("fetching tasks of pool %s: %w", pool, err)
	}
	now := time.Now()
	for _, d := range list {
		c.fetched.note(d.Ref().Attempt, now, d.(*delivery).msg.Headers())
	}
	return list, nil
}

// fetch waits for one message, then takes those that are waiting: it requests nothing that the caller may have no room
// for later. It survives lost connections until ctx ends.
func (c *Conn) fetch(ctx context.Context, stream string, cfg jetstream.ConsumerConfig, n int) ([]wire.Delivery, error) {
	if n < 1 {
		panic("jet: a fetch of no messages")
	}
	for {
		if c.opts.Provision {
			if err := c.checkConsumer(ctx, stream, cfg); err != nil && !temporary(err) {
				return nil, err
			}
		}
		list, err := c.fetchOnce(ctx, stream, cfg, n)
		if len(list) > 0 {
			return list, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		err = c.denied(err, c.regions.apiPrefix(stream)+"CONSUMER.INFO."+stream+"."+cfg.Durable,
			c.regions.apiPrefix(stream)+"CONSUMER.MSG.NEXT."+stream+"."+cfg.Durable)
		switch {
		case err == nil, errors.Is(err, jetstream.ErrNoHeartbeat):
			continue
		case gone(err) || errors.Is(err, nats.ErrNoResponders):
			c.topology.slot(stream, cfg.Durable).forget()
			c.topology.streamSlot(stream).forget()
		case !temporary(err):
			return nil, err
		}
		if sleep.For(ctx, topologyPoll) != nil {
			return nil, ctx.Err()
		}
	}
}

func (c *Conn) fetchOnce(ctx context.Context, stream string, cfg jetstream.ConsumerConfig,
	n int) ([]wire.Delivery, error) {
	consumer, err := c.topology.consumer(ctx, stream, cfg)
	if err != nil {
		return nil, err
	}
	pull, cancel := context.WithTimeout(ctx, pullExpiry)
	defer cancel()
	opts := []jetstream.FetchOpt{jetstream.FetchContext(pull)}
	deadline, _ := pull.Deadline()
	if time.Until(deadline) > 4*pullHeartbeat {
		opts = append(opts, jetstream.FetchHeartbeat(pullHeartbeat))
	}
	first, err := consumer.Fetch(1, opts...)
	if err != nil && !time.Now().Before(deadline) {
		return nil, nil // too late for this one
	}
	if err != nil {
		return nil, problem(err)
	}
	list, err := c.collect(nil, first)
	if err != nil || len(list) == 0 {
		return list, err
	}
	rest := min(n-1, int(list[0].(*delivery).behind))
	if rest == 0 {
		return list, nil
	}
	more, err := consumer.FetchNoWait(rest)
	if err != nil {
		return list, nil // the next fetch will tell
	}
	list, _ = c.collect(list, more) // as above
	return list, nil
}

func (c *Conn) collect(list []wire.Delivery, batch jetstream.MessageBatch) ([]wire.Delivery, error) {
	for m := range batch.Messages() {
		d, err := c.delivery(m)
		if err != nil {
			c.opts.Log("dropping a message that no coordinator published: " + err.Error())
			if err := m.Term(); err != nil {
				return list, problem(err)
			}
			continue
		}
		list = append(list, d)
	}
	if err := batch.Error(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return list, problem(err)
	}
	return list, nil
}

type delivery struct {
	c        *Conn
	msg      jetstream.Msg
	ref      wire.TaskRef
	sequence uint64
	behind   uint64 // how many messages waited when this one was delivered
}

func (c *Conn) delivery(m jetstream.Msg) (*delivery, error) {
	ref, err := wire.ParseRef(m.Subject())
	if err != nil {
		return nil, err
	}
	meta, err := m.Metadata()
	if err != nil {
		return nil, err
	}
	return &delivery{c: c, msg: m, ref: ref, sequence: meta.Sequence.Stream, behind: meta.NumPending}, nil
}

func (d *delivery) Ref() wire.TaskRef { return d.ref }
func (d *delivery) Data() []byte      { return d.msg.Data() }
func (d *delivery) Sequence() uint64  { return d.sequence }

// Trace implements wire.Traced.
func (d *delivery) Trace() trace.Context { return traceOf(d.msg.Headers()) }

func (d *delivery) Ack(ctx context.Context) error {
	d.c.fetched.forget(d.ref.Attempt)
	whole, cancel := d.c.bounded(ctx)
	defer cancel()
	for {
		// A message to a server that died is lost; acknowledging twice is harmless.
		try, end := context.WithTimeout(whole, d.c.tryFor())
		err := d.msg.DoubleAck(try)
		end()
		if err == nil || errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
			return nil
		}
		if err = problem(err); !errors.Is(err, wire.ErrUnanswered) || sleep.For(whole, leaderPoll) != nil {
			return fmt.Errorf("acknowledging %s: %w", d.ref.Attempt, err)
		}
	}
}

func (d *delivery) Release(ctx context.Context) error {
	d.c.fetched.forget(d.ref.Attempt)
	err := d.msg.NakWithDelay(releaseDelay)
	if err == nil || errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
		return nil
	}
	return fmt.Errorf("releasing %s: %w", d.ref.Attempt, problem(err))
}

// HighWater implements wire.WorkQueue.
func (c *Conn) HighWater(ctx context.Context, pools []string) (wire.HighWater, error) {
	if err := c.writable(ctx); err != nil {
		return wire.HighWater{}, err
	}
	// The first stream is asked so that a run that has not used a pool yet finds out whether the server answers.
	admit, err := c.inspect(ctx, admitStream)
	if err != nil {
		return wire.HighWater{}, err
	}
	mark := wire.HighWater{Servers: map[string]string{}}
	answered(&mark, admit)
	found := make([][]*jetstream.StreamInfo, len(pools))
	away := make([]error, len(pools))
	group, gctx := errgroup.WithContext(ctx)
	for i, pool := range pools {
		group.Go(func() (err error) {
			if c.regions.regional(pool) == "" {
				found[i], err = c.inspectPool(gctx, pool)
				return err
			}
			found[i], away[i] = c.inspectRegion(gctx, pool)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return wire.HighWater{}, err
	}
	for i, pool := range pools {
		if domain := c.regions.regional(pool); domain != "" {
			mark.SetStore(pool, away[i])
		}
		if away[i] != nil {
			continue
		}
		of := found[i]
		answered(&mark, of...)
		mark.Add(pool, position(of[0]), position(of[1]), position(of[2]))
		for _, info := range of {
			if info == nil {
				continue
			}
			if text := full(info); text != "" {
				mark.SetFull(pool, text)
				break
			}
		}
	}
	return mark, ctx.Err()
}

// answered notes who has answered about streams that servers of a cluster keep.
func answered(mark *wire.HighWater, infos ...*jetstream.StreamInfo) {
	for _, info := range infos {
		if info != nil && info.Cluster != nil && len(info.Cluster.Replicas) > 0 {
			mark.Replicated = true
			mark.Servers[info.Config.Name] = info.Cluster.Leader
		}
	}
}

// inspect asks for a stream, of a server that can know its content.
func (c *Conn) inspect(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	info, err := c.streamInfo(ctx, name)
	if err == nil {
		err = authoritative(info)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the position of stream %s: %w", name, problem(err))
	}
	return info, nil
}

// inspectPool asks for the streams of a pool: tasks, registers, results, and its bucket, which may be missing.
func (c *Conn) inspectPool(ctx context.Context, pool string) ([]*jetstream.StreamInfo, error) {
	names := []string{tasksStream(pool), claimsStream(pool), resultsStream(pool)}
	infos := make([]*jetstream.StreamInfo, len(names)+1)
	group, ctx := errgroup.WithContext(ctx)
	for i, name := range names {
		group.Go(func() (err error) {
			infos[i], err = c.inspect(ctx, name)
			return err
		})
	}
	if c.opts.inProcess == nil { // else nothing has a bound
		group.Go(func() (err error) {
			infos[len(names)], err = c.bucketInfo(ctx, bucket{c, poolBucket(pool)})
			return err
		})
	}
	return infos, group.Wait()
}

// inspectRegion is inspectPool for a pool with a store of its own. The error says why that does not answer, or takes no
// messages. Others wait for the answer, so its time is short.
func (c *Conn) inspectRegion(ctx context.Context, pool string) ([]*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	infos, err := c.inspectPool(ctx, pool)
	if err == nil {
		err = c.topology.purge(ctx, tasksStream(pool), "none") // see writable
	}
	return infos, err
}

// position returns the last sequence of a stream, and when it was created.
func position(info *jetstream.StreamInfo) wire.Position {
	return wire.Position{Last: info.State.LastSeq, Incarnation: strconv.FormatInt(info.Created.UnixNano(), 36)}
}

// replicaSilence is how long the leader of a stream may have heard nothing from a replica that counts.
const replicaSilence = 2 * time.Second

// authoritative returns wire.ErrUnanswered if the answering server cannot know the content of a replicated stream: if
// it knows no leader, or is not the leader, or does not hear from a majority of the servers. A server that is cut off
// from its cluster still answers, and considers itself the leader for up to 17 seconds.
func authoritative(info *jetstream.StreamInfo) error {
	cluster := info.Cluster
	if cluster == nil || info.Config.Replicas < 2 {
		return nil
	}
	if cluster.Leader == "" {
		return fmt.Errorf("%w: the server that answered knows no leader of the stream", wire.ErrUnanswered)
	}
	heard := 1 // the leader itself
	for _, r := range cluster.Replicas {
		if r.Name == cluster.Leader {
			return fmt.Errorf("%w: the server that answered does not lead the stream", wire.ErrUnanswered)
		}
		if !r.Offline && r.Active < replicaSilence {
			heard++
		}
	}
	if 2*heard <= info.Config.Replicas {
		return fmt.Errorf("%w: the server %s, which leads the stream, hears from %d of its %d servers",
			wire.ErrUnanswered, cluster.Leader, heard, info.Config.Replicas)
	}
	return nil
}

// bucketInfo returns the server's information about a bucket's stream; nil if nobody has made it.
func (c *Conn) bucketInfo(ctx context.Context, b bucket) (*jetstream.StreamInfo, error) {
	s, err := c.topology.existing(ctx, b.stream())
	if s == nil || err != nil {
		return nil, err
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	info, err := s.Info(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	return info, problem(err)
}

// streamInfo asks the stream's leader. A stream that has vanished since its first use is created again, and shows that
// by its creation time.
func (c *Conn) streamInfo(ctx context.Context, name string, opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo,
	error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	for tries := 0; ; tries++ {
		s, err := c.topology.stream(ctx, name)
		if err != nil {
			return nil, err
		}
		info, err := s.Info(ctx, opts...)
		if errors.Is(err, jetstream.ErrStreamNotFound) && tries == 0 {
			c.topology.streamSlot(name).forget()
			continue
		}
		return info, err
	}
}

// fetchTimes records when the tasks that this process has were fetched, and the domains that they name.
type fetchTimes struct {
	mu      sync.Mutex // guards the maps
	at      map[wire.AttemptID]time.Time
	domains map[wire.AttemptID]string
}

func (f *fetchTimes) note(a wire.AttemptID, now time.Time, h nats.Header) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == nil {
		f.at, f.domains = map[wire.AttemptID]time.Time{}, map[wire.AttemptID]string{}
	}
	f.at[a] = now
	if domain, ok := placeIn(h); ok {
		f.domains[a] = domain
	}
}

// domain returns the domain that the task of an attempt names; false if it names none.
func (f *fetchTimes) domain(a wire.AttemptID) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	domain, ok := f.domains[a]
	return domain, ok
}

func (f *fetchTimes) forget(a wire.AttemptID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.at, a)
	delete(f.domains, a)
}

// stale reports whether the attempt's task was fetched longer ago than the claim window.
func (f *fetchTimes) stale(a wire.AttemptID, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, ok := f.at[a]
	return ok && elapsed(at, now) > claimWindow
}
