package loop

import "time"

// The time that is left is estimated from what the operations of this run took, by kind (resource type and action); of
// kinds of which none has ended, from what earlier runs recorded; else from all that have ended in this run. What is
// under way counts with its age, as the least that it takes: those that end first are the short ones, and going by them
// alone would promise too much.
//
// What is left is bound by the work, which as many share as run now, and by the longest way through what is left.

// kind is what the loop knows of the operations of one resource type and action.
type kind struct {
	recorded float64 // seconds that earlier runs took; 0: unknown
	left     int     // vertices that are not settled
	ended    int     // whose operations have been done in this run
	took     float64 // seconds that those took

	// While an estimate is made: those under way, their ages, and what one takes.
	running int
	each    float64
}

// kindOf returns the number of the kind of a vertex that joins, which is one more that is left.
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

// leave counts a vertex out that is settled.
func (t *tally) leave(x *vertex) {
	t.weights -= float64(x.weight)
	t.kinds[x.kind].left--
}

// learn takes how long the operations of a vertex took.
func (t *tally) learn(x *vertex, took time.Duration) {
	if took > 0 {
		t.kinds[x.kind].ended++
		t.kinds[x.kind].took += took.Seconds()
	}
}

// estimate returns the time to the end of the run; zero when nothing is known.
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
