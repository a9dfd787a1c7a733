// Package httpstate serves the state of each workspace in the protocol of the backend "http": GET, POST, LOCK
// and UNLOCK of one address.
//
// It translates requests into calls of the service, and makes no decisions. The contract was observed with
// OpenTofu's client; comments name the failures of clients without a rule.
package httpstate

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/accounts"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/tables"
)

// Prefix is the prefix of the addresses: PREFIX/organization/workspace.
const Prefix = "/state/"

// errSlow is the error for a request whose body did not arrive in time.
var errSlow = errors.New("the request did not arrive in time")

// maxLock bounds the description of a client's lock, in bytes.
const maxLock = 64 << 10

// Handler serves the addresses below Prefix. Clients authenticate with a token, as the password of basic
// authentication or as a bearer token.
func Handler(s *service.Service, log *slog.Logger) http.Handler {
	h := &server{s.Tokens, s.Workspaces, s.States, log}
	mux := http.NewServeMux()
	for method, serve := range map[string]func(*server, *call) error{
		http.MethodGet: (*server).get, http.MethodPost: (*server).post, http.MethodPut: (*server).post,
		http.MethodDelete: (*server).remove,
		"LOCK":            (*server).lock, "UNLOCK": (*server).unlock,
	} {
		mux.HandleFunc(method+" "+Prefix+"{org}/{name}",
			func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, serve) })
	}
	// Clients that cannot use other methods lock with a POST to a separate address.
	mux.HandleFunc("POST "+Prefix+"{org}/{name}/lock", func(w http.ResponseWriter, r *http.Request) {
		h.serve(w, r,
			(*server).lock)
	})
	mux.HandleFunc("PUT "+Prefix+"{org}/{name}/lock", func(w http.ResponseWriter, r *http.Request) {
		h.serve(w, r,
			(*server).lock)
	})
	mux.HandleFunc("DELETE "+Prefix+"{org}/{name}/lock", func(w http.ResponseWriter, r *http.Request) {
		h.serve(w, r,
			(*server).unlock)
	})
	return mux
}

type server struct {
	tokens     *accounts.Tokens
	workspaces *service.Workspaces
	states     *service.States

	log *slog.Logger
}

// call is an authenticated request for an existing workspace.
type call struct {
	w         http.ResponseWriter
	r         *http.Request
	actor     *rights.Actor
	workspace *service.WorkspaceView
}

func (s *server) serve(w http.ResponseWriter, r *http.Request, do func(*server, *call) error) {
	_, token, ok := r.BasicAuth()
	if !ok {
		token, _ = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	}
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = r.RemoteAddr
	}
	c := &call{w: w, r: r}
	if c.actor, err = s.tokens.Authenticate(token, from); err == nil {
		c.workspace, err = s.workspaces.Named(c.actor, r.PathValue("org"), r.PathValue("name"))
		if errors.Is(err, tables.ErrNotFound) {
			// Clients interpret 404 as an empty state, and would create all objects again.
			err = &refused{http.StatusForbidden, err.Error()}
		}
		if err == nil {
			err = do(s, c)
		}
	}
	if err != nil {
		s.fail(w, r, err)
	}
}

// refused is an error response.
type refused struct {
	status int
	text   string
}

func (e *refused) Error() string { return e.text }

func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	var (
		locked *tables.Locked
		no     *refused
	)
	switch {
	case errors.As(err, &locked):
		// Clients show the conflicting lock.
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusLocked)
		_, _ = w.Write(locked.Holder)
		return
	case errors.As(err, &no):
		status = no.status
	case errors.Is(err, tables.ErrUnauthorized):
		status = http.StatusUnauthorized
		w.Header().Set("WWW-Authenticate", `Basic realm="state"`)
	case errors.Is(err, tables.ErrForbidden):
		status = http.StatusForbidden
	case errors.Is(err, tables.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, tables.ErrConflict):
		status = http.StatusConflict
	case errors.Is(err, tables.ErrInvalid):
		status = http.StatusBadRequest
	case errors.Is(err, tables.ErrTooLarge), errors.As(err, new(*http.MaxBytesError)):
		status = http.StatusRequestEntityTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		status, err = http.StatusRequestTimeout, errSlow
	default:
		s.log.Error("a request for a state failed", "method", r.Method, "path", r.URL.Path, "error", err)
		http.Error(w, "internal error; see the log of the service", status)
		return
	}
	http.Error(w, err.Error(), status)
}

func (s *server) get(c *call) error {
	if c.workspace.CurrentState == "" {
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	data, v, err := s.states.Download(c.actor, c.workspace.CurrentState)
	if err != nil {
		return err
	}
	defer data.Close()
	sum, err := hex.DecodeString(v.MD5)
	if err != nil {
		return fmt.Errorf("the checksum of the state version %s: %w", v.ID, err)
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Content-MD5", base64.StdEncoding.EncodeToString(sum))
	c.w.Header().Set("Content-Length", strconv.FormatInt(v.Size, 10))
	if _, err := io.Copy(c.w, data); err != nil {
		// The file cannot be read completely, or the client has disconnected. The announced length shows the
		// client that the response is incomplete.
		s.log.Warn("cannot send a state completely", "version", v.ID, "error", err)
	}
	return nil
}

func (s *server) post(c *call) error {
	return s.states.PutForeign(c.actor, c.workspace.ID, service.ForeignState{
		Lock: c.r.URL.Query().Get("ID"), MD5: c.r.Header.Get("Content-MD5"),
	}, c.r.Body, c.r.ContentLength)
}

// remove refuses a request that commands never send: workspaces are deleted with the API.
func (s *server) remove(*call) error {
	return &refused{http.StatusMethodNotAllowed, "delete the workspace instead"}
}

// lockInfo reads the description of a client's lock.
func (c *call) lockInfo() (service.ForeignLock, error) {
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxLock))
	if err != nil {
		return service.ForeignLock{}, err
	}
	var info struct{ ID string }
	if len(data) > 0 {
		if err := json.Unmarshal(data, &info); err != nil {
			return service.ForeignLock{}, &refused{http.StatusBadRequest, "this is not a lock: " + err.Error()}
		}
	}
	return service.ForeignLock{ID: info.ID, Info: data}, nil
}

func (s *server) lock(c *call) error {
	l, err := c.lockInfo()
	if err != nil {
		return err
	}
	if l.ID == "" {
		return &refused{http.StatusBadRequest, "the lock has no ID"}
	}
	return s.workspaces.LockForeign(c.actor, c.workspace.ID, l)
}

func (s *server) unlock(c *call) error {
	l, err := c.lockInfo()
	if err != nil {
		return err
	}
	return s.workspaces.UnlockForeign(c.actor, c.workspace.ID, l.ID)
}
