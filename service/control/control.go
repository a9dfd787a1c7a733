// Package control serves the operators' functions for which the API of other products has no endpoints: halts,
// the reasons why runs wait, operations in doubt, drift, backups, users.
//
// It makes no decisions. Its routes begin with Prefix; docs/service.md describes them.
package control

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/work"
)

// Prefix is the prefix of all paths.
const Prefix = "/api/millipede/v1/"

// maxBody bounds the body of a request, in bytes.
const maxBody = 16 << 10

// maxOutcomes is maxBody for requests with the outcomes of operations in doubt.
const maxOutcomes = 1 << 20

// maxState is maxBody for requests with objects of a state.
const maxState = 64 << 20

// Handler serves requests below Prefix.
func Handler(svc *service.Service, log *slog.Logger) http.Handler {
	s := &server{svc, log}
	mux := http.NewServeMux()
	for _, at := range []string{"halt", "workspaces/{workspace}/halt"} {
		mux.Handle("GET "+Prefix+at, s.authenticated(s.halt))
		mux.Handle("PUT "+Prefix+at, s.authenticated(s.setHalt))
		mux.Handle("DELETE "+Prefix+at, s.authenticated(s.lift))
	}
	mux.Handle("GET "+Prefix+"pools/{pool}/halt", s.authenticated(s.poolHalt))
	mux.Handle("PUT "+Prefix+"pools/{pool}/halt", s.authenticated(s.drainPool))
	mux.Handle("DELETE "+Prefix+"pools/{pool}/halt", s.authenticated(s.liftPool))
	mux.Handle("GET "+Prefix+"runs/{run}/wait", s.authenticated(s.wait))
	mux.Handle("GET "+Prefix+"backup", s.authenticated(s.backup))
	mux.Handle("GET "+Prefix+"upgrade", s.authenticated(s.upgrade))
	mux.Handle("POST "+Prefix+"upgrade/finish", s.authenticated(s.finishUpgrade))
	mux.Handle("GET "+Prefix+"group", s.authenticated(s.group))
	mux.Handle("POST "+Prefix+"group/handover", s.authenticated(s.handOver))
	mux.Handle("DELETE "+Prefix+"group/members/{member}", s.authenticated(s.removeMember))
	mux.Handle("GET "+Prefix+"workspaces/{workspace}/doubts", s.authenticated(s.doubts))
	mux.Handle("POST "+Prefix+"workspaces/{workspace}/doubts", s.bounded(maxOutcomes, s.resolve))
	mux.Handle("POST "+Prefix+"workspaces/{workspace}/objects", s.bounded(maxState, s.changeObjects))
	mux.Handle("GET "+Prefix+"workspaces/{workspace}/bounds", s.authenticated(s.bounds))
	mux.Handle("PUT "+Prefix+"workspaces/{workspace}/bounds", s.authenticated(s.bound))
	mux.Handle("GET "+Prefix+"workspaces/{workspace}/drift", s.authenticated(s.drift))
	mux.Handle("POST "+Prefix+"workspaces/{workspace}/drift/refresh", s.authenticated(s.adopt))
	mux.HandleFunc("GET "+Prefix+"runs/{run}/watch", s.streamed)
	mux.Handle("GET "+Prefix+"runs/{run}/timeline", s.authenticated(s.timeline))
	mux.Handle("GET "+Prefix+"me", s.authenticated(s.me))
	mux.Handle("GET "+Prefix+"users", s.authenticated(s.users))
	mux.Handle("POST "+Prefix+"users", s.authenticated(s.createUser))
	mux.Handle("PATCH "+Prefix+"users/{user}", s.authenticated(s.changeUser))
	mux.Handle("DELETE "+Prefix+"users/{user}", s.authenticated(s.deleteUser))
	mux.Handle("POST "+Prefix+"users/{user}/reset", s.authenticated(s.resetUser))
	mux.Handle("PUT "+Prefix+"users/{user}/teams/{org}/{team}", s.authenticated(s.changeTeams(false)))
	mux.Handle("DELETE "+Prefix+"users/{user}/teams/{org}/{team}", s.authenticated(s.changeTeams(true)))
	mux.Handle("PUT "+Prefix+"users/{user}/password", s.authenticated(s.setPassword))
	return mux
}

type server struct {
	svc *service.Service
	log *slog.Logger
}

// handler returns the document of a response: nil for none, a stream for one that is written piece by piece.
type handler func(*http.Request, *rights.Actor) (any, error)

// actor returns the actor of a request, and its token.
func (s *server) actor(r *http.Request) (*rights.Actor, string, error) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	token = strings.TrimSpace(token)
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = r.RemoteAddr
	}
	actor, err := s.svc.Tokens.Authenticate(token, from)
	return actor, token, err
}

// streamed streams the progress of a run.
func (s *server) streamed(w http.ResponseWriter, r *http.Request) {
	actor, token, err := s.actor(r)
	if err == nil {
		err = s.watch(w, r, token, actor)
	}
	if err != nil {
		s.fail(w, r, err)
	}
}

