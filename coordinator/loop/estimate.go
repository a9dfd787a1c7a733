package loop

import "time"

// The loop estimates the remaining time from durations by kind (resource type and action). For a kind that has ended
// operations in this run, it uses those; for another one, the durations that earlier runs recorded; and without such a
// record, all operations that have ended in this run. A running operation counts with its age, which is the least that
// it will take: the short operations end first, so an estimate from ended ones alone would be too low.
//
// The estimate is the longer one of two times: the remaining work, divided by the number of operations that run now,
// and the longest chain of remaining vertices.

// kind is what the loop knows about the operations of one resource type and action.
type kind struct {
	recorded float64 // seconds that earlier runs took; 0: unknown
	left     int     // vertices that are not settled
	ended    int     // whose operations have been done in this run
	took     float64 // seconds that those took

	// While an estimate is made: those under way, their ages, and what one takes.
	running int
	each    float64
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
}

// learn adds how long the operations of a vertex took.
func (t *tally) learn(x *vertex, took time.Duration) {
	if took > 0 {
		t.kinds[x.kind].ended++
		t.kinds[x.kind].took += took.Seconds()
	}
}

// estimate returns the time until the end of the run; zero if nothing is known.
func (l *Loop) estimate(running int) time.Duration {
	ages, all, ended := make([]float64, len(l.kinds)), 0.0, 0
	for i := range l.kinds {
		l.kinds[i].running = 0
		all += l.kinds[i].took
		ended += l.kinds[i].ended
	}
	for _, v := range l.out {
		if x := &l.vertices[v]; !x.hidden {
			l.kinds[x.kind].running++
		}
	}
	known := ended > 0
	for i := range l.kinds {
		k := &l.kinds[i]
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
	for _, v := range l.out { // each counts as one that takes at least its age
		if x := &l.vertices[v]; !x.hidden {
			ages[x.kind] += max(l.now.Sub(x.work.called).Seconds(), l.kinds[x.kind].each)
		}
	}
	work, whole := 0.0, 0.0
	for i := range l.kinds {
		k := &l.kinds[i]
		if k.running > 0 {
			n := float64(max(k.ended, 1))
			k.each = (k.each*n + ages[i]) / (n + float64(k.running))
		}
		work += k.each * float64(k.left-k.running)
		whole += k.each * float64(k.left)
	}
	scale := 1.0
	if l.weights > 0 {
		scale = whole / l.weights
	}
	longest := 0.0
	for _, v := range l.out {
		x := &l.vertices[v]
		if x.hidden {
			continue
		}
		age := l.now.Sub(x.work.called).Seconds()
		rest := max(l.kinds[x.kind].each-age, age/10)
		work += rest
		longest = max(longest, rest+max(0, l.sched.Priority(v)-float64(x.weight))*scale)
	}
	for i := range l.classes {
		if v, ok := l.sched.First(i + firstClass); ok {
			longest = max(longest, l.sched.Priority(v)*scale)
		}
	}
	if v, ok := l.sched.First(visibleClass); ok {
		longest = max(longest, l.sched.Priority(v)*scale)
	}
	left := max(work/float64(max(1, running)), longest)
	return time.Duration(left * float64(time.Second))
}
