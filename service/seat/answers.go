package seat

import "github.com/millipede-iac/millipede/service/tables"

// mostAnswers is how many answers of a call are kept for repeated requests: far more than an engine has in progress.
const mostAnswers = 64

// answers are the answers to the newest requests of a call that change something, by the numbers of the requests. The
// zero value is empty.
type answers struct {
	all map[uint64]error
	// forgotten is the highest number whose answer may have been dropped.
	forgotten uint64
}

// of returns the answer to a request. If it is so old that its answer may have been dropped, that is an error.
func (a *answers) of(number uint64) (answer error, known bool) {
	if answer, known = a.all[number]; known {
		return answer, true
	}
	if number <= a.forgotten {
		return tables.Conflict("the request is too old: its answer is not known any more"), true
	}
	return nil, false
}

// keep keeps an answer, and drops that with the lowest number if there are too many.
func (a *answers) keep(number uint64, answer error) {
	if a.all == nil {
		a.all = map[uint64]error{}
	}
	a.all[number] = answer
	if len(a.all) <= mostAnswers {
		return
	}
	lowest := number
	for n := range a.all {
		lowest = min(lowest, n)
	}
	delete(a.all, lowest)
	a.forgotten = max(a.forgotten, lowest)
}
