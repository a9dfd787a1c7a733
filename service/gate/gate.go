// Package gate is the middleware in front of all interfaces of the service: it limits the rate of failed
// authentication and the time for bodies, finds the client behind a proxy, recovers panics, and logs requests.
//
// It knows no endpoints: it looks only at the status of a response.
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

// Options configure the middleware.
type Options struct {
	Now    func() time.Time
	Logger *slog.Logger
	// Secret are prefixes of paths whose remainder is a secret that must not be logged. The secret authenticates the
	// request, and is too long to be guessed.
	Secret []string
	// Known reports whether a request has a valid token. It is asked for addresses alone that are to wait.
	Known func(*http.Request) bool
	// Proxies are trusted to name the clients whose requests they pass on. The other interfaces find the client's
	// address in the request's RemoteAddr.
	Proxies Proxies
	// BodyTime is how long the body of a request may take that arrives at less than a kilobyte a second; default 30 s.
	BodyTime time.Duration
	// Secure makes browsers use only HTTPS for this host from now on, for a year. A browser that has accepted it refuses
	// an untrusted certificate without a way around, and HTTP on all ports of the host.
	Secure bool
	// Ready returns an error with the reason if the service cannot serve requests.
	Ready func(context.Context) error
	// Facts returns what /readyz says about a service that is ready, for operators.
	Facts func() string
}

// The rate of unauthorized requests that an address may make: a burst, and the time for one more.
const (
	refusedAtOnce = 60
	refusedEvery  = time.Second
	// maxAddresses bounds how many addresses are remembered.
	maxAddresses = 10_000
)

// gate implements the middleware.
type gate struct {
	next http.Handler
	o    Options

	mu      sync.Mutex // guards refused
	refused map[string]*rate.Limiter
}

// Handler wraps next. It serves /healthz (the process is running) and /readyz (it can serve requests) itself.
func Handler(next http.Handler, o Options) http.Handler {
	if o.BodyTime == 0 {
		o.BodyTime = bodyTime
	}
	return &gate{next: next, o: o, refused: map[string]*rate.Limiter{}}
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.o.Secure {
		w.Header().Set("Strict-Transport-Security", "max-age=31536000")
	}
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
		if g.o.Facts != nil {
			_, _ = fmt.Fprintln(w, g.o.Facts()) // whoever does not read it need not
		}
		return
	}
	r = inTime(w, g.o.Proxies.fromClient(r), g.o.BodyTime)
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = r.RemoteAddr
	}
	if wait := g.wait(from); wait > 0 && !g.authenticated(r) {
		w.Header().Set("X-RateLimit-Reset", strconv.FormatFloat(wait.Seconds(), 'f', 3, 64))
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		refuse(w, http.StatusTooManyRequests, "too many requests",
			"there were too many requests without a valid token from this address")
		return
	}
	answer, began := &recorder{ResponseWriter: w}, g.o.Now()
	defer func() {
		bug := recover()
		switch {
		case bug == http.ErrAbortHandler: //nolint:errorlint // net/http compares it in the same way
			panic(bug)
		case bug != nil:
			g.o.Logger.Error("a bug in the service", "method", r.Method, "path", r.URL.Path, "panic", bug, "stack",
				string(debug.Stack()))
			if answer.status == 0 {
				refuse(w, http.StatusInternalServerError, "internal error",
					"internal error; see the log of the service")
			}
		}
		if answer.status == http.StatusUnauthorized {
			g.count(from)
		}
		g.log(r, answer.status, from, g.o.Now().Sub(began))
	}()
	g.next.ServeHTTP(answer, r)
}

// authenticated reports whether a request need not wait although its address has to. People behind one proxy share an
// address: a program with an expired token there must not keep the others out.
func (g *gate) authenticated(r *http.Request) bool {
	for _, before := range g.o.Secret {
		if strings.HasPrefix(r.URL.Path, before) {
			return true
		}
	}
	return g.o.Known != nil && g.o.Known(r)
}

// log logs a request; reading ones at the level debug, failed ones at the level error. Queries and headers are omitted,
// because they may contain tokens.
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

// refuse writes an error in the form that clients of the API show.
func refuse(w http.ResponseWriter, status int, title, detail string) {
	w.Header().Set("Content-Type", "application/vnd.api+json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"errors":[{"status":"%d","title":%q,"detail":%q}]}`+"\n", status, title, detail)
}

// wait returns how long an address must wait before its next request; 0 if it need not.
func (g *gate) wait(from string) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.refused[from]
	if l == nil || l.TokensAt(g.o.Now()) >= 1 {
		return 0
	}
	return refusedEvery
}

// count records an unauthorized request of an address.
func (g *gate) count(from string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.refused[from]
	if l == nil {
		if len(g.refused) >= maxAddresses {
			for old, l := range g.refused { // forget addresses whose burst is available again
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

// recorder records the status of a response.
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

// Unwrap gives http.ResponseController access to the underlying writer.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
