package seat

import "net/http"

// Of is seatOf.
var Of = seatOf

// Answer answers a request of the engine on a seat.
func Answer(s *Seats, number int, w http.ResponseWriter, r *http.Request) {
	t := s.seats[number-1]
	t.mu.Lock()
	e := t.engine
	t.mu.Unlock()
	e.handler(http.NotFoundHandler()).ServeHTTP(w, r)
}
