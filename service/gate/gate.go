// Package gate stands before all that a service answers: it bounds what those may try who are not known, and keeps a
// mistake in one answer from ending the others.
//
// It knows no endpoints: what an answer's status says is all that it looks at.
package gate

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Options say how much is let through.
type Options struct {
	Now    func() time.Time
	Logger *slog.Logger
	// Secret are beginnings of paths of which the rest gives a right, and is not logged.
	Secret []string
	// Ready tells whether the service can answer; the error says why not.
	Ready func(context.Context) error
}

// What an address may do that is refused for want of a good token: so many at once, and one more in so much time.
const (
	refusedAtOnce = 60
	refusedEvery  = time.Second
	// maxAddresses bounds how many are remembered.
	maxAddresses = 10_000
)

// gate is the handler.
type gate struct {
	next http.Handler
	o    Options

	mu      sync.Mutex // guards refused
	refused map[string]*rate.Limiter
}

// Handler stands before next. It answers /healthz (the process is there) and /readyz (it can work) itself.
func Handler(next http.Handler, o Options) http.Handler {
	return &gate{next: next, o: o, refused: map[string]*rate.Limiter{}}
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/healthz":
		w.WriteHeader(http.StatusOK)
		return
	case "/readyz":
		if err := g.o.Ready(r.Context()); err != nil {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			g.o.Logger.Warn("the service is not ready", "error", err)
			return
		}
		w.WriteHeader(http.StatusOK)
		return
	}
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = r.RemoteAddr
	}
	if wait := g.wait(from); wait > 0 {
		w.Header().Set("X-RateLimit-Reset", strconv.FormatFloat(wait.Seconds(), 'f', 3, 64))
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		refuse(w, http.StatusTooManyRequests, "too many requests",
			"there were too many requests without a good token from this address")
		return
	}
	answer, began := &recorder{ResponseWriter: w}, g.o.Now()
	defer func() {
		bug := recover()
		switch {
		case bug == http.ErrAbortHandler: //nolint:errorlint // it is compared so by net/http as well
			panic(bug)
		case bug != nil:
			g.o.Logger.Error("a mistake in the service", "method", r.Method, "path", r.URL.Path, "panic", bug, "stack",
				string(debug.Stack()))
			if answer.status == 0 {
				refuse(w, http.StatusInternalServerError, "internal error",
					"the service could not do this; its log says why")
			}
		}
		if answer.status == http.StatusUnauthorized {
			g.count(from)
		}
		g.log(r, answer.status, from, g.o.Now().Sub(began))
	}()
	g.next.ServeHTTP(answer, r)
}

// log logs a request: what only reads, and went well, for those who look closely. Queries and headers may hold tokens.
func (g *gate) log(r *http.Request, status int, from string, took time.Duration) {
	level := slog.LevelInfo
	switch {
	case status >= 500:
		level = slog.LevelError
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		level = slog.LevelDebug
	}
	path := r.URL.Path
	for _, before := range g.o.Secret {
		if strings.HasPrefix(path, before) {
			path = before + "..."
		}
	}
	g.o.Logger.Log(r.Context(), level, "request", "method", r.Method, "path", path, "status", max(status, http.StatusOK),
		"from", from, "took", took.Round(time.Microsecond))
}

// refuse answers with an error as clients of the API show it.
func refuse(w http.ResponseWriter, status int, title, detail string) {
	w.Header().Set("Content-Type", "application/vnd.api+json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"errors":[{"status":"%d","title":%q,"detail":%q}]}`+"\n", status, title, detail)
}

// wait returns how long an address has to wait that was refused too often; 0 for not.
func (g *gate) wait(from string) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.refused[from]
	if l == nil || l.TokensAt(g.o.Now()) >= 1 {
		return 0
	}
	return refusedEvery
}

// count notes that an address was refused.
func (g *gate) count(from string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.refused[from]
	if l == nil {
		if len(g.refused) >= maxAddresses {
			for old, l := range g.refused { // those that have waited long enough are as good as unknown
				if l.TokensAt(g.o.Now()) >= refusedAtOnce {
					delete(g.refused, old)
				}
			}
			if len(g.refused) >= maxAddresses {
				clear(g.refused)
			}
		}
		l = rate.NewLimiter(rate.Every(refusedEvery), refusedAtOnce)
		g.refused[from] = l
	}
	l.AllowN(g.o.Now(), 1)
}

// recorder notes the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach what is below.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
