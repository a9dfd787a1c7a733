package loop

import (
	"slices"
	"time"
)

// The loop estimates the remaining time from durations by kind (resource type and action). For a kind that has ended
// operations in this run, it uses those; for another one, the durations that earlier runs recorded; and without such a
// record, all operations that have ended in this run. A running operation counts with its age, which is the least that
// it will take: the short operations end first, so an estimate from ended ones alone would be too low.
//
// The estimate is the longest one of these times: the remaining work, divided by the number of operations that run now;
// the longest chain of remaining vertices; and for each limit, the remaining work that needs its permits, divided by
// the permits that the run can have. Which limits a vertex needs is known once it is prepared; others count as those of
// their kind do.

// kind is what the loop knows about the operations of one resource type and action.
type kind struct {
	recorded float64 // seconds that earlier runs took; 0: unknown
	left     int     // vertices that are not settled
	ended    int     // whose operations have been done in this run
	took     float64 // seconds that those took
	queued   int     // vertices that have been queued: their limits are known
	waiting  int     // those of them that are left
	classes  []share // all that have been queued, by class

	// While an estimate is made: those under way, their ages, and what one takes.
	running int
	each    float64
}

// share is how many vertices of a kind are of a class: all that were queued so far, and those that are left.
type share struct {
	class     int32
	all, left int
}

// queuedIn notes the class in which a vertex is queued; was is the one before, or not one of a limit.
func (t *tally) queuedIn(x *vertex, was int32) {
	k := &t.kinds[x.kind]
	if was == x.class {
		return
	}
	if was >= firstClass {
		k.leave(was) // it waits for other limits than before
	} else {
		k.queued++
	}
	i := slices.IndexFunc(k.classes, func(m share) bool { return m.class == x.class })
	if i < 0 {
		i = len(k.classes)
		k.classes = append(k.classes, share{class: x.class})
	}
	k.classes[i].all++
	k.classes[i].left++
	k.waiting++
}

// leave no longer counts a vertex of a class as left.
func (k *kind) leave(class int32) {
	for i := range k.classes {
		if k.classes[i].class == class {
			k.classes[i].left--
			k.waiting--
			return
		}
	}
}

// bound returns the time that the remaining work takes because of limits. What one operation of each kind takes is
// known.
func (t *tally) bound(classes []*class, limits []*limit) (longest float64) {
	for _, lim := range limits {
		lim.work = 0
	}
	for i := range t.kinds {
		k := &t.kinds[i]
		unknown := float64(k.left - k.waiting)
		for _, m := range k.classes {
			work := k.each * (float64(m.left) + unknown*float64(m.all)/float64(k.queued))
			for lim := range classes[m.class-firstClass].needs() {
				lim.work += work
			}
		}
	}
	for _, lim := range limits {
		permits := lim.slots
		if lim.want > 0 && lim.inUse > 0 && len(lim.idle) == 0 {
			permits = lim.inUse // other runs have the rest
		}
		if permits > 0 {
			longest = max(longest, lim.work/float64(permits))
		}
	}
	return longest
}

// kindOf returns the number of the kind of a vertex that is added, and counts the vertex as left.
func (t *tally) kindOf(key string, recorded float64) int32 {
	n, ok := t.kindAt[key]
	if !ok {
		if t.kindAt == nil {
			t.kindAt = map[string]int32{}
		}
		n = int32(len(t.kinds))
		t.kindAt[key] = n
		t.kinds = append(t.kinds, kind{recorded: recorded})
	}
	t.kinds[n].left++
	return n
}

// leave no longer counts a settled vertex as left.
func (t *tally) leave(x *vertex) {
	t.weights -= float64(x.weight)
	t.kinds[x.kind].left--
	if x.class >= firstClass {
		t.kinds[x.kind].leave(x.class)
	}
}

// learn adds how long the operations of a vertex took.
func (t *tally) learn(x *vertex, took time.Duration) {
	if took > 0 {
		t.kinds[x.kind].ended++
		t.kinds[x.kind].took += took.Seconds()
	}
}

// estimate returns the time until the end of the run; zero if nothing is known.
func (t *tally) estimate(qs *queues, limits []*limit, running int) time.Duration {
	ages, all, ended := make([]float64, len(t.kinds)), 0.0, 0
	for i := range t.kinds {
		t.kinds[i].running = 0
		all += t.kinds[i].took
		ended += t.kinds[i].ended
	}
	for _, v := range qs.out {
		if x := &qs.vertices[v]; !x.hidden {
			t.kinds[x.kind].running++
		}
	}
	known := ended > 0
	for i := range t.kinds {
		k := &t.kinds[i]
		switch {
		case k.ended > 0:
			k.each = k.took / float64(k.ended)
		case k.recorded > 0:
			k.each = k.recorded
			known = known || k.left > 0
		case ended > 0:
			k.each = all / float64(ended)
		default:
			k.each = 1
		}
	}
	if !known {
		return 0
	}
	for _, v := range qs.out { // each counts as one that takes at least its age
		if x := &qs.vertices[v]; !x.hidden {
			ages[x.kind] += max(qs.now.Sub(x.work.called).Seconds(), t.kinds[x.kind].each)
		}
	}
	work, whole := 0.0, 0.0
	for i := range t.kinds {
		k := &t.kinds[i]
		if k.running > 0 {
			n := float64(max(k.ended, 1))
			k.each = (k.each*n + ages[i]) / (n + float64(k.running))
		}
		work += k.each * float64(k.left-k.running)
		whole += k.each * float64(k.left)
	}
	scale := 1.0
	if t.weights > 0 {
		scale = whole / t.weights
	}
	longest := 0.0
	for _, v := range qs.out {
		x := &qs.vertices[v]
		if x.hidden {
			continue
		}
		age := qs.now.Sub(x.work.called).Seconds()
		rest := max(t.kinds[x.kind].each-age, age/10)
		work += rest
		longest = max(longest, rest+max(0, qs.sched.Priority(v)-float64(x.weight))*scale)
	}
	for i := range qs.classes {
		if v, ok := qs.sched.First(i + firstClass); ok {
			longest = max(longest, qs.sched.Priority(v)*scale)
		}
	}
	if v, ok := qs.sched.First(visibleClass); ok {
		longest = max(longest, qs.sched.Priority(v)*scale)
	}
	left := max(work/float64(max(1, running)), longest, t.bound(qs.classes, limits))
	return time.Duration(left * float64(time.Second))
}
