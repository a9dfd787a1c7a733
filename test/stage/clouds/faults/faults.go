// Package faults injects faults into the fakes of services: error statuses, missing responses, broken connections, lost
// responses, and a wrong clock.
//
// It does not interpret requests, except for the time of their signature.
package faults

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Fault is the fault of one request. The zero value is none.
type Fault struct {
	// Status is the status of the response, and the request is not executed. RetryAfter, if it is not 0, is the value of
	// the header Retry-After, in seconds.
	Status, RetryAfter int
	// Silent sends no response. The connection is closed when the faults change.
	Silent bool
	// Broken closes the connection at once; Lost executes the request before.
	Broken, Lost bool
}

// Faults injects faults into the requests to a service. The zero value injects none. It is safe for concurrent use.
type Faults struct {
	mu      sync.Mutex // guards the fields below
	choose  func(r *http.Request) Fault
	ahead   time.Duration
	changed chan struct{} // closed when choose changes
}

// Set sets the function that chooses the fault of each request; nil means no faults. choose is called by one request at
// a time.
func (f *Faults) Set(choose func(r *http.Request) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.choose = choose
	if f.changed != nil {
		close(f.changed)
	}
	f.changed = make(chan struct{})
}

// Always sets the same fault for all requests.
func (f *Faults) Always(fault Fault) { f.Set(func(*http.Request) Fault { return fault }) }

// Ahead sets the service's clock ahead. The service rejects signatures whose time differs from it by more than fifteen
// minutes.
func (f *Faults) Ahead(by time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ahead = by
}

// Now returns the time of the service's clock.
func (f *Faults) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Now().Add(f.ahead)
}

// Before returns a handler that injects the faults and passes all other requests to h.
func (f *Faults) Before(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // the server notices a closed connection only after the body was read
		if err != nil {
			return // the client has closed the connection
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		fault, ahead, changed := f.next(r)
		switch {
		case fault.Silent:
			select {
			case <-changed:
			case <-r.Context().Done():
			}
			panic(http.ErrAbortHandler) // closes the connection
		case fault.Broken:
			panic(http.ErrAbortHandler)
		case fault.Status != 0:
			if fault.RetryAfter != 0 {
				w.Header().Set("Retry-After", strconv.Itoa(fault.RetryAfter))
			}
			w.WriteHeader(fault.Status)
			return
		}
		if ahead != 0 {
			now := time.Now().Add(ahead)
			w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
			if at, signed := signedAt(r); signed && now.Sub(at).Abs() > tolerated {
				refusal := "<Error><Code>RequestTimeTooSkewed</Code><Message>The request has another time than the " +
					"service.</Message></Error>"
				if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") { // a request to STS
					refusal = "<ErrorResponse>" + refusal + "</ErrorResponse>"
				}
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, refusal)
				return
			}
		}
		if fault.Lost {
			h.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(w, r)
	})
}

func (f *Faults) next(r *http.Request) (Fault, time.Duration, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.choose == nil {
		return Fault{}, f.ahead, nil
	}
	return f.choose(r), f.ahead, f.changed
}

// tolerated is the maximum difference between the time of a signature and the service's clock.
const tolerated = 15 * time.Minute

// signedAt returns the time of a request's signature, in the format of any of the services.
func signedAt(r *http.Request) (time.Time, bool) {
	for name, format := range map[string]string{
		"X-Amz-Date": "20060102T150405Z", "X-Ms-Date": http.TimeFormat, "Date": http.TimeFormat,
		"X-Ots-Date": "2006-01-02T15:04:05.000Z",
	} {
		if at, err := time.Parse(format, r.Header.Get(name)); err == nil {
			return at, true
		}
	}
	seconds := r.Header.Get("X-Tc-Timestamp")
	if _, during, ok := strings.Cut(r.Header.Get("Authorization"), "q-sign-time="); ok {
		seconds, _, _ = strings.Cut(during, ";")
	}
	if n, err := strconv.ParseInt(seconds, 10, 64); err == nil {
		return time.Unix(n, 0), true
	}
	at, err := time.Parse("2006-01-02T15:04:05Z", r.URL.Query().Get("Timestamp"))
	return at, err == nil
}
