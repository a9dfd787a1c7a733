package jet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/wire"
)

// denials are the subjects that the server has refused to this user. The server reports that by an error without a
// reference to the request, which runs into its time-out.
type denials struct {
	mu       sync.Mutex // guards subjects
	subjects map[string]bool
}

// note records a denial. It returns false for any other error.
func (d *denials) note(err error) bool {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return false
	}
	_, rest, _ := strings.Cut(err.Error(), `"`)
	subject, _, ok := strings.Cut(rest, `"`)
	if !ok {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.subjects == nil {
		d.subjects = map[string]bool{}
	}
	d.subjects[plainAPI(subject)] = true
	return true
}

// plainAPI names a subject of JetStream's API as clients do: an account that holds no streams may map the API to a
// domain, as those in deploy/nats do, and permissions are about the mapped subject.
func plainAPI(subject string) string {
	if _, rest, ok := strings.Cut(subject, ".API."); ok && strings.HasPrefix(subject, "$JS.") {
		return jetstream.DefaultAPIPrefix + rest
	}
	return subject
}

func (d *denials) has(subject string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.subjects[subject]
}

// denied returns wire.ErrDenied for a failed operation if one of the subjects that it needs was refused.
func (c *Conn) denied(err error, subjects ...string) error {
	if err == nil {
		return nil
	}
	for _, s := range subjects {
		if c.denials.has(plainAPI(s)) {
			return fmt.Errorf("%w: %s", wire.ErrDenied, s)
		}
	}
	return err
}

// probeWait is how long the server's refusals may take after it has answered.
const probeWait = 50 * time.Millisecond

// Probe checks, without any effect, the permissions that a worker of the pools needs. It returns the missing ones as
// "publish SUBJECT" or "subscribe SUBJECT", sorted.
func (c *Conn) Probe(ctx context.Context, pools []string) ([]string, error) {
	publish, subscribe := probeSubjects(pools, c.opts.Domain != "")
	for _, subject := range publish {
		// The stream that is expected does not exist, so streams refuse the message; and it is no request that the API
		// could carry out.
		m := &nats.Msg{Subject: subject, Data: []byte("{"),
			Header: nats.Header{jetstream.ExpectedStreamHeader: {"PROBE"}}}
		if err := c.nc.PublishMsg(m); err != nil {
			return nil, problem(err)
		}
	}
	for _, subject := range subscribe {
		sub, err := c.trySubscribe(subject)
		if err != nil {
			return nil, problem(err)
		}
		defer sub.Unsubscribe() //nolint:errcheck // it may have been refused
	}
	if err := c.flush(ctx); err != nil {
		return nil, err
	}
	if sleep.For(ctx, probeWait) != nil {
		return nil, ctx.Err()
	}
	var missing []string
	for _, s := range publish {
		if c.denials.has(s) {
			missing = append(missing, "publish "+s)
		}
	}
	for _, s := range subscribe {
		if c.denials.has(s) {
			missing = append(missing, "subscribe "+s)
		}
	}
	slices.Sort(missing)
	return missing, nil
}

// trySubscribe takes no call away from others: it sends them on.
func (c *Conn) trySubscribe(subject string) (*nats.Subscription, error) {
	if !strings.HasPrefix(subject, "call.") {
		return c.nc.Subscribe(subject, func(*nats.Msg) {})
	}
	return c.nc.QueueSubscribe(subject, callQueue, func(m *nats.Msg) {
		if err := c.nc.Publish(m.Reply, []byte{frameBusy}); err != nil {
			c.opts.Log("refusing a call: " + err.Error())
		}
	})
}

// probeSubjects are an example of each subject that docs/format/wire.md lists for a worker. In a region with a store of
// its own packages are in the buckets of the pools.
func probeSubjects(pools []string, regional bool) (publish, subscribe []string) {
	const api = jetstream.DefaultAPIPrefix
	if !regional {
		publish = []string{
			api + "STREAM.MSG.GET.OBJ_" + blobBucket, api + "DIRECT.GET.OBJ_" + blobBucket,
		}
	}
	subscribe = []string{"ctl.all.>"}
	for _, pool := range pools {
		p, b := wire.Token(pool), poolBucket(pool)
		consumer := tasksStream(pool) + ".pool-" + p
		publish = append(publish, api+"STREAM.MSG.GET."+claimsStream(pool), api+"STREAM.MSG.GET."+keysStream(pool),
			"ev."+p+".probe",
			api+"CONSUMER.INFO."+consumer, api+"CONSUMER.MSG.NEXT."+consumer, "$JS.ACK."+consumer+".0.0.0.0.0",
			"claim."+p+".probe.probe", "result."+p+".probe.probe.probe",
			api+"STREAM.INFO.OBJ_"+b, api+"STREAM.MSG.GET.OBJ_"+b, api+"STREAM.PURGE.OBJ_"+b, "$O."+b+".C.probe")
		subscribe = append(subscribe, wire.CallSubject(pool, wire.Spoken().Highest), "ctl.pool."+p+".>")
	}
	return publish, subscribe
}
