// Package tfe is the API for clients with a cloud block or the remote backend, and for go-tfe: version 2 of the
// API of HCP Terraform, as far as clients use it.
//
// It translates requests into calls of the service, and results into documents. It makes no decisions. Its
// contract was observed with real clients; comments name the client that fails without a rule.
package tfe

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/tables"
)

// The implemented version of the API. Clients read it once, from ping: they refuse to work below 2.5, and show
// structured plans from 202302 on.
const (
	apiVersion     = "2.6"
	releaseVersion = "v202502-1"
)

// root is the prefix of the API's paths.
const root = "/api/v2/"

// media is the content type of documents.
const media = "application/vnd.api+json"

// Options configure the API.
type Options struct {
	Service *service.Service
	// Address is the address of the service for clients, as https://HOST; if empty, the host of each request is
	// used.
	Address string
	// Poll is how long a request for a log waits for new text; default 10 s.
	Poll time.Duration
	// Services are further services of this host for the discovery document.
	Services map[string]any
	Logger   *slog.Logger // default: nothing is logged
	// Verify sends a notification that verifies a configuration, and returns the response of its receiver; nil
	// disables verification.
	Verify func(ctx context.Context, a *rights.Actor, configuration string) (*record.Response, error)
}

// server serves the API.
type server struct {
	svc *service.Service
	o   Options
}

// Handler returns the API, with discovery and with the addresses for uploads, downloads and logs that the API
// hands out.
func Handler(o Options) http.Handler {
	if o.Poll == 0 {
		o.Poll = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &server{o.Service, o}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/terraform.json", s.discover)
	mux.HandleFunc("GET /api/v2/ping",
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for pattern, h := range s.routes() {
		mux.Handle(pattern, s.authenticated(pattern, h))
	}
	for pattern, h := range s.secretRoutes() {
		mux.HandleFunc(pattern, h)
	}
	mux.Handle("/api/v2/", s.authenticated("", func(*call) error { return notThere }))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("TFP-API-Version", apiVersion)
		h.Set("X-TFE-Version", releaseVersion)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		mux.ServeHTTP(w, r)
	})
}

// discover serves the discovery document. Clients use only services that are listed in it.
func (s *server) discover(w http.ResponseWriter, _ *http.Request) {
	all := map[string]any{}
	for _, name := range []string{"tfe.v2", "tfe.v2.1", "tfe.v2.2", "state.v2"} {
		all[name] = "/api/v2/"
	}
	maps.Copy(all, s.o.Services)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(all) // an error means that the client has disconnected
}

// call is an authenticated request.
type call struct {
	*server
	w     http.ResponseWriter
	r     *http.Request
	actor *rights.Actor
	asked map[string]bool // the related documents to include
}

// handler handles a call; fail writes the error that it returns.
type handler func(*call) error

// notThere is the error for unknown paths.
var notThere = &failure{http.StatusNotFound, "not found", "there is nothing here, or you have no access to it"}

// failure is an error response.
type failure struct {
	status        int
	title, detail string
}

func (f *failure) Error() string { return f.detail }

// authenticated wraps a handler: it authenticates the client and reads the request's parameters.
func (s *server) authenticated(pattern string, h handler) http.Handler {
	_, path, _ := strings.Cut(pattern, " "+root)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			token = ""
		}
		from, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			from = r.RemoteAddr
		}
		c := &call{server: s, w: w, r: r}
		if c.actor, err = s.svc.Tokens.Authenticate(strings.TrimSpace(token), from); err == nil {
			err = c.readIncludes(path)
		}
		if err == nil {
			err = h(c)
		}
		if err != nil {
			s.fail(w, r, err)
		}
	})
}

