package loop

// gatherAtMost is the most records that are gathered for one transaction. A transaction costs as much as storing a
// dozen objects, so few larger ones take less time than many small ones.
const gatherAtMost = 256

// save asks for a record to be committed. A record that nothing waits for is gathered with others; see flush.
func (l *Loop) save(r Record) {
	l.saving++
	l.gathered = append(l.gathered, r)
	if !l.canWait(&r) {
		l.hurry = true
	}
}

// canWait reports whether nothing can start that could not start before once the record is durable: it is the outcome
// of an operation of the fast lane, whose vertex holds no permits, and each of its dependents also waits for vertices
// that have no outcome yet. A crash before the commit loses no more than one just before the outcome: a resumed run
// repeats the operation, which has changed nothing outside of the state.
func (l *Loop) canWait(r *Record) bool {
	if r.Kind != Concluded || l.halted() {
		return false
	}
	w := l.vertices[r.Vertex].work
	if w.bad || w.attempt != "" || len(w.permits) > 0 || w.place.limit != nil || l.Past[r.Vertex] != nil {
		return false
	}
	for after := range l.Program.Graph().After(r.Vertex) {
		if l.sched.Waits(after) <= l.saving {
			return false
		}
	}
	return true
}

// flush asks for the gathered records to be committed, in their order, unless more are about to join them: while calls
// are under way on the fast lane, up to gatherAtMost records wait for the next ones, at most until the next Ticked.
func (l *Loop) flush(in Input) {
	_, ticked := in.(Ticked)
	if !l.hurry && !ticked && !l.halted() && l.counts[calling] > 0 && len(l.gathered) < gatherAtMost {
		return
	}
	for _, r := range l.gathered {
		l.do(Commit{r})
	}
	clear(l.gathered)
	l.gathered, l.hurry = l.gathered[:0], false
}
