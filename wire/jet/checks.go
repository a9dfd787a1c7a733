package jet

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// Durability describes how safely a server stores claims and results.
type Durability struct {
	// SingleReplica are the streams that are stored on one server only.
	SingleReplica []string
	// Sync says when writes are synced to the disk.
	Sync Sync
	// Interval is how long acknowledged writes may be only in memory, with SyncLater.
	Interval time.Duration
}

// Sync is when a server syncs its writes.
type Sync byte

const (
	// SyncUnknown: the server tells it only to users of the system account.
	SyncUnknown Sync = iota
	// SyncAlways: before they are acknowledged.
	SyncAlways
	// SyncLater: from time to time. A power failure loses acknowledged writes.
	SyncLater
)

// syncAsk is how long a server has to answer; most users get no answer.
const syncAsk = 250 * time.Millisecond

// Durability checks the existing streams, and asks the servers how they sync. The embedded server is always as safe as
// it should be.
func (c *Conn) Durability(ctx context.Context) (Durability, error) {
	if c.opts.inProcess != nil {
		return Durability{Sync: SyncAlways}, nil
	}
	var d Durability
	pools, err := c.purger.poolStreams(ctx)
	if err != nil {
		return d, fmt.Errorf("listing the streams of pools: %w", err)
	}
	for _, name := range append([]string{admitStream}, pools...) {
		s, err := c.topology.existing(ctx, name)
		if err != nil && c.regions.of(name) != "" && temporary(err) {
			continue // its region does not answer now
		}
		if err != nil {
			return d, fmt.Errorf("looking at stream %s: %w", name, err)
		}
		if s != nil && s.CachedInfo().Config.Replicas < 3 {
			d.SingleReplica = append(d.SingleReplica, name)
		}
	}
	d.Sync, d.Interval = c.askSync(ctx)
	return d, nil
}

// replicaLost is how long the leader of a stream has heard nothing from a replica that counts as gone.
const replicaLost = 8 * time.Second

// Storing returns an error unless JetStream stores messages: in a cluster, unless a majority of the replicas of the
// stream of permits is there. It asks the leader, who answers for a while after the majority has gone.
func (c *Conn) Storing(ctx context.Context) error {
	if c.opts.inProcess != nil {
		return c.opts.trouble()
	}
	info, err := c.streamInfo(ctx, admitStream)
	if err != nil || info.Cluster == nil {
		return problem(err)
	}
	there, all := 1, 1+len(info.Cluster.Replicas)
	for _, peer := range info.Cluster.Replicas {
		if !peer.Offline && peer.Active < replicaLost {
			there++
		}
	}
	if 2*there <= all {
		return fmt.Errorf("%w: of %d servers with the stream %s only %d are there", wire.ErrUnanswered, all, admitStream,
			there)
	}
	return nil
}

// Dangers returns a sentence if the server says that it acknowledges writes before they are on the disk. It costs one
// request. Durability has the rest, with a request for each stream.
func (c *Conn) Dangers(ctx context.Context) []string {
	if c.opts.inProcess != nil {
		return nil
	}
	d := Durability{}
	if d.Sync, d.Interval = c.askSync(ctx); d.Sync != SyncLater {
		return nil
	}
	return d.Warnings()
}

// askSync asks one server; all servers of a cluster have the same configuration.
func (c *Conn) askSync(ctx context.Context) (Sync, time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, syncAsk)
	defer cancel()
	m, err := c.nc.RequestWithContext(ctx, "$SYS.REQ.SERVER.PING.JSZ", nil)
	if err != nil {
		return SyncUnknown, 0
	}
	var answer struct {
		Data struct {
			Config struct {
				Interval time.Duration `json:"sync_interval"`
				Always   bool          `json:"sync_always"`
			} `json:"config"`
		} `json:"data"`
	}
	switch err := json.Unmarshal(m.Data, &answer); {
	case err != nil || !answer.Data.Config.Always && answer.Data.Config.Interval == 0:
		return SyncUnknown, 0
	case answer.Data.Config.Always:
		return SyncAlways, 0
	}
	return SyncLater, answer.Data.Config.Interval
}

// Warnings returns a sentence for each property that the protocol needs and the server lacks.
func (d Durability) Warnings() []string {
	var list []string
	if len(d.SingleReplica) > 0 {
		list = append(list, fmt.Sprintf("NATS keeps %s with fewer than three replicas: what is lost with a server, "+
			"or its disk, is lost for the runs under way. "+
			"Operations that were claimed may have to be resolved by hand.", strings.Join(d.SingleReplica, ", ")))
	}
	switch d.Sync {
	case SyncLater:
		list = append(list, fmt.Sprintf("NATS syncs its writes every %s: a power failure loses acknowledged claims and "+
			"results, and an operation may be started twice. Set sync_interval to always on every server.", d.Interval))
	case SyncUnknown:
		list = append(list, "This user may not read when NATS syncs its writes. Make sure that sync_interval is always "+
			"on every server.")
	}
	return list
}
