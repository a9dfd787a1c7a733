package jet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/wire"
)

// A pool may have a message store of its own: a JetStream domain, in its region, which a leaf node connects with the
// hub. Its tasks, registers, keys, results and blobs are there; limits, packages for other pools and the settings of
// pools stay at the hub. The API of a domain has a prefix of its own. Publishing has not: whichever stream has the
// subject stores a message. So no stream at the hub may have a subject of such a pool, and none in its domain any
// other. docs/adr/0052 has the reasons.

const (
	// settingsStream has, at the hub, the settings of all pools as one message, and the runs that could not be cleaned in
	// a store that was cut off. It exists only if somebody has set something.
	settingsStream  = "POOLS"
	settingsSubject = "pools"
	leftPrefix      = "left."

	// domainHeader of a task and of a heartbeat names the domain of the pool's store: for a task the one in which its
	// register is, for a heartbeat the one that the worker uses. It is there, and empty, where there is no domain.
	domainHeader = "Millipede-Domain"

	// storePatience is how long the store of a region may take to answer, where others wait for the answer.
	storePatience = time.Second
	// recheckEvery is how often the subjects of the streams of hub and regions are compared, in a connection that uses a
	// region.
	recheckEvery = time.Minute
)

// regions has the domains of the pools that have one.
type regions struct {
	c *Conn

	mu      sync.Mutex                     // guards the fields below
	domains map[string]string              // by the token of the pool
	buckets map[string]string              // by the pool as names of buckets have it
	apis    map[string]jetstream.JetStream // by domain
	stores  map[string]*storage            // by domain; "" is the hub's
	used    map[string]bool                // pools, by token, of which this connection has used a stream
	checked time.Time                      // when the streams were last compared
}

// storage has what is known about the space of a store.
type storage struct {
	allowed lazy[int64] // see allowedBytes
	// found is how many bytes the server could reserve at least when it refused a stream for lack of storage; 0 if it
	// never refused one. The token of making guards it.
	found  int64
	making chan struct{} // has a token while a stream with a bound is made; see within
}

func (r *regions) init(c *Conn) {
	r.c = c
	r.domains, r.buckets, r.used = map[string]string{}, map[string]string{}, map[string]bool{}
	r.apis, r.stores = map[string]jetstream.JetStream{}, map[string]*storage{}
}

// of returns the domain of the store that has a stream; empty for that of the connected server.
func (r *regions) of(stream string) string {
	pool, kind := poolOf(stream)
	if kind == ofNoPool {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if kind == blobsOfPool {
		return r.buckets[pool]
	}
	r.used[pool] = true
	return r.domains[pool]
}

// storage returns what is known about the store that has a stream.
func (r *regions) storage(stream string) *storage {
	domain := r.of(stream)
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stores[domain]
	if s == nil {
		s = &storage{making: make(chan struct{}, 1)}
		r.stores[domain] = s
	}
	return s
}

// at returns the API for a stream.
func (r *regions) at(stream string) jetstream.JetStream { return r.api(r.of(stream)) }

func (r *regions) api(domain string) jetstream.JetStream {
	if domain == "" {
		return r.c.js
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.apis[domain]
}

// apiPrefix returns the prefix of the API's subjects for a stream.
func (r *regions) apiPrefix(stream string) string { return prefixOf(r.of(stream)) }

func prefixOf(domain string) string {
	if domain == "" {
		return jetstream.DefaultAPIPrefix
	}
	return "$JS." + domain + ".API."
}

// domain returns the JetStream domain in which a stream is; false if it is not known.
func (r *regions) domain(stream string) (string, bool) {
	if of := r.of(stream); of != "" {
		return of, true
	}
	if home := r.c.home.Load(); home != nil {
		return *home, true
	}
	return "", false
}

// MovedError says that the store of a pool was changed while this connection was using the former one.
type MovedError struct{ Pool, Was, Is string }

func (e *MovedError) Error() string {
	return fmt.Sprintf("the message store of the pool %q was %s when this process connected, and is now %s: start this "+
		"process again", e.Pool, inStore(e.Was), inStore(e.Is))
}

// adopt takes over the stored settings. A pool that this connection has used stays where it is.
func (r *regions) adopt(all settings) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := map[string]string{}
	for pool, s := range all {
		if s.Domain != "" {
			next[wire.Token(pool)] = s.Domain
		}
	}
	for pool := range r.used {
		if r.domains[pool] != next[pool] {
			name, err := wire.Untoken(pool)
			if err != nil {
				name = pool
			}
			return &MovedError{name, r.domains[pool], next[pool]}
		}
	}
	for _, domain := range next {
		if r.apis[domain] != nil {
			continue
		}
		js, err := jetstream.NewWithDomain(r.c.nc, domain, jetstream.WithDefaultTimeout(r.c.opts.Timeout))
		if err != nil {
			return fmt.Errorf("using the domain %q: %w", domain, err)
		}
		r.apis[domain] = js
	}
	r.domains, r.buckets = next, map[string]string{}
	for pool, s := range all {
		if s.Domain != "" {
			r.buckets[bucketPart(pool)] = s.Domain
		}
	}
	return nil
}

// own returns the domains by the names of the pools.
func (r *regions) own() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]string{}
	for token, domain := range r.domains {
		if name, err := wire.Untoken(token); err == nil {
			out[name] = domain
		}
	}
	return out
}