// fail writes an error response.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	f := &failure{http.StatusInternalServerError, "internal error", "internal error; see the log of the service"}
	switch {
	case errors.As(err, &f):
	case errors.Is(err, tables.ErrUnauthorized):
		f = &failure{http.StatusUnauthorized, "unauthorized", err.Error()}
	case errors.Is(err, tables.ErrNotFound):
		f = &failure{http.StatusNotFound, "not found", err.Error()}
	case errors.Is(err, tables.ErrForbidden):
		f = &failure{http.StatusForbidden, "forbidden", err.Error()}
	case errors.Is(err, tables.ErrConflict):
		f = &failure{http.StatusConflict, "conflict", err.Error()}
	case errors.Is(err, tables.ErrInvalid):
		f = &failure{http.StatusUnprocessableEntity, "invalid attribute", err.Error()}
	case errors.Is(err, tables.ErrTooLarge), errors.As(err, new(*http.MaxBytesError)):
		f = &failure{http.StatusRequestEntityTooLarge, "too large", err.Error()}
	case errors.Is(err, os.ErrDeadlineExceeded):
		f = &failure{http.StatusRequestTimeout, "request timeout", "the request did not arrive in time"}
	case errors.Is(err, context.Canceled):
		return // the client has disconnected
	default:
		s.o.Logger.Error("a request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	write(w, f.status, map[string]any{"errors": []any{
		map[string]string{"status": strconv.Itoa(f.status), "title": f.title, "detail": f.detail},
	}})
}

// write writes a document as response. It sets the length, because clients read the response of a log with one
// read.
func write(w http.ResponseWriter, status int, document any) {
	data, err := json.Marshal(document)
	if err != nil {
		panic(err) // documents can always be marshalled
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data) // an error means that the client has disconnected
}

// address returns the absolute URL of a path of this service.
func (c *call) address(path string) string {
	if c.o.Address != "" {
		return strings.TrimSuffix(c.o.Address, "/") + path
	}
	scheme := "https"
	if c.r.TLS == nil {
		scheme = "http"
	}
	return scheme + "://" + c.r.Host + path
}

// arg returns a parameter of the path.
func (c *call) arg(name string) string { return c.r.PathValue(name) }

// ok, created, accepted and empty write successful responses.
func (c *call) ok(data any, included ...resource) error {
	return c.answer(http.StatusOK, data, included)
}

func (c *call) created(data any) error { return c.answer(http.StatusCreated, data, nil) }

func (c *call) empty(status int) error {
	c.w.WriteHeader(status)
	return nil
}

func (c *call) answer(status int, data any, included []resource) error {
	d := map[string]any{"data": data}
	var more includedDocuments
	if more.add(included...); len(more.all) > 0 {
		d["included"] = more.all
	}
	write(c.w, status, d)
	return nil
}

// list writes one page of a list.
func list[T any](c *call, all []T, form func(T) resource, included func(T) []resource) error {
	p := service.Page{Number: 1, Size: 20}
	for name, to := range map[string]*int{"page[number]": &p.Number, "page[size]": &p.Size} {
		if text := c.r.FormValue(name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return &failure{http.StatusBadRequest, "invalid parameter", name + " must be a positive number"}
			}
			*to = n
		}
	}
	p.Size = min(p.Size, 100)
	data := []resource{}
	var more includedDocuments
	for _, v := range service.Cut(all, p) {
		data = append(data, form(v))
		if included != nil {
			more.add(included(v)...)
		}
	}
	pages := max(1, (len(all)+p.Size-1)/p.Size)
	d := map[string]any{"data": data, "meta": map[string]any{"pagination": map[string]any{
		"current-page": p.Number, "page-size": p.Size, "prev-page": neighbour(p.Number-1, pages),
		"next-page":   neighbour(p.Number+1, pages),
		"total-pages": pages, "total-count": len(all),
	}}}
	if len(more.all) > 0 {
		d["included"] = more.all
	}
	write(c.w, http.StatusOK, d)
	return nil
}

// neighbour returns the number of a page, or null if there is no such page.
func neighbour(n, pages int) any {
	if n < 1 || n > pages {
		return nil
	}
	return n
}
