package web

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/millipede-iac/millipede/service/accounts"
	"github.com/millipede-iac/millipede/service/tables"
)

// The cookies. Because of the prefix, browsers accept them only from this host, over TLS.
const (
	sessionCookie = "__Host-millipede"
	// formCookie authenticates the login form: there is no session yet.
	formCookie  = "__Host-millipede-form"
	flashCookie = "__Host-millipede-done"
)

// Session returns the token of the session that a request belongs to; empty for none.
func Session(r *http.Request) string {
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return ""
	}
	return cookie.Value
}

// setCookie sets a session cookie that scripts cannot read; an empty value removes it.
func (c *call) setCookie(name, value string) {
	cookie := &http.Cookie{Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true,
		SameSite: http.SameSiteLaxMode}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(c.w, cookie)
}

// formToken returns the token that each form of a session must carry, so that no other site can send one. It is
// derived from the session's secret, which only the browser and this site know.
func (c *call) formToken() string {
	sum := hmac.New(sha256.New, []byte(c.token))
	sum.Write([]byte("forms"))
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
}

// genuine reports whether a form comes from a page of this session.
func (c *call) genuine() bool {
	want := ""
	if c.actor != nil {
		want = c.formToken()
	} else if cookie, err := c.r.Cookie(formCookie); err == nil {
		want = cookie.Value
	}
	return want != "" && subtle.ConstantTimeCompare([]byte(want), []byte(c.r.PostForm.Get("form"))) == 1
}

// setFlash stores a message for the next page.
func (c *call) setFlash(text string) {
	if text != "" {
		c.setCookie(flashCookie, base64.RawURLEncoding.EncodeToString([]byte(text)))
	}
}

// flash returns that message, once.
func (c *call) flash() string {
	cookie, err := c.r.Cookie(flashCookie)
	if err != nil || c.r.Header.Get("Sec-Fetch-Mode") == "cors" { // a page that refreshes itself does not consume it
		return ""
	}
	c.setCookie(flashCookie, "")
	text, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil || len(text) > 500 {
		return ""
	}
	return string(text)
}

// toLogin redirects to the login page, and back after the login.
func (c *call) toLogin() error {
	if c.r.Method != http.MethodGet || strings.Contains(c.r.Header.Get("Accept"), "text/event-stream") ||
		c.r.Header.Get("Sec-Fetch-Mode") == "cors" {
		return &failure{http.StatusUnauthorized, "You are no longer logged in. Reload the page to log in."}
	}
	to := "/app/login"
	if at := c.r.URL.RequestURI(); at != "/" && at != "/app" {
		to += "?" + url.Values{"to": {at}}.Encode()
	}
	http.Redirect(c.w, c.r, to, http.StatusSeeOther)
	return nil
}

// loginPage shows the login form.
type loginPage struct{ Name, To, Form, Problem, Elsewhere string }

// destination returns the page to go to after a login: always an address of these pages.
func destination(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() || u.Host != "" || u.Opaque != "" || strings.Contains(to, `\`) ||
		u.Path != path.Clean(u.Path) || u.Path != "/app" && !strings.HasPrefix(u.Path, "/app/") ||
		u.Path == "/app/login" || u.Path == "/app/logout" {
		return "/app"
	}
	return u.RequestURI()
}

func (c *call) loginForm() error {
	if c.actor != nil {
		http.Redirect(c.w, c.r, destination(c.r.URL.Query().Get("to")), http.StatusSeeOther)
		return nil
	}
	return c.showLogin(http.StatusOK, loginPage{To: destination(c.r.URL.Query().Get("to"))})
}

func (c *call) showLogin(status int, p loginPage) error {
	if cookie, err := c.r.Cookie(formCookie); err == nil && cookie.Value != "" {
		p.Form = cookie.Value
	} else {
		p.Form = rand.Text()
		c.setCookie(formCookie, p.Form)
	}
	if c.o.Elsewhere != "" {
		p.Elsewhere = c.o.Elsewhere + "?" + url.Values{"to": {p.To}}.Encode()
	}
	return c.render(status, "login", page{Title: "Log in"}, p)
}

// login checks a name and a password, and begins a session.
func (c *call) login() error {
	f := c.r.PostForm
	p := loginPage{Name: f.Get("username"), To: destination(f.Get("to"))}
	if !c.tries.allow(c.from, c.o.Now()) {
		p.Problem = "Too many attempts from your address. Wait a minute."
		return c.showLogin(http.StatusTooManyRequests, p)
	}
	user, err := c.svc.Logins.LogIn(p.Name, f.Get("password"), c.from)
	if errors.Is(err, tables.ErrUnauthorized) {
		p.Problem = "Wrong user name or password."
		return c.showLogin(http.StatusUnauthorized, p)
	}
	if err != nil {
		return err
	}
	token, err := c.svc.Logins.IssueSession(user, c.from)
	if err != nil {
		return err
	}
	c.setCookie(sessionCookie, token)
	c.setCookie(formCookie, "")
	http.Redirect(c.w, c.r, p.To, http.StatusSeeOther)
	return nil
}

// BeginSession begins a session of a user who was authenticated elsewhere, and redirects the browser to a page.
func BeginSession(logins *accounts.Logins, w http.ResponseWriter, r *http.Request, user, to string) error {
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = r.RemoteAddr
	}
	token, err := logins.IssueSession(user, from)
	if err != nil {
		return err
	}
	(&call{w: w, r: r}).setCookie(sessionCookie, token)
	http.Redirect(w, r, destination(to), http.StatusSeeOther)
	return nil
}

// logout ends the session, and revokes its token.
func (c *call) logout() error {
	if err := c.svc.Tokens.Delete(c.actor, c.actor.Token.ID); err != nil && !errors.Is(err, tables.ErrNotFound) {
		return err
	}
	c.setCookie(sessionCookie, "")
	http.Redirect(c.w, c.r, "/app/login", http.StatusSeeOther)
	return nil
}

// tries limits the rate of login attempts from an address.
type tries struct {
	mu sync.Mutex // guards by
	by map[string]*rate.Limiter
}

// maxAddresses bounds how many addresses are remembered.
const maxAddresses = 1000

func (t *tries) allow(from string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.by[from]
	if l == nil {
		if t.by == nil || len(t.by) >= maxAddresses {
			t.by = map[string]*rate.Limiter{}
		}
		l = rate.NewLimiter(rate.Every(6*time.Second), 10)
		t.by[from] = l
	}
	return l.AllowN(now, 1)
}