// regional returns the domain of the store of a pool; empty for the hub.
func (r *regions) regional(pool string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.domains[wire.Token(pool)]
}

// Domains implements wire.Regions.
func (r *regions) Domains(ctx context.Context) (map[string]string, error) {
	if r.c.opts.inProcess != nil {
		return nil, nil
	}
	all, _, err := r.c.PoolSettings().read(ctx)
	if err == nil {
		err = r.adopt(all)
	}
	if err == nil {
		err = r.compareStreams(ctx)
	}
	if err != nil {
		return nil, err
	}
	return r.own(), nil
}

// TaskBlobs implements wire.Regions.
func (r *regions) TaskBlobs(pool string) (wire.Blobs, bool) {
	if r.regional(pool) == "" {
		return r.c.blobs(), false
	}
	return bucket{r.c, poolBucket(pool)}, true
}

// recheck compares the streams of hub and regions again if that was long ago, before something is published to a
// region.
func (r *regions) recheck(ctx context.Context, stream string) error {
	if r.of(stream) == "" {
		return nil
	}
	r.mu.Lock()
	due := r.checked.IsZero() || time.Since(r.checked) >= recheckEvery
	r.mu.Unlock()
	if !due {
		return nil
	}
	return r.compareStreams(ctx)
}

// compareStreams returns an error if a stream at the hub has a subject of a pool with a store of its own, or a stream
// in a region one that is not of a pool of that region. A region that does not answer now is compared another time.
func (r *regions) compareStreams(ctx context.Context) error {
	domains := r.own()
	if len(domains) == 0 || !r.c.opts.Provision {
		return nil
	}
	if err := r.compareStore(ctx, "", domains); err != nil {
		return err
	}
	answered := true
	for _, domain := range slices.Compact(slices.Sorted(maps.Values(domains))) {
		within, cancel := context.WithTimeout(ctx, storePatience)
		err := r.compareStore(within, domain, domains)
		cancel()
		switch {
		case err != nil && temporary(err) && ctx.Err() == nil:
			answered = false
		case err != nil:
			return err
		}
	}
	if answered {
		r.mu.Lock()
		r.checked = time.Now()
		r.mu.Unlock()
	}
	return nil
}

