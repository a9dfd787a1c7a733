// Package relay passes the requests that reach any member of a group on to the member that leads, so that what was
// answered by one is read from the next.
//
// It knows no endpoints but /healthz and /readyz, and decides nothing: package group says who leads.
package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/service/gate"
)

// Options configure a Relay. Zero fields mean defaults.
type Options struct {
	// Transport reaches other members, by their addresses; see Identity.Client.
	Transport http.RoundTripper
	Logger    *slog.Logger
	// Patience is how long a request waits for a member that leads; default 10 s.
	Patience time.Duration
}

// The headers between members. Requests of clients lose them.
const (
	// clientHeader has the address of the client whose request a member passes on.
	clientHeader = "Millipede-Client"
	// notLeading is in the answer of a member that has done nothing, because it does not lead.
	notLeading = "Millipede-Not-Leading"
)

// replayable is the size up to which the body of a request is kept, so that it can be sent to another member, in bytes.
const replayable = 1 << 20

// Relay is the handler of all requests to a member. Safe for concurrent use.
type Relay struct {
	o     Options
	proxy *httputil.ReverseProxy

	mu      sync.Mutex    // guards the fields below
	busy    int           // requests that are answered here
	idle    chan struct{} // closed when there are none; nil if nobody waits for that
	changed chan struct{}
	serve   http.Handler // while this member leads
	fresh   func() bool
	name    string // of the leader
	address string // of another one that leads; empty if none is known
}

// New returns a relay that knows no leader.
func New(o Options) *Relay {
	if o.Patience == 0 {
		o.Patience = 10 * time.Second
	}
	r := &Relay{o: o, changed: make(chan struct{})}
	r.proxy = &httputil.ReverseProxy{Rewrite: rewrite, FlushInterval: -1, Transport: passing{r}, ErrorHandler: r.failed,
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug)}
	return r
}

// Lead has this member answer with h, as long as fresh returns true; while it does not, requests wait. name is that of
// this member.
func (r *Relay) Lead(name string, h http.Handler, fresh func() bool) {
	r.set(func() { r.serve, r.fresh, r.name, r.address = h, fresh, name, "" })
}

// Follow has requests passed on to another member; if the name is empty, they wait for one.
func (r *Relay) Follow(name, address string) {
	r.set(func() { r.serve, r.fresh, r.name, r.address = nil, nil, name, address })
}

func (r *Relay) count(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy += n; r.busy == 0 && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
}

func (r *Relay) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

// place is where requests go at a moment.
type place struct {
	serve         http.Handler
	fresh         func() bool
	name, address string
	changed       <-chan struct{} // closed when this is over
}

func (p *place) here() bool { return p.serve != nil && p.fresh() }

func (r *Relay) place() place {
	r.mu.Lock()
	defer r.mu.Unlock()
	return place{r.serve, r.fresh, r.name, r.address, r.changed}
}

// ServeHTTP implements http.Handler.
func (r *Relay) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	switch q.URL.Path {
	case "/healthz":
		w.WriteHeader(http.StatusOK)
		return
	case "/readyz":
		r.ready(w, q)
		return
	}
	peer := IsPeer(q)
	if peer {
		q.RemoteAddr = q.Header.Get(clientHeader)
	}
	q.Header.Del(clientHeader)
	if p := r.place(); p.here() {
		r.local(w, q, &p)
		return
	}
	if peer { // it asks the next one itself
		w.Header().Set(notLeading, "true")
		unavailable(w, "this member does not lead the group")
		return
	}
	q = gate.InTime(w, q)
	body, err := newBody(q)
	if err != nil {
		refuse(w, http.StatusRequestTimeout, "the body of the request has not arrived")
		return
	}
	r.proxy.ServeHTTP(w, q.WithContext(context.WithValue(q.Context(), bodyKey{}, body)))
}

