package loop

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// The rules of permits. A run asks for no more permits than it can use, and never for more than the limit has. It uses
// a permit for one vertex after another. While other runs wait for the limit, it releases the permit when a vertex is
// done and the quantum is over, and queues behind them. It also releases a permit that it has not used for surplusTime.
const (
	quantum     = 250 * time.Millisecond
	surplusTime = 250 * time.Millisecond
	// remeasure is the interval at which a run that could use more permits checks whether the limit was raised.
	remeasure = 2 * time.Second
)

// limit is this run's view of a semaphore.
type limit struct {
	name     string
	pool     *pool // whose places these are; nil for a limit of the rules
	local    bool  // the slots are given out here alone
	slots    int
	declared bool
	exact    bool      // its size is that of the rules
	measured time.Time // when it was declared last

	idle   []permit
	inUse  int           // by vertices
	by     map[*pool]int // of inUse, by the pool of the vertex; see shares.go
	kept   int           // those of inUse whose operations are in doubt for the rest of the run
	queued []string
	taken  []bool  // which request numbers are in use
	want   int     // vertices that could use a permit now
	spare  int     // idle permits that no class was promised yet, while wants are counted
	soon   int     // of want: those that wait for nothing but the widest limit besides
	came   bool    // a permit was granted in this step
	work   float64 // while an estimate is made: the seconds of the remaining work that needs it
	short  bool    // ready vertices that need it wait for a narrower limit

	asking    bool
	sizing    bool // its size is being looked at, or changed
	contended bool

	blockers     []string     // operations in doubt of earlier runs that hold permits, by address, once for each permit
	holders      []Holder     // other runs that hold permits
	investigated time.Time    // when those were looked up last
	surplus      time.Time    // since when more are idle than wanted; zero: not
	refused      FailureTimer // with requests
}

// permit is a held slot.
type permit struct {
	limit *limit
	id    string
	since time.Time
	pool  *pool // of the vertex that uses it; nil if nobody does, for a place, and for one of an earlier process
}

// permits are the limits and the pools that this run uses, and the permits that it holds, has asked for, or is to give
// back. Permits in use are held by vertices, except for those in the maps.
type permits struct {
	*common
	*Settings
	versions   wire.Versions // that this program speaks
	limits     map[string]*limit
	limitOrder []*limit
	pools      map[string]*pool
	poolOrder  []*pool

	acking   map[int][]permit             // by message of a result: permits that are free once it is confirmed
	kept     map[wire.AttemptID]*keeping  // of operations in doubt that the run does not wait for any more
	reclaims map[PermitKey]wire.AttemptID // requests for permits that an earlier process held for an attempt
}

func newPermits(c *common, s *Settings) permits {
	return permits{common: c, Settings: s, versions: wire.Spoken(), limits: map[string]*limit{},
		pools: map[string]*pool{}, acking: map[int][]permit{}, kept: map[wire.AttemptID]*keeping{},
		reclaims: map[PermitKey]wire.AttemptID{}}
}

// limitOf returns the limit. It declares a limit that is new, or that was known only by its name. exact says that its
// size is now known.
func (ps *permits) limitOf(wl wire.Limit, exact bool) *limit {
	lim := ps.limits[wl.Name]
	if lim == nil {
		lim = &limit{name: wl.Name, slots: wl.Slots, measured: ps.now}
		ps.limits[wl.Name] = lim
		ps.limitOrder = append(ps.limitOrder, lim)
		if lim.local = ps.OwnSlots && wl.Name == wire.DefaultLimit; lim.local {
			lim.declared, lim.exact = true, true
			return lim
		}
		ps.do(Declare{wl, exact})
	} else if exact && !lim.exact {
		ps.do(Declare{wl, exact})
	}
	lim.exact = lim.exact || exact
	return lim
}

func (ps *permits) onDeclared(e Declared) {
	lim := ps.limits[e.Limit]
	lim.slots, lim.declared, lim.sizing = e.Slots, true, false
}

// beginWants begins to count what ready vertices could use.
func (ps *permits) beginWants() {
	for _, lim := range ps.limitOrder {
		lim.want, lim.soon, lim.short, lim.spare = 0, 0, false, lim.available()
	}
}

// acquire requests the permits that are wanted, as far as the limits have them.
func (ps *permits) acquire() {
	for _, lim := range ps.limitOrder {
		if !lim.declared || lim.local {
			continue
		}
		free := lim.slots - lim.inUse - len(lim.idle) - len(lim.queued)
		for range min(lim.want-len(lim.idle)-len(lim.queued), free) {
			id := ps.requestID(lim)
			lim.queued = append(lim.queued, id)
			ps.do(Acquire{PermitKey{lim.name, id}})
		}
	}
}

// passOn gives back permits that came too late: the place that they were requested for was left to others meanwhile. If
// they were kept until others ask for them, two runs could go on exchanging places and permits, each with one of the
// two that it needs.
func (ps *permits) passOn() {
	for _, lim := range ps.limitOrder {
		last := len(lim.idle) - 1
		if lim.came && lim.short && last >= lim.want && (lim.inUse == 0 || lim.contended) {
			ps.releasePermit(lim.idle[last])
			lim.idle = lim.idle[:last]
		}
		lim.came = false
	}
}

