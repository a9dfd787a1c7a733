// Package web is the web interface of the service: what is happening, what will happen, what has happened, and
// what people can do about it.
//
// It translates requests of browsers into calls of the service, with the rights of the person who has logged
// in, and results into HTML. It makes no decisions. Pages load nothing from other hosts, and run no script that
// is not a file of this package.
package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/coordinator/picture"
	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/tables"
)

// Options configure the web interface.
type Options struct {
	Service *service.Service
	Now     func() time.Time // default time.Now
	Logger  *slog.Logger     // default: nothing is logged
	// Poll is how long a request for the rest of a log waits for new text; default 20 s.
	Poll time.Duration
	// Elsewhere is the address for logging in with an account of an organization; empty if there is none.
	Elsewhere string
	// Engines describes what evaluates configurations, for administrators; nil if that is not shown.
	Engines func() Engines
}

// Engines are what evaluates the configurations of runs.
type Engines struct {
	// Confinement says what they are kept from.
	Confinement string
	Seats       []Seat
	// Members are those of the group, the leader first; empty without a group.
	Members []service.Member
}

// Seat is the place of an engine.
type Seat struct {
	Number int
	// Program is the version of Millipede that its engine is.
	Program string
	// Since is when its engine was started; zero if there is none, for which Trouble is the reason.
	Since           time.Time
	Trouble         string
	Calls, Restarts int
}

//go:embed pages/*.html
var pageFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// site serves the pages.
type site struct {
	svc    *service.Service
	o      Options
	pages  map[string]*template.Template
	assets map[string]asset
	tries  tries
}

// asset is a file that pages refer to. Its address changes with its content, so that browsers may cache it.
type asset struct {
	data []byte
	kind string
}

// Paths are the patterns of the paths that Handler serves. For others it shows that there is nothing.
var Paths = []string{"/{$}", "/app", "/app/", "/assets/"}

// Handler returns the pages.
func Handler(o Options) http.Handler {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Poll == 0 {
		o.Poll = 20 * time.Second
	}
	s := &site{svc: o.Service, o: o, assets: map[string]asset{}}
	s.loadAssets(assetFiles, "assets", "")
	s.loadAssets(picture.Assets(), ".", "picture/")
	s.loadPages()
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.serve))
}

// loadAssets loads the files of a directory, with a prefix for their names.
func (s *site) loadAssets(files fs.FS, dir, before string) {
	err := fs.WalkDir(files, dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		kind := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
			".svg": "image/svg+xml"}[path.Ext(name)]
		if kind != "" {
			s.assets[before+strings.TrimPrefix(name, dir+"/")] = asset{data, kind}
		}
		return err
	})
	if err != nil {
		panic(err) // the files are part of the program
	}
}

// assetVersion changes whenever an asset does. It is part of the addresses, so that modules that import each
// other by relative addresses change together.
func (s *site) assetVersion() string {
	sum := sha256.New()
	for _, name := range sortedKeys(s.assets) {
		sum.Write([]byte(name))
		sum.Write(s.assets[name].data)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

// loadPages parses the templates. Each page consists of the layout and its own definitions.
func (s *site) loadPages() {
	version := s.assetVersion()
	functions := template.FuncMap{
		"asset": func(name string) (string, error) {
			if _, ok := s.assets[name]; !ok {
				return "", fmt.Errorf("there is no asset %q", name)
			}
			return "/assets/" + version + "/" + name, nil
		},
	}
	for name, f := range s.functions() {
		functions[name] = f
	}
	layout := template.Must(template.New("layout").Funcs(functions).ParseFS(pageFiles, "pages/layout.html",
		"pages/parts.html"))
	s.pages = map[string]*template.Template{}
	names, err := fs.Glob(pageFiles, "pages/*.html")
	if err != nil {
		panic(err) // the pattern is valid
	}
	for _, name := range names {
		page := template.Must(template.Must(layout.Clone()).ParseFS(pageFiles, name))
		s.pages[strings.TrimSuffix(path.Base(name), ".html")] = page
	}
}

// call is one request.
type call struct {
	*site
	w     http.ResponseWriter
	r     *http.Request
	args  map[string]string
	from  string
	actor *rights.Actor // nil before the login
	token string        // of the session
	// refused is the error of a form; its page is shown again with it, and with what was entered.
	refused *failure
}

// arg returns a parameter of the path.
func (c *call) arg(name string) string { return c.args[name] }

// serve handles a request.
func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "+
		"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "+
		"require-trusted-types-for 'script'; trusted-types millipede")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("X-Frame-Options", "DENY")
	if rest, ok := strings.CutPrefix(r.URL.Path, "/assets/"); ok {
		s.asset(w, r, rest)
		return
	}
	h.Set("Cache-Control", "no-store")
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = r.RemoteAddr
	}
	c := &call{site: s, w: w, r: r, from: from}
	if err := c.answer(); err != nil {
		c.fail(err)
	}
}

// asset sends a file. It ignores the version in the address, so that an old page still works after an update of
// the service.
func (s *site) asset(w http.ResponseWriter, r *http.Request, rest string) {
	_, name, _ := strings.Cut(rest, "/")
	a, ok := s.assets[name]
	if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(a.data) // an error means that the client has disconnected
}