// ready answers whether the member can be sent requests.
func (r *Relay) ready(w http.ResponseWriter, q *http.Request) {
	p := r.place()
	switch {
	case p.here():
		p.serve.ServeHTTP(w, q)
	case p.serve == nil && p.address != "":
		fmt.Fprintf(w, "standby: %s leads\n", p.name)
	case p.serve != nil:
		unavailable(w, "the log of the group does not answer: is a majority of the NATS servers up?")
	default:
		unavailable(w, "no member leads the group")
	}
}

// Drain has new requests wait for another leader, and returns when all that are answered here have been answered, or
// after most: streams do not end.
func (r *Relay) Drain(most time.Duration) {
	r.Follow("", "")
	r.mu.Lock()
	idle := make(chan struct{})
	if r.busy == 0 {
		close(idle)
	} else {
		r.idle = idle
	}
	r.mu.Unlock()
	limit := time.NewTimer(most)
	defer limit.Stop()
	select {
	case <-idle:
	case <-limit.C:
	}
}

// local answers in this process.
func (r *Relay) local(w http.ResponseWriter, q *http.Request, p *place) {
	r.count(1)
	defer r.count(-1)
	p.serve.ServeHTTP(&leading{ResponseWriter: w, over: func() bool {
		now := r.place()
		return now.serve == nil || now.changed != p.changed || !p.fresh()
	}}, q)
}

// rewrite makes the request to another member.
func rewrite(p *httputil.ProxyRequest) {
	p.Out.URL.Scheme, p.Out.Host = "https", p.In.Host
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if v, ok := p.In.Header[name]; ok { // the leader knows which proxies are trusted
			p.Out.Header[name] = v
		}
	}
	p.Out.Header.Set(clientHeader, p.In.RemoteAddr)
}

// body is the body of a request, which can be sent again if it is small.
type body struct {
	of   *http.Request // as the client has sent it
	kept []byte
	rest io.ReadCloser // nil if all of it is kept
	sent bool
}

type bodyKey struct{}

func newBody(q *http.Request) (*body, error) {
	if q.Body == nil || q.Body == http.NoBody {
		return &body{of: q}, nil
	}
	if q.ContentLength > replayable {
		return &body{of: q, rest: q.Body}, nil
	}
	kept, err := io.ReadAll(io.LimitReader(q.Body, replayable))
	if err != nil {
		return nil, err
	}
	b := &body{of: q, kept: kept}
	if len(kept) == replayable {
		b.rest = q.Body
	}
	return b, nil
}

// reader returns the body for one more try; nil if that cannot be.
func (b *body) reader() io.ReadCloser {
	if b.rest == nil {
		return io.NopCloser(bytes.NewReader(b.kept))
	}
	if b.sent {
		return nil
	}
	b.sent = true
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(b.kept), b.rest), b.rest}
}

// Errors of a request that was not answered by another member.
var (
	errHere   = errors.New("this member leads now")
	errNobody = errors.New("no member leads the group at the moment")
	errAnswer = errors.New("the member that leads the group has gone before it answered: it is not known whether it has " +
		"done what was asked")
)

// passing sends a request to the member that leads, and to the next one if it has certainly done nothing. It implements
// http.RoundTripper.
type passing struct{ *Relay }

// RoundTrip implements http.RoundTripper.
func (r passing) RoundTrip(q *http.Request) (*http.Response, error) {
	waiting, cancel := context.WithTimeout(q.Context(), r.o.Patience)
	defer cancel()
	b, _ := q.Context().Value(bodyKey{}).(*body)
	for {
		p := r.place()
		if p.here() {
			return nil, errHere
		}
		if p.serve == nil && p.address != "" {
			response, again, err := r.try(q, b, p.address)
			if !again {
				return response, err
			}
		}
		// A leader that hears nothing from the log says nothing when it does again.
		soon := time.NewTimer(retryPause)
		select {
		case <-p.changed:
		case <-soon.C:
		case <-waiting.Done():
			soon.Stop()
			return nil, errors.Join(errNobody, q.Context().Err())
		}
		soon.Stop()
	}
}

// retryPause is the longest time after which another member is looked for.
const retryPause = 100 * time.Millisecond

