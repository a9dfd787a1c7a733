package loop

// gatherAtMost is the most records that are gathered for one transaction. A transaction costs as much as storing a
// dozen objects, so few larger ones take less time than many small ones.
const gatherAtMost = 256

// records are the records that are to become durable. Those that nothing waits for are gathered, and share a
// transaction.
type records struct {
	*common
	saving   int      // how many are being committed, or gathered
	gathered []Record // see flush
	hurry    bool     // something waits for one of them
}

// add asks for a record to be committed. mayWait says that nothing waits for it.
func (rs *records) add(r Record, mayWait bool) {
	rs.saving++
	rs.gathered = append(rs.gathered, r)
	rs.hurry = rs.hurry || !mayWait
}

// flush asks for the gathered records to be committed, in their order, unless more are about to join them: while calls
// are under way on the fast lane, up to gatherAtMost records wait for the next ones, at most until the next Ticked.
func (rs *records) flush(calls int, ticked bool) {
	if !rs.hurry && !ticked && !rs.halted() && calls > 0 && len(rs.gathered) < gatherAtMost {
		return
	}
	for _, r := range rs.gathered {
		rs.do(Commit{r})
	}
	clear(rs.gathered)
	rs.gathered, rs.hurry = rs.gathered[:0], false
}

// save asks for a record to be committed.
func (l *Loop) save(r Record) { l.records.add(r, l.canWait(&r)) }

// canWait reports whether nothing can start that could not start before once the record is durable: it is the outcome
// of an operation of the fast lane, whose vertex holds no permits, and each of its dependents also waits for vertices
// that have no outcome yet. A crash before the commit loses no more than one just before the outcome: a resumed run
// repeats the operation, which has changed nothing outside of the state.
func (l *Loop) canWait(r *Record) bool {
	if r.Kind != Concluded || l.halted() {
		return false
	}
	w := l.vertices[r.Vertex].work
	if w.step.Bad() || w.attempt != "" || len(w.permits) > 0 || w.place.limit != nil || l.Past[r.Vertex] != nil {
		return false
	}
	for after := range l.Program.Graph().After(r.Vertex) {
		if l.sched.Waits(after) <= l.records.saving+1 { // with this one
			return false
		}
	}
	return true
}