// answer authenticates a request and calls its handler.
func (c *call) answer() error {
	c.r.Body = http.MaxBytesReader(c.w, c.r.Body, 1<<20)
	route, args := match(c.r.URL.Path)
	if route == nil {
		route = &route404
		if c.r.URL.Path != "/app" && !strings.HasPrefix(c.r.URL.Path, "/app/") {
			return errNotThere
		}
	}
	c.args = args
	if cookie, err := c.r.Cookie(sessionCookie); err == nil {
		c.token = cookie.Value
		actor, err := c.svc.Tokens.Authenticate(c.token, c.from)
		switch {
		case err == nil && actor.User != nil:
			c.actor = actor
		case err != nil && !errors.Is(err, tables.ErrUnauthorized):
			return err
		}
	}
	if c.actor == nil && !route.open {
		return c.toLogin()
	}
	switch c.r.Method {
	case http.MethodGet, http.MethodHead:
		if route.get != nil {
			return route.get(c)
		}
	case http.MethodPost:
		if route.post == nil {
			break
		}
		if err := c.r.ParseForm(); err != nil {
			return &failure{http.StatusBadRequest, "The form is invalid."}
		}
		if !c.genuine() {
			return &failure{http.StatusForbidden, "This form is not from a page of your session, or you have logged in again " +
				"since it was opened. Go back, load the page again, and repeat what you did."}
		}
		err := route.post(c)
		if err == nil || route.get == nil || c.actor == nil {
			return err
		}
		return c.again(route, err)
	}
	c.w.Header().Set("Allow", "GET, HEAD")
	return &failure{http.StatusMethodNotAllowed, "This method is not supported at this address."}
}

// failure is an error response.
type failure struct {
	status int
	text   string
}

func (f *failure) Error() string { return f.text }

var errNotThere = &failure{http.StatusNotFound, "There is nothing at this address, or you have no access to it."}

// again shows the page of a form once more, with the reason why the form was refused and with what was entered. If the
// page cannot be shown, or the error is none of the person, it returns the error.
func (c *call) again(route *route, err error) error {
	f := failureOf(err)
	if f == nil || f.status == http.StatusUnauthorized || f.status == http.StatusNotFound {
		return err
	}
	c.refused = f
	if failed := route.get(c); failed != nil {
		c.refused = nil
		return err
	}
	return nil
}

// fail sends an error page.
func (c *call) fail(err error) {
	if errors.Is(err, context.Canceled) {
		return // the client has disconnected
	}
	f := failureOf(err)
	if f == nil {
		f = &failure{http.StatusInternalServerError, "Internal error. See the log of the service."}
		c.o.Logger.Error("cannot make a page", "path", c.r.URL.Path, "error", err)
	}
	if err := c.render(f.status, "error", page{Title: http.StatusText(f.status)}, f.text); err != nil {
		c.o.Logger.Error("cannot make a page", "path", c.r.URL.Path, "error", err)
	}
}

// failureOf returns the error response for an error; nil for an internal error.
func failureOf(err error) (f *failure) {
	switch {
	case errors.As(err, &f):
	case errors.Is(err, tables.ErrUnauthorized):
		f = &failure{http.StatusUnauthorized, sentence(err)}
	case errors.Is(err, tables.ErrNotFound):
		f = &failure{http.StatusNotFound, sentence(err)}
	case errors.Is(err, tables.ErrForbidden):
		f = &failure{http.StatusForbidden, sentence(err)}
	case errors.Is(err, tables.ErrConflict):
		f = &failure{http.StatusConflict, sentence(err)}
	case errors.Is(err, tables.ErrInvalid):
		f = &failure{http.StatusUnprocessableEntity, sentence(err)}
	case errors.Is(err, tables.ErrTooLarge), errors.As(err, new(*http.MaxBytesError)):
		f = &failure{http.StatusRequestEntityTooLarge, sentence(err)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		f = &failure{http.StatusRequestTimeout, "The request did not arrive in time."}
	}
	return f
}

// sentence returns the text of an error for people.
func sentence(err error) string {
	text := err.Error()
	if text == "" {
		return text
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

// page is the data of the layout.
type page struct {
	Title string
	// Crumbs are links to the pages above this one, from the top.
	Crumbs []crumb
	// Section is the entry of the main navigation to which this page belongs.
	Section string
	// Events is the address of the stream of changes; empty for pages that do not change.
	Events string
	// Every is the interval in seconds at which the live parts of the page are refreshed; 0 for never.
	Every int

	// render sets the fields below.
	User  string
	Admin bool
	Form  string // the form token
	Flash string // a message about the previous action
	// Problem is why a form of the page was refused.
	Problem string
	Path    string
	Data    any
}

type crumb struct{ Name, Address string }

// render sends a page. It renders the whole page first, so that an error can still be sent as an error page.
func (c *call) render(status int, name string, p page, data any) error {
	p.Data, p.Path = data, c.r.URL.RequestURI()
	if c.actor != nil {
		p.User, p.Admin, p.Form = c.actor.User.Name, c.actor.User.Admin, c.formToken()
	}
	p.Flash = c.flash()
	if c.refused != nil {
		status, p.Problem = c.refused.status, c.refused.text
	}
	var b bytes.Buffer
	if err := c.pages[name].ExecuteTemplate(&b, "layout", p); err != nil {
		return fmt.Errorf("making the page %s: %w", name, err)
	}
	if c.refused != nil {
		filled, err := refill(b.Bytes(), c.r.URL.Path, c.r.PostForm)
		if err != nil {
			return fmt.Errorf("filling the form of the page %s: %w", name, err)
		}
		b = *bytes.NewBuffer(filled)
	}
	c.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	c.w.WriteHeader(status)
	_, _ = c.w.Write(b.Bytes()) // an error means that the client has disconnected
	return nil
}

// back redirects the browser to a page of this site, with a message about the action.
func (c *call) back(to, done string) error {
	c.setFlash(done)
	http.Redirect(c.w, c.r, to, http.StatusSeeOther)
	return nil
}
