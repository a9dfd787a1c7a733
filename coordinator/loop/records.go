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