// compareStore checks the subjects of the streams in one store.
func (r *regions) compareStore(ctx context.Context, domain string, domains map[string]string) error {
	ctx, cancel := r.c.bounded(ctx)
	defer cancel()
	list := r.api(domain).ListStreams(ctx)
	for info := range list.Info() {
		for _, subject := range info.Config.Subjects {
			if where, stray := strayIn(domain, subject, domains); stray {
				flag := ""
				if domain != "" {
					flag = " --js-domain=" + domain
				}
				return fmt.Errorf("%w: the stream %s at %s has the subject %s, which belongs to %s. Messages would be "+
					"stored at both places. Remove the stream (nats stream rm %s%s), or its subject", wire.ErrElsewhere,
					info.Config.Name, placeOf(domain), subject, where, info.Config.Name, flag)
			}
		}
	}
	if err := list.Err(); err != nil {
		return fmt.Errorf("comparing the streams at %s: %w", placeOf(domain), problem(err))
	}
	return nil
}

// placeOf names the store of a domain in a sentence.
func placeOf(domain string) string {
	if domain == "" {
		return "the hub"
	}
	return fmt.Sprintf("the domain %q", domain)
}

// strayIn reports whether a stream in the store of a domain must not have a subject, and to which store the subject
// belongs.
func strayIn(domain, subject string, domains map[string]string) (where string, stray bool) {
	for pool, of := range domains {
		if of == domain {
			continue
		}
		for _, own := range poolSubjects(pool) {
			if overlap(subject, own) {
				return placeOf(of), true
			}
		}
	}
	if domain == "" {
		return "", false
	}
	for pool, of := range domains { // a subject of its own pools is right
		if of == domain && slices.ContainsFunc(poolSubjects(pool), func(own string) bool { return covers(own, subject) }) {
			return "", false
		}
	}
	for _, hubs := range []string{"admit.>", settingsSubject, leftPrefix + ">", "task.>", "claim.>", "done.>", "key.>",
		"result.>", "$O." + blobBucket + ".>"} {
		if overlap(subject, hubs) {
			return placeOf(""), true
		}
	}
	return "", false
}

// poolSubjects are the subjects of a pool's streams.
func poolSubjects(pool string) []string {
	t := wire.Token(pool)
	return []string{"task." + t + ".>", "claim." + t + ".>", "done." + t + ".*", "key." + t + ".>", "result." + t + ".>",
		"$O." + poolBucket(pool) + ".>"}
}

// overlap reports whether a message could have both subjects, which may have wildcards.
func overlap(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		switch {
		case x[i] == ">" || y[i] == ">":
			return true
		case x[i] != y[i] && x[i] != "*" && y[i] != "*":
			return false
		}
	}
	return len(x) == len(y)
}

// covers reports whether every message with a subject has the wide one as well.
func covers(wide, subject string) bool {
	w, s := strings.Split(wide, "."), strings.Split(subject, ".")
	for i, t := range w {
		switch {
		case t == ">":
			return i < len(s)
		case i >= len(s) || s[i] == ">" || t != "*" && t != s[i]:
			return false
		}
	}
	return len(w) == len(s)
}

// misplaced returns why a worker takes no tasks although it is alive, as its heartbeat shows: it uses another store
// than that of its pool, or is of a version that knows only the store of all pools.
func (r *regions) misplaced(pool string, h nats.Header) string {
	is, ok := placeIn(h)
	if !ok {
		return "its version takes tasks from the stream of all pools, which is no more: update it"
	}
	want := r.regional(pool)
	if is == want {
		return ""
	}
	if want == "" {
		return fmt.Sprintf("it uses the JetStream domain %q, and the message store of its pool is at the hub: start it "+
			"without -domain, or use: coordinator pools set %s -domain %s", is, pool, is)
	}
	return fmt.Sprintf("it uses the message store %s, and that of its pool is in the domain %q: start it with -domain %s",
		inStore(is), want, want)
}

// inStore names the store of a worker in a sentence.
func inStore(domain string) string {
	if domain == "" {
		return "at the hub"
	}
	return fmt.Sprintf("in the domain %q", domain)
}