// stream is a document that is written piece by piece.
type stream struct {
	media string
	to    func(io.Writer) error
}

func (s *server) authenticated(h handler) http.Handler { return s.bounded(maxBody, h) }

// bounded is a handler for requests whose bodies have at most a number of bytes.
func (s *server) bounded(most int64, h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, most)
		var document any
		actor, _, err := s.actor(r)
		if err == nil {
			document, err = h(r, actor)
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		if document == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if write, ok := document.(stream); ok {
			s.stream(w, r, write)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(document) // an error means that the client has disconnected
	})
}

// stream writes a streamed response. If that fails, it aborts the connection, so that the client does not take
// a partial response for a complete one.
func (s *server) stream(w http.ResponseWriter, r *http.Request, write stream) {
	begun := &counted{Writer: w}
	w.Header().Set("Content-Type", write.media)
	err := write.to(begun)
	switch {
	case err == nil:
	case begun.n == 0:
		s.fail(w, r, err)
	default:
		s.log.Error("a response was aborted", "path", r.URL.Path, "error", err)
		panic(http.ErrAbortHandler)
	}
}

// counted counts the bytes written.
type counted struct {
	io.Writer
	n int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n += int64(n)
	return n, err
}

// upgrade returns what an upgrade of the service depends on.
func (s *server) upgrade(r *http.Request, a *rights.Actor) (any, error) {
	return s.svc.Upgrades.Facts(r.Context(), a)
}

// finishUpgrade ends the time in which the version before can take the place of the service.
func (s *server) finishUpgrade(r *http.Request, a *rights.Actor) (any, error) {
	return s.svc.Upgrades.Finish(r.Context(), a)
}

// backup streams a backup of the service.
func (s *server) backup(r *http.Request, a *rights.Actor) (any, error) {
	return stream{"application/x-tar", func(w io.Writer) error { return s.svc.Backup(r.Context(), a, w) }}, nil
}

// statuses are the HTTP statuses of conditions.
var statuses = []struct {
	is     error
	status int
}{
	{tables.ErrUnauthorized, http.StatusUnauthorized}, {tables.ErrNotFound, http.StatusNotFound},
	{tables.ErrForbidden, http.StatusForbidden}, {tables.ErrConflict, http.StatusConflict},
	{tables.ErrInvalid, http.StatusUnprocessableEntity}, {os.ErrDeadlineExceeded, http.StatusRequestTimeout},
}

func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, text := http.StatusInternalServerError, "internal error; see the log of the service"
	for _, c := range statuses {
		if errors.Is(err, c.is) {
			status, text = c.status, err.Error()
		}
	}
	if status == http.StatusInternalServerError {
		s.log.Error("a request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text}) // an error means a disconnect
}

// halt returns the halt of a workspace or of the service.
func (s *server) halt(r *http.Request, a *rights.Actor) (any, error) {
	h, err := s.svc.Halts.Find(a, r.PathValue("workspace"))
	return map[string]any{"halt": h}, err
}

// setHalt starts a drain or an emergency stop.
func (s *server) setHalt(r *http.Request, a *rights.Actor) (any, error) {
	var asked struct {
		Reason    string `json:"reason"`
		Emergency bool   `json:"emergency"`
	}
	if err := decode(r, &asked); err != nil {
		return nil, err
	}
	h := record.Halt{Reason: asked.Reason, Emergency: asked.Emergency}
	if err := s.svc.Halts.Halt(a, r.PathValue("workspace"), h); err != nil {
		return nil, err
	}
	return s.halt(r, a)
}

// poolHalt returns the drain of a pool.
func (s *server) poolHalt(r *http.Request, a *rights.Actor) (any, error) {
	all, err := s.svc.Pools.Drained(a)
	return map[string]any{"halt": all[r.PathValue("pool")]}, err
}

// drainPool starts the drain of a pool.
func (s *server) drainPool(r *http.Request, a *rights.Actor) (any, error) {
	var asked struct {
		Reason string `json:"reason"`
	}
	if err := decode(r, &asked); err != nil {
		return nil, err
	}
	if err := s.svc.Pools.Drain(r.Context(), a, r.PathValue("pool"), asked.Reason); err != nil {
		return nil, err
	}
	return s.poolHalt(r, a)
}

func (s *server) liftPool(r *http.Request, a *rights.Actor) (any, error) {
	return nil, s.svc.Pools.Lift(r.Context(), a, r.PathValue("pool"))
}

// decode decodes the body of a request.
func decode(r *http.Request, to any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return errors.Join(tables.ErrInvalid, err)
	}
	return nil
}

func (s *server) lift(r *http.Request, a *rights.Actor) (any, error) {
	return nil, s.svc.Halts.Lift(a, r.PathValue("workspace"))
}

// waiting is the JSON form of the reason why a run waits.
type waiting struct {
	Kind      string     `json:"kind"`
	On        string     `json:"on,omitempty"`
	Place     int        `json:"place,omitempty"`
	Since     time.Time  `json:"since,omitzero"`
	Gone      bool       `json:"gone,omitempty"`
	Expires   time.Time  `json:"expires,omitzero"`
	Text      string     `json:"text"`
	Shortages []shortage `json:"lacks,omitempty"`
}