// ownName returns what the names of the requests of this process begin with. No two processes of a run use the same
// name for a request of their own: what one of them gives back late, when another one goes on with its run already,
// would be the permit of an operation of that one. Only permits of operations in the journal are passed on, by
// reacquire.
func (ps *permits) ownName() string { return OwnName(ps.Run, ps.Process) }

// OwnName returns what the names of the requests of a process of a run begin with; see Settings.Process.
func OwnName(run, process string) string {
	if process == "" {
		return run + "-"
	}
	return run + "-" + process + "-"
}

// requestID returns the lowest request name of this process that is not in use.
func (ps *permits) requestID(lim *limit) string {
	n := 0
	for n < len(lim.taken) && lim.taken[n] {
		n++
	}
	if n == len(lim.taken) {
		lim.taken = append(lim.taken, false)
	}
	lim.taken[n] = true
	return ps.ownName() + strconv.Itoa(n)
}

// forget frees the name of a request.
func (ps *permits) forget(lim *limit, id string) {
	number, _ := strings.CutPrefix(id, ps.ownName())
	if n, err := strconv.Atoi(number); err == nil && n >= 0 && n < len(lim.taken) {
		lim.taken[n] = false
	}
}

func (lim *limit) dequeue(id string) bool {
	for i, q := range lim.queued {
		if q == id {
			lim.queued = append(lim.queued[:i], lim.queued[i+1:]...)
			return true
		}
	}
	return false
}

// granted takes a permit that was asked for. One that an earlier process held is left to takeOver; then granted returns
// the attempt that it was held for.
func (ps *permits) granted(e Granted) (of wire.AttemptID, earlier bool) {
	lim := ps.limits[e.Limit]
	lim.refused = FailureTimer{}
	if a, ok := ps.reclaims[e.PermitKey]; ok {
		return a, true
	}
	lim.dequeue(e.ID)
	lim.blockers, lim.holders, lim.investigated = nil, nil, time.Time{} // it moves
	p := permit{limit: lim, id: e.ID, since: ps.now}
	if ps.halted() {
		ps.releasePermit(p)
		return "", false
	}
	lim.idle = append(lim.idle, p)
	lim.came = true
	return "", false
}

// takeOver takes the permit that an earlier process held for an attempt. If the attempt is not open any more, the
// permit is released.
func (ps *permits) takeOver(key PermitKey, open bool) (p permit, held bool) {
	lim := ps.limits[key.Limit]
	delete(ps.reclaims, key)
	lim.dequeue(key.ID)
	p = permit{limit: lim, id: key.ID, since: ps.now}
	if !open {
		ps.releasePermit(p)
		return permit{}, false
	}
	lim.inUse++
	return p, true
}

// onRefused gives up a request for a permit, unless an earlier process of the run held it for an attempt that is still
// open.
func (ps *permits) onRefused(e Refused, open func(wire.AttemptID) bool) {
	lim := ps.limits[e.Limit]
	if !ps.halted() { // else it may have been withdrawn
		ps.repeatedly(&lim.refused, fmt.Sprintf("asking for a permit of limit %q", lim.name), e.Err)
	}
	if a, ok := ps.reclaims[e.PermitKey]; ok && open(a) {
		// What runs under the permit goes on, whether it could be asked for or not: under its name, nothing else may
		// start.
		ps.do(Acquire{e.PermitKey})
		return
	}
	delete(ps.reclaims, e.PermitKey)
	lim.dequeue(e.ID)
	ps.forget(lim, e.ID)
}

// onBlocked notes who holds the permits of a limit.
func (ps *permits) onBlocked(e Blocked) {
	lim := ps.limits[e.Limit]
	lim.blockers, lim.holders = e.Addresses, e.Holders
}

// available returns how many idle permits there are.
func (lim *limit) available() int {
	if lim.local {
		return max(0, lim.slots-lim.inUse)
	}
	return len(lim.idle)
}

// use takes an idle permit. The caller has checked that there is one.
func (ps *permits) use(lim *limit) permit {
	lim.inUse++
	if lim.local {
		return permit{limit: lim, since: ps.now}
	}
	p := lim.idle[len(lim.idle)-1]
	lim.idle = lim.idle[:len(lim.idle)-1]
	return p
}

// take takes a place in the pool and a permit of each limit of the class for a vertex. The caller has checked that they
// are available.
func (ps *permits) take(w *work, c *class) {
	for lim := range c.needs() {
		if lim.pool != nil {
			w.place = ps.use(lim)
		} else {
			p := ps.use(lim)
			p.pool = c.pool
			lim.count(c.pool, 1)
			w.permits = append(w.permits, p)
		}
	}
}

// leave ends a vertex's use of its place and its permits.
func (ps *permits) leave(w *work) {
	ps.releasePlace(w)
	ps.free(w.permits)
	w.permits = nil
}

// releasePlace ends a vertex's use of its place, if it has one.
func (ps *permits) releasePlace(w *work) {
	if w.place.limit != nil {
		ps.free([]permit{w.place})
		w.place = permit{}
	}
}

