// Package web is the pages for people: what happens, what will happen, what happened, and what can be done about it.
//
// It turns requests of browsers into calls of the service, with the rights of the person who has logged in, and what
// comes back into HTML. It decides nothing. Everything that it sends is made here: no page loads anything from
// elsewhere, and none runs a script that is not a file of this package.
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
	"path"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/view/picture"
)

// Options are what the pages work with.
type Options struct {
	Service *service.Service
	Now     func() time.Time // default time.Now
	Logger  *slog.Logger     // default: nothing is logged
	// Poll is how long a request for the rest of a log waits for something to be written; default 20 s.
	Poll time.Duration
	// Elsewhere is where people log in with an account of their organization; empty where they have none.
	Elsewhere string
}

//go:embed pages/*.html
var pageFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// site answers requests.
type site struct {
	*service.Service
	o      Options
	pages  map[string]*template.Template
	assets map[string]asset
	tries  tries
}

// asset is a file that pages refer to. Its address changes with its content, so that browsers may keep it.
type asset struct {
	data []byte
	kind string
}

// Paths are the patterns that Handler answers.
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
	s := &site{Service: o.Service, o: o, assets: map[string]asset{}}
	s.loadAssets(assetFiles, "assets", "")
	s.loadAssets(picture.Assets(), ".", "picture/")
	s.loadPages()
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.serve))
}

// loadAssets takes in the files of a directory, with something before their names.
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

// assetVersion changes when any asset does. It is part of the addresses, so that modules that import each other by
// relative addresses change together.
func (s *site) assetVersion() string {
	sum := sha256.New()
	for _, name := range sortedKeys(s.assets) {
		sum.Write([]byte(name))
		sum.Write(s.assets[name].data)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

// loadPages parses the templates. Each page has the layout, and what it defines itself.
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
		panic(err) // the pattern is a good one
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
	actor *service.Actor // nil before somebody has logged in
	token string         // of the session
}

// arg returns a part of the path.
func (c *call) arg(name string) string { return c.args[name] }

// serve answers a request.
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

// asset sends a file. Any version in the address is answered with the one that there is: an old page of a service that
// was started anew works on.
func (s *site) asset(w http.ResponseWriter, r *http.Request, rest string) {
	_, name, _ := strings.Cut(rest, "/")
	a, ok := s.assets[name]
	if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(a.data) // who asked has gone away otherwise
}

// answer finds out who asks and for what.
func (c *call) answer() error {
	c.r.Body = http.MaxBytesReader(c.w, c.r.Body, 1<<20)
	route, args := match(c.r.URL.Path)
	if route == nil {
		route = &route404
	}
	c.args = args
	if cookie, err := c.r.Cookie(sessionCookie); err == nil {
		c.token = cookie.Value
		actor, err := c.Authenticate(c.token, c.from)
		switch {
		case err == nil && actor.User != nil:
			c.actor = actor
		case err != nil && !errors.Is(err, service.ErrUnauthorized):
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
			return &failure{http.StatusBadRequest, "The form cannot be read."}
		}
		if !c.genuine() {
			return &failure{http.StatusForbidden, "This form is not from a page of yours, or you have logged in anew " +
				"since it was opened. Go back, load the page again, and repeat what you did."}
		}
		return route.post(c)
	}
	c.w.Header().Set("Allow", "GET, HEAD")
	return &failure{http.StatusMethodNotAllowed, "There is nothing here that can be asked for in this way."}
}

// failure is an answer that is an error.
type failure struct {
	status int
	text   string
}

func (f *failure) Error() string { return f.text }

var errNotThere = &failure{http.StatusNotFound, "There is nothing at this address, or you have no access to it."}

// fail answers with an error, as a page.
func (c *call) fail(err error) {
	f := &failure{http.StatusInternalServerError, "The service could not do this. Its log says why."}
	switch {
	case errors.As(err, &f):
	case errors.Is(err, service.ErrUnauthorized):
		f = &failure{http.StatusUnauthorized, sentence(err)}
	case errors.Is(err, service.ErrNotFound):
		f = &failure{http.StatusNotFound, sentence(err)}
	case errors.Is(err, service.ErrForbidden):
		f = &failure{http.StatusForbidden, sentence(err)}
	case errors.Is(err, service.ErrConflict):
		f = &failure{http.StatusConflict, sentence(err)}
	case errors.Is(err, service.ErrInvalid):
		f = &failure{http.StatusUnprocessableEntity, sentence(err)}
	case errors.Is(err, service.ErrTooLarge), errors.As(err, new(*http.MaxBytesError)):
		f = &failure{http.StatusRequestEntityTooLarge, sentence(err)}
	case errors.Is(err, context.Canceled):
		return // nobody is there to be answered
	default:
		c.o.Logger.Error("a page could not be made", "path", c.r.URL.Path, "error", err)
	}
	if err := c.render(f.status, "error", page{Title: http.StatusText(f.status)}, f.text); err != nil {
		c.o.Logger.Error("a page could not be made", "path", c.r.URL.Path, "error", err)
	}
}

// sentence is an error's text for people.
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

// page is what the layout needs.
type page struct {
	Title string
	// Crumbs lead here, from the widest place.
	Crumbs []crumb
	// Section is the entry of the main navigation that this page belongs to.
	Section string
	// Events is the address of the stream that tells when the page has changed; empty for pages that do not.
	Events string
	// Every is after how many seconds the live parts of the page are read again; 0 for not.
	Every int

	// What follows is filled in by render.
	User  string
	Admin bool
	Form  string // the token of forms
	Flash string // what was just done
	Path  string
	Data  any
}

type crumb struct{ Name, Address string }

// render sends a page. It is made as a whole before anything is sent, so that an error is answered as one.
func (c *call) render(status int, name string, p page, data any) error {
	p.Data, p.Path = data, c.r.URL.RequestURI()
	if c.actor != nil {
		p.User, p.Admin, p.Form = c.actor.User.Name, c.actor.User.Admin, c.formToken()
	}
	p.Flash = c.flash()
	var b bytes.Buffer
	if err := c.pages[name].ExecuteTemplate(&b, "layout", p); err != nil {
		return fmt.Errorf("making the page %s: %w", name, err)
	}
	c.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	c.w.WriteHeader(status)
	_, _ = c.w.Write(b.Bytes()) // who asked has gone away otherwise
	return nil
}

// back sends the browser to a page of this site, with a word about what was done.
func (c *call) back(to, done string) error {
	c.setFlash(done)
	http.Redirect(c.w, c.r, to, http.StatusSeeOther)
	return nil
}
