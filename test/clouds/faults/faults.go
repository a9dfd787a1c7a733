// Package faults lets the fakes of services go wrong, all in the same ways: they refuse, are silent, break connections,
// lose answers, and have another time than the machine.
//
// It understands nothing of what is asked, but for the time in signatures.
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

// Fault is what becomes of a request. The zero value lets it through.
type Fault struct {
	// Status is answered in the service's place; RetryAfter says for how many seconds, if it is not 0.
	Status, RetryAfter int
	// Silent answers nothing, until the faults change; the connection breaks then.
	Silent bool
	// Broken breaks the connection; Lost does so after the request was carried out.
	Broken, Lost bool
}

// Faults stand before a service. The zero value lets everything through. Safe for concurrent use.
type Faults struct {
	mu      sync.Mutex // guards what follows
	choose  func(r *http.Request) Fault
	ahead   time.Duration
	changed chan struct{} // closed when choose changes
}

// Set has choose say what becomes of each request from now on; nil lets everything through. choose is called by one
// request at a time.
func (f *Faults) Set(choose func(r *http.Request) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.choose = choose
	if f.changed != nil {
		close(f.changed)
	}
	f.changed = make(chan struct{})
}

// Always has the same become of each request.
func (f *Faults) Always(fault Fault) { f.Set(func(*http.Request) Fault { return fault }) }

// Ahead sets the service's clock, by which it refuses signatures that are older or younger than fifteen minutes.
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

// Before returns a handler that h stands behind.
func (f *Faults) Before(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // else a connection cannot be seen to break
		if err != nil {
			return // who has asked is gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		fault, ahead, changed := f.next(r)
		switch {
		case fault.Silent:
			select {
			case <-changed:
			case <-r.Context().Done():
			}
			panic(http.ErrAbortHandler) // which breaks the connection
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
				if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") { // as STS
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

// tolerated is how far the time of a signature may be from that of the service.
const tolerated = 15 * time.Minute

// signedAt returns the time of a request's signature, in the forms that the services have for it.
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