// free ends the use of permits. They are released if others wait and the quantum is over, and are idle for the next
// vertex otherwise.
func (ps *permits) free(list []permit) {
	for _, p := range list {
		lim := p.limit
		lim.inUse--
		lim.count(p.pool, -1)
		p.pool = nil
		over := lim.inUse+len(lim.idle) >= lim.slots // the limit was made smaller
		if lim.local {
			continue
		}
		if ps.halted() || over || lim.contended && (ps.Yields || ps.now.Sub(p.since) >= quantum) {
			ps.releasePermit(p)
		} else {
			lim.idle = append(lim.idle, p)
		}
	}
}

// keys returns the permits that must be confirmed before an operation of the vertex starts.
func (w *work) keys() []PermitKey {
	keys := keysOf(w.permits)
	if lim := w.place.limit; lim != nil && !lim.local {
		keys = append(keys, PermitKey{lim.name, w.place.id})
	}
	return keys
}

func keysOf(ps []permit) []PermitKey {
	if len(ps) == 0 {
		return nil
	}
	keys := make([]PermitKey, 0, len(ps))
	for _, p := range ps {
		if !p.limit.local {
			keys = append(keys, PermitKey{p.limit.name, p.id})
		}
	}
	return keys
}

// confirm acknowledges the message of the result that the vertex has accepted, if there is one. Its permits are
// released once that is done, or at once without a message.
func (ps *permits) confirm(w *work) {
	ps.releasePlace(w)
	if w.delivery == 0 {
		ps.free(w.permits)
		w.permits = nil
		return
	}
	ps.ack(w.delivery, w.permits)
	w.permits, w.delivery = nil, 0
}

func (ps *permits) onAcked(e Acked) {
	ps.free(ps.acking[e.Delivery])
	delete(ps.acking, e.Delivery)
}

// ack acknowledges a message. Once that is done, permits are free.
func (ps *permits) ack(delivery int, list []permit) {
	ps.acking[delivery] = list
	ps.do(Ack{delivery})
}

// drop takes all permits of a vertex out of use after it has lost one of them to another coordinator. No operation may
// start under the others either.
func (ps *permits) drop(w *work) {
	for _, p := range w.permits {
		p.limit.inUse--
		p.limit.count(p.pool, -1)
		ps.releasePermit(p)
	}
	w.permits = nil
	if lim := w.place.limit; lim != nil {
		lim.inUse--
		ps.releasePermit(w.place)
		w.place = permit{}
	}
}

func (ps *permits) releasePermit(p permit) {
	if p.limit.local {
		return
	}
	ps.do(Release{PermitKey{p.limit.name, p.id}})
}

func (ps *permits) onContention(e Contention) {
	lim := ps.limits[e.Limit]
	lim.asking, lim.contended = false, e.Yes
	switch {
	case e.Yes && lim.pool != nil:
		// A place that waits for a narrow limit would idle, and with it a slot. All wait for the widest one. For a quantum
		// it may wait, so that the narrow limit, of which nobody keeps a permit without a place, finds who has one.
		ps.trim(lim, lim.soon, quantum)
	case e.Yes:
		ps.trim(lim, lim.want, 0)
	}
}

// trim releases idle permits until no more than keep are left, but none that is younger than age.
func (ps *permits) trim(lim *limit, keep int, age time.Duration) {
	left := lim.idle[:0]
	for i, p := range lim.idle {
		if len(left)+len(lim.idle)-i > keep && ps.now.Sub(p.since) >= age {
			ps.releasePermit(p)
		} else {
			left = append(left, p)
		}
	}
	lim.idle = left
	lim.surplus = time.Time{}
}

// giveBack releases all idle permits, and withdraws the requests for more.
func (ps *permits) giveBack() {
	for _, lim := range ps.limitOrder {
		ps.trim(lim, 0, 0)
		for _, id := range lim.queued {
			// What an earlier process left may still run under the permits that are asked for again.
			key := PermitKey{lim.name, id}
			if _, earlier := ps.reclaims[key]; !earlier {
				ps.do(Withdraw{key})
			}
		}
	}
}

// checkLimits does what depends on the time, for limits.
func (ps *permits) checkLimits() {
	for _, lim := range ps.limitOrder {
		if lim.local {
			continue
		}
		switch {
		case ps.halted():
			ps.trim(lim, 0, 0)
		case len(lim.idle) <= lim.want:
			lim.surplus = time.Time{}
		case lim.surplus.IsZero():
			lim.surplus = ps.now
		case ps.now.Sub(lim.surplus) >= surplusTime:
			ps.trim(lim, lim.want, 0)
		}
		if lim.inUse+len(lim.idle) == 0 {
			lim.contended = false
		} else if !lim.asking {
			lim.asking = true
			ps.do(AskContention{lim.name})
		}
		if lim.pool == nil && lim.want > 0 && lim.inUse+len(lim.idle) >= lim.slots &&
			ps.now.Sub(lim.measured) >= remeasure {
			lim.measured = ps.now
			ps.do(Declare{wire.Limit{Name: lim.name, Slots: lim.slots}, false})
		}
	}
}
