package jet

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Durability is what a coordinator should know before it trusts a server with claims and results.
type Durability struct {
	// SingleReplica are the streams that one server alone keeps.
	SingleReplica []string
	// Sync tells when writes reach the disk.
	Sync Sync
	// Interval is how long acknowledged writes may be in memory only, with SyncLater.
	Interval time.Duration
}

// Sync is when a server syncs its writes.
type Sync byte

const (
	// SyncUnknown: only users of the system account are told.
	SyncUnknown Sync = iota
	// SyncAlways: before they are acknowledged.
	SyncAlways
	// SyncLater: from time to time. A power cut takes acknowledged writes with it.
	SyncLater
)

// syncAsk is how long a server may take to tell about itself; most users are not answered at all.
const syncAsk = 250 * time.Millisecond

// Durability looks at the streams that exist, and asks the servers how they write. The embedded server is always as it
// should be.
func (c *Conn) Durability(ctx context.Context) (Durability, error) {
	if c.opts.inProcess != nil {
		return Durability{Sync: SyncAlways}, nil
	}
	var d Durability
	pools, err := c.poolStreams(ctx)
	if err != nil {
		return d, fmt.Errorf("listing the streams of pools: %w", err)
	}
	for _, name := range append([]string{tasksStream, resultsStream, admitStream}, pools...) {
		s, err := c.existing(ctx, name)
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

// askSync asks one server; those of a cluster are configured alike.
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

// Warnings says in sentences what is not as the protocol needs it.
func (d Durability) Warnings() []string {
	var list []string
	if len(d.SingleReplica) > 0 {
		list = append(list, fmt.Sprintf("NATS keeps %s with fewer than three replicas: what is lost with a server, "+
			"or its disk, is lost for the runs under way. "+
			"Operations that were claimed may have to be resolved by hand.", strings.Join(d.SingleReplica, ", ")))
	}
	switch d.Sync {
	case SyncLater:
		list = append(list, fmt.Sprintf("NATS syncs its writes every %s: a power cut takes acknowledged claims and "+
			"results with it, and an operation may be begun twice. "+
			"Set sync_interval to always on every server.", d.Interval))
	case SyncUnknown:
		list = append(list, "NATS does not tell this user when it syncs its writes. Make sure that sync_interval is "+
			"always on every server.")
	}
	return list
}