// lack is the JSON form of a limit or pool that operations wait for.
type shortage struct {
	Kind       string    `json:"kind"`
	Name       string    `json:"name"`
	Since      time.Time `json:"since"`
	Operations int       `json:"operations"`
	Example    string    `json:"example,omitempty"`
	Slots      int       `json:"slots,omitempty"`
	InDoubt    []string  `json:"in-doubt,omitempty"`
	HeldBy     []holder  `json:"held-by,omitempty"`
}

// holder is the JSON form of a run that holds permits. Its run and workspace are absent if the actor may not see it,
// or if it is a run of another program.
type holder struct {
	Run       string    `json:"run,omitempty"`
	Workspace string    `json:"workspace,omitempty"`
	Permits   int       `json:"permits"`
	Since     time.Time `json:"since,omitzero"` // of the oldest permit
}

// holders returns the holders of permits, in the order of their first permits.
func holders(all []service.Permit) (out []holder) {
	for _, h := range service.Holders(all) {
		one := holder{Permits: h.Permits, Since: h.Since}
		if h.Of != nil {
			one.Run, one.Workspace = h.Of.ID, h.Of.On.Name
		}
		out = append(out, one)
	}
	return out
}

// wait returns the reason why a run waits; null if it does not wait.
func (s *server) wait(r *http.Request, a *rights.Actor) (any, error) {
	w, err := s.svc.Runs.Waits(r.Context(), a, r.PathValue("run"))
	if err != nil || w.Kind == "" {
		return map[string]any{"wait": nil}, err
	}
	out := waiting{Kind: w.Kind, On: w.On, Place: w.Place, Since: w.Since, Gone: w.Gone, Expires: w.Expires, Text: w.Text}
	for _, x := range w.Shortages {
		out.Shortages = append(out.Shortages, shortage{Kind: x.Kind, Name: x.Name, Since: x.Since, Operations: x.Operations,
			Example: x.Example, Slots: x.Slots, InDoubt: x.InDoubt, HeldBy: holders(x.Held)})
	}
	return map[string]any{"wait": out}, nil
}

// doubt is the JSON form of an operation in doubt.
type doubt struct {
	Address   string    `json:"address"`
	Operation string    `json:"operation"`
	Worker    string    `json:"worker,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Started   time.Time `json:"started,omitzero"`
}

// doubts returns the operations in doubt of a workspace; more is the number of those that are not listed.
func (s *server) doubts(r *http.Request, a *rights.Actor) (any, error) {
	d, err := s.svc.Doubts.OfWorkspace(a, r.PathValue("workspace"))
	if err != nil {
		return nil, err
	}
	all := make([]doubt, 0, len(d.Operations))
	for _, o := range d.Operations {
		all = append(all, doubt(o))
	}
	return map[string]any{"doubts": all, "more": d.More}, nil
}

// outcome is the JSON form of the outcome of an operation in doubt: "created" has the ID of the object, or
// "not-created" says that there is none.
type outcome struct {
	Address    string `json:"address"`
	Created    string `json:"created"`
	NotCreated bool   `json:"not-created"`
}

// resolve records the outcome of an operation in doubt, or of several: "outcomes" lists them.
func (s *server) resolve(r *http.Request, a *rights.Actor) (any, error) {
	var asked struct {
		outcome
		Outcomes []outcome `json:"outcomes"`
	}
	if err := decode(r, &asked); err != nil {
		return nil, err
	}
	if asked.outcome != (outcome{}) {
		asked.Outcomes = append(asked.Outcomes, asked.outcome)
	}
	var all []work.Resolution
	for _, o := range asked.Outcomes {
		if (o.Created == "") == !o.NotCreated {
			return nil, errors.Join(tables.ErrInvalid, errors.New(`state the outcome: "created", with the ID of the `+
				`object, or "not-created": true`))
		}
		all = append(all, work.Resolution{Address: o.Address, ID: o.Created})
	}
	id := r.PathValue("workspace")
	if err := s.svc.Doubts.Resolve(r.Context(), a, id, all...); err != nil {
		return nil, err
	}
	return s.doubts(r, a)
}

// changeObjects changes instances of a state while runs change others.
func (s *server) changeObjects(r *http.Request, a *rights.Actor) (any, error) {
	var asked struct {
		Operation string          `json:"operation"`
		Lineage   string          `json:"lineage"`
		Serial    uint64          `json:"serial"`
		Removed   []string        `json:"removed"`
		State     json.RawMessage `json:"state"`
		Wait      float64         `json:"wait"`
	}
	if err := decode(r, &asked); err != nil {
		return nil, err
	}
	return nil, s.svc.Objects.Change(r.Context(), a, r.PathValue("workspace"), work.ObjectChange{
		Operation: asked.Operation, Lineage: asked.Lineage, Serial: asked.Serial, Removed: asked.Removed,
		State: asked.State, Wait: asked.Wait,
	})
}
