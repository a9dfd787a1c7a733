//go:build unix

// Package browser shows the pages of the service in a real browser, and uses them as a person does.
//
// The browser is Debian's Chromium, without a screen. The service is the real one with its store, and an engine that
// the test controls; other tests test the real engine.
package browser

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/web"
)

// pageTimeout is how long a page has time to become as it should be, on a machine under load.
const pageTimeout = 25 * time.Second

// chromium returns the program; without it the test is skipped, or fails where the variable MILLIPEDE_REQUIRE_CHROMIUM
// is set.
func chromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("MILLIPEDE_REQUIRE_CHROMIUM") != "" {
		t.Fatal("Chromium is not installed, and MILLIPEDE_REQUIRE_CHROMIUM is set")
	}
	t.Skip("Chromium is not installed (Debian: chromium)")
	return ""
}

// Site is a service with pages, and a browser that looks at them.
type Site struct {
	t *testing.T
	*servicetest.Harness
	Address string
	ctx     context.Context //nolint:containedctx // the browser's tab is one

	server *httptest.Server
	cut    atomic.Bool // the service answers nothing

	mu       sync.Mutex // guards problems
	problems []string   // the errors on the browser's console
}

// Open starts a service and a browser. When the test ends, the console must have shown no error.
func Open(t *testing.T) *Site {
	t.Helper()
	program := chromium(t)
	s := &Site{t: t, Harness: servicetest.New(t)}
	mux := http.NewServeMux()
	handler := web.Handler(web.Options{Service: s.Harness.Service})
	for _, path := range web.Paths {
		mux.Handle(path, handler)
	}
	server := httptest.NewUnstartedServer(s.cutOff(mux))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // browsers hang up
	s.server = server
	server.EnableHTTP2 = true
	server.StartTLS()
	s.Address = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, p := range s.problems {
			t.Errorf("the console shows: %s", p)
		}
	})
	s.ctx = s.browser(program)
	return s
}

// browser starts program and returns the context of its first tab; both end with the test. Chromium on a machine under
// load sometimes crashes before it has opened a tab, which says nothing about the pages: it is started three times at
// most.
func (s *Site) browser(program string) context.Context {
	s.t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.Flag("ignore-certificate-errors", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("force-color-profile", "srgb"),
		chromedp.WindowSize(1280, 900))
	for attempt := 1; ; attempt++ {
		allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, closeTab := chromedp.NewContext(allocator)
		stop := func() {
			closeTab()
			end()
		}
		chromedp.ListenTarget(ctx, s.listen)
		err := chromedp.Run(ctx) // the browser ends with the context of the first call
		if err == nil {
			s.t.Cleanup(stop)
			return ctx
		}
		stop()
		if attempt == 3 {
			s.t.Fatal(err)
		}
		s.t.Logf("start %d of the browser: %v", attempt, err)
	}
}

// listen records the errors of the console: exceptions, violations of the policy, missing files.
func (s *Site) listen(event any) {
	problem := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		problem = e.ExceptionDetails.Error()
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeAssert {
			for _, a := range e.Args {
				problem += string(a.Value) + a.Description + " "
			}
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError {
			problem = e.Entry.Text + " " + e.Entry.URL
		}
	}
	if problem != "" {
		s.mu.Lock()
		s.problems = append(s.problems, problem)
		s.mu.Unlock()
	}
}

// forgive removes an error of the console that the test has caused.
func (s *Site) forgive(part string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var left []string
	for _, p := range s.problems {
		if !strings.Contains(p, part) {
			left = append(left, p)
		}
	}
	s.problems = left
}

// do makes the browser execute actions.
func (s *Site) do(actions ...chromedp.Action) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, pageTimeout)
	defer cancel()
	for _, action := range actions {
		err := chromedp.Run(ctx, action)
		for err != nil && strings.Contains(err.Error(), forgotten) {
			err = chromedp.Run(ctx, action)
		}
		if err != nil {
			s.t.Fatalf("%v; the page shows: %s", err, s.text())
		}
	}
}

// forgotten is the error of an action that began before the browser gave the nodes of a new page their identifiers
// again. The browser does so when the page has been parsed, and chromedp looks up the node first and acts on it second.
// The action had no effect yet.
const forgotten = "Could not find node with given id"

// text returns the text of the page.
func (s *Site) text() string {
	var text string
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
	defer cancel()
	err := chromedp.Run(ctx, chromedp.Evaluate(`location.pathname + ": " + document.body.innerText`, &text))
	if err != nil {
		return err.Error()
	}
	return text
}

// open goes to a page.
func (s *Site) open(path string) {
	s.t.Helper()
	s.do(chromedp.Navigate(s.Address+path), chromedp.WaitVisible("main", chromedp.ByQuery))
}

// until waits until an expression of the page is true. The browser may load another page meanwhile.
func (s *Site) until(what, expression string) {
	s.t.Helper()
	end := time.Now().Add(pageTimeout)
	for {
		err := s.poll(expression, time.Until(end))
		if err == nil {
			return
		}
		if left := strings.Contains(err.Error(), "navigated") || strings.Contains(err.Error(), "context with"); !left ||
			time.Now().After(end) {
			s.t.Fatalf("%s: %v; the page shows: %s", what, err, s.text())
		}
	}
}

func (s *Site) poll(expression string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Poll("("+expression+") || null", nil,
		chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(limit)))
}

// shows waits until the page shows a text.
func (s *Site) shows(text string) {
	s.t.Helper()
	s.until("the page does not show "+text, fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// value returns the value of an expression of the page.
func value[T any](s *Site, expression string) T {
	s.t.Helper()
	var v T
	s.do(chromedp.Evaluate(expression, &v, func(p *runtime.EvaluateParams) *runtime.EvaluateParams {
		return p.WithAwaitPromise(true)
	}))
	return v
}

// login logs in as the administrator, by keyboard.
func (s *Site) login() {
	s.t.Helper()
	s.do(chromedp.Navigate(s.Address+"/app/login"), chromedp.WaitVisible("#username", chromedp.ByQuery))
	s.until("the name has no focus", `document.activeElement.id === "username"`)
	s.do(chromedp.KeyEvent("root\t"+s.Token+"\r"), chromedp.WaitVisible("#needs", chromedp.ByQuery))
}

// scheme makes the browser prefer light or dark.
func (s *Site) scheme(name string) {
	s.t.Helper()
	s.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: name}}))
}

// screenshot keeps a picture of the page for the documents, when the variable MILLIPEDE_SCREENSHOTS names a directory;
// always it checks that one can be made.
func (s *Site) screenshot(name string, width, height int64) {
	s.t.Helper()
	var picture []byte
	s.do(chromedp.EmulateViewport(width, height), chromedp.CaptureScreenshot(&picture),
		chromedp.EmulateViewport(1280, 900))
	if len(picture) == 0 || len(picture) > 250_000 {
		s.t.Errorf("the picture %s has %d bytes", name, len(picture))
	}
	if dir := os.Getenv("MILLIPEDE_SCREENSHOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
			s.t.Error(err)
		}
	}
}

// cutOff does not answer while the test simulates a lost connection.
func (s *Site) cutOff(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.cut.Load() {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "cut off")
			return
		}
		next.ServeHTTP(w, r)
	})
}
