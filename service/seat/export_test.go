package seat

import "net/http"

// Of is seatOf.
var Of = seatOf

// BoundTimelines bounds the timelines of calls until restore is called.
func BoundTimelines(bytes int) (restore func()) {
	before := maxTimeline
	maxTimeline = bytes
	return func() { maxTimeline = before }
}

// Answer answers a request of the engine on a seat.
func Answer(s *Seats, number int, w http.ResponseWriter, r *http.Request) {
	t := s.seats[number-1]
	t.mu.Lock()
	e := t.engine
	t.mu.Unlock()
	e.handler(http.NotFoundHandler()).ServeHTTP(w, r)
}