// try sends a request once. again says that nothing was done, and that the request can be sent once more.
func (r passing) try(q *http.Request, b *body, address string) (response *http.Response, again bool, err error) {
	content := b.reader()
	if content == nil {
		return nil, false, errAnswer
	}
	ctx, cut := context.WithCancelCause(q.Context())
	out := q.Clone(ctx)
	out.URL.Host, out.Body = address, content
	go r.watch(ctx, cut, address)
	response, err = r.o.Transport.RoundTrip(out)
	if err != nil {
		cut(nil)
	} else {
		response.Body = &cutBody{response.Body, cut}
	}
	safe := q.Method == http.MethodGet || q.Method == http.MethodHead
	switch {
	case err == nil && response.Header.Get(notLeading) != "":
		_ = response.Body.Close() // it says no more
		return nil, b.rest == nil, errNobody
	case err == nil:
		return response, false, nil
	case q.Context().Err() != nil:
		return nil, false, q.Context().Err()
	case safe || unsent(err):
		return nil, true, err
	}
	r.o.Logger.Warn("a request was not answered by the member that leads", "method", q.Method, "path", q.URL.Path,
		"error", err)
	return nil, false, fmt.Errorf("%w (%w)", errAnswer, err)
}

// lingers is how long a member that leads no more may go on answering what it was asked before.
const lingers = time.Second

// watch ends a request to a member when another one leads: the former may be frozen.
func (r *Relay) watch(ctx context.Context, cut context.CancelCauseFunc, address string) {
	for {
		p := r.place()
		if p.address != address {
			break
		}
		select {
		case <-p.changed:
		case <-ctx.Done():
			return
		}
	}
	_ = sleep.For(ctx, lingers) // cut does nothing when ctx has ended
	cut(errFormer)
}

var errFormer = errors.New("another member leads")

// cutBody is the body of an answer, whose request is watched until it is closed.
type cutBody struct {
	io.ReadCloser
	cut context.CancelCauseFunc
}

// Close implements io.Closer.
func (b *cutBody) Close() error {
	b.cut(nil)
	return b.ReadCloser.Close()
}

// failed answers a request that no other member has answered.
func (r *Relay) failed(w http.ResponseWriter, q *http.Request, err error) {
	b, _ := q.Context().Value(bodyKey{}).(*body)
	switch {
	case errors.Is(err, errHere):
		p := r.place()
		content := b.reader()
		if p.serve == nil || content == nil {
			unavailable(w, "the group has got another leader: try again")
			return
		}
		b.of.Body = content
		r.local(w, b.of, &p)
	case q.Context().Err() != nil: // the client has gone
	case errors.Is(err, errAnswer):
		refuse(w, http.StatusServiceUnavailable, err.Error())
	default:
		unavailable(w, errNobody.Error()+": try again")
	}
}

// unavailable answers that nothing was done, and that a repetition may help.
func unavailable(w http.ResponseWriter, detail string) {
	w.Header().Set("Retry-After", "1")
	refuse(w, http.StatusServiceUnavailable, detail)
}

// refuse writes an error in the form that clients of the API show.
func refuse(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/vnd.api+json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"errors":[{"status":"%d","title":"the service is not available","detail":%q}]}`+"\n", status,
		detail)
}

// leading is the response of a member that leads. When it leads no more, its errors are no answers about the request:
// it may have failed because its change was refused.
type leading struct {
	http.ResponseWriter
	over func() bool
	lost bool
}

// WriteHeader implements http.ResponseWriter.
func (l *leading) WriteHeader(status int) {
	if status >= http.StatusInternalServerError && l.over() {
		l.lost = true
		l.Header().Del("Content-Length")
		unavailable(l.ResponseWriter, "the member that answered leads no more: try again")
		return
	}
	l.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (l *leading) Write(p []byte) (int, error) {
	if l.lost {
		return len(p), nil
	}
	return l.ResponseWriter.Write(p)
}

// Unwrap gives http.ResponseController access to the underlying writer.
func (l *leading) Unwrap() http.ResponseWriter { return l.ResponseWriter }
