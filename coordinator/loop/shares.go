package loop

// Pools share the limits that cover several of them. A pool that has taken all permits of such a limit keeps the others
// from working for as long as its operations last: very long, if its region is cut off. So while vertices of other
// pools could start, a pool uses no more than its share of the permits that the run has: in proportion to what it uses
// and what could start there, and at least one. A pool that nobody waits beside may use all.

// count notes that a pool uses more or fewer permits of a limit.
func (lim *limit) count(p *pool, by int) {
	if p == nil {
		return
	}
	if lim.by == nil {
		lim.by = map[*pool]int{}
	}
	if lim.by[p] += by; lim.by[p] == 0 {
		delete(lim.by, p)
	}
}

// overShare reports whether the pool of a class uses its share of a limit while vertices of other pools could start.
func (qs *queues) overShare(c *class) bool {
	for _, lim := range c.limits {
		if lim.by[c.pool] > 0 && lim.by[c.pool] >= qs.share(lim, c.pool) {
			return true
		}
	}
	return false
}

// share returns how many permits of a limit a pool may use: all if no vertex of another pool could start.
func (qs *queues) share(lim *limit, p *pool) int {
	own, others, waits := lim.by[p], 0, false
	for q, n := range lim.by {
		if q != p {
			others += n
		}
	}
	for i, c := range qs.classes {
		n := qs.couldStart(i, c, lim)
		if n == 0 {
			continue
		}
		if c.pool == p {
			own += n
		} else {
			others, waits = others+n, true
		}
	}
	if !waits {
		return lim.slots
	}
	// Rounded up: if each pool that could use more had its share, no permit would be left.
	return max(1, (lim.slots*own+own+others-1)/(own+others))
}

// couldStart returns how many ready vertices of a class need a permit of a limit, and could start with it now, or as
// soon as the run gets places in their pool.
func (qs *queues) couldStart(i int, c *class, lim *limit) int {
	n := qs.sched.ReadyIn(i + firstClass)
	if n == 0 || !c.served() {
		return 0
	}
	needed := false
	for l := range c.needs() {
		if l == lim {
			needed = true
			continue
		}
		n = min(n, max(0, l.slots-l.inUse))
	}
	if !needed {
		return 0
	}
	return n
}
