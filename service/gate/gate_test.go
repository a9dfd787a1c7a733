package gate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service/gate"
)

func TestWhoGuessesTokensIsSlowedDownAndNobodyElse(t *testing.T) {
	now := time.Now()
	h := gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}), gate.Options{Now: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler)})
	ask := func(from, token string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v2/x", nil)
		r.RemoteAddr = from
		if token != "" {
			r.Header.Set("Authorization", token)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code == http.StatusTooManyRequests { // clients crash if this is no number
			if s, err := strconv.ParseFloat(w.Header().Get("X-RateLimit-Reset"), 64); err != nil || s <= 0 {
				t.Errorf("X-RateLimit-Reset is %q", w.Header().Get("X-RateLimit-Reset"))
			}
		}
		return w.Code
	}
	slowed := false
	for range 100 {
		slowed = slowed || ask("10.0.0.1:5", "") == http.StatusTooManyRequests
	}
	if !slowed {
		t.Error("none of 100 attempts was refused")
	}
	if status := ask("10.0.0.2:5", ""); status != http.StatusUnauthorized {
		t.Errorf("from another address: %d", status)
	}
	for range 200 {
		if status := ask("10.0.0.3:5", "good"); status != http.StatusOK {
			t.Fatalf("with a good token: %d", status)
		}
	}
	now = now.Add(2 * time.Second)
	if status := ask("10.0.0.1:5", ""); status != http.StatusUnauthorized {
		t.Errorf("later: %d", status)
	}
}

// One program with an expired token blocked all clients with the same address, such as those behind a proxy or a
// firewall: their requests got 429, and command lines that followed a log failed, because they do not repeat requests
// for logs.
func TestWhoHasAValidTokenDoesNotWaitForAProgramWithAnInvalidOne(t *testing.T) {
	now := time.Now()
	valid := func(r *http.Request) bool { return r.Header.Get("Authorization") == "good" }
	h := gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !valid(r) && !strings.HasPrefix(r.URL.Path, "/logs/") {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}), gate.Options{Now: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler), Known: valid,
		Secret: []string{"/logs/"}})
	ask := func(path, token string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Header.Set("Authorization", token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	for range 100 {
		ask("/api/v2/x", "expired")
	}
	for _, try := range []struct {
		path, token string
		want        int
	}{{"/api/v2/x", "expired", 429}, {"/api/v2/x", "", 429}, {"/api/v2/x", "good", 200}, {"/logs/secret", "", 200}} {
		if got := ask(try.path, try.token); got != try.want {
			t.Errorf("%s with %q: %d, not %d", try.path, try.token, got, try.want)
		}
	}
}

func TestAMistakeEndsOneAnswer(t *testing.T) {
	h := gate.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("planted") }),
		gate.Options{Now: time.Now, Logger: slog.New(slog.DiscardHandler),
			Ready: func(context.Context) error { return errors.New("no") }})
	for path, want := range map[string]int{"/x": 500, "/healthz": 200, "/readyz": 503} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// The address of a request is logged without the secret in it.
func TestRequestsAreLoggedWithoutWhatGivesARight(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h := gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}), gate.Options{Now: time.Now, Logger: log, Secret: []string{"/uploads/"}})
	for _, r := range []*http.Request{
		httptest.NewRequest(http.MethodGet, "/app/acme?token=canary", nil),
		httptest.NewRequest(http.MethodPut, "/uploads/canary", nil),
		httptest.NewRequest(http.MethodPost, "/api/v2/runs", nil),
	} {
		r.Header.Set("Authorization", "Bearer canary")
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	text := out.String()
	if strings.Contains(text, "canary") {
		t.Errorf("a secret is logged:\n%s", text)
	}
	var got []string
	for line := range strings.Lines(text) {
		var e struct {
			Level, Method, Path string
			Status              int
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(e.Level, " ", e.Method, " ", e.Path, " ", e.Status))
	}
	want := []string{"DEBUG GET /app/acme 200", "INFO PUT /uploads/... 200", "ERROR POST /api/v2/runs 500"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// Browsers were not told to use HTTPS only. For names that other programs use, too, it would break those.
func TestBrowsersAreToldToUseHTTPSForANameOfTheServiceAlone(t *testing.T) {
	for secure, want := range map[bool]string{true: "max-age=31536000", false: ""} {
		h := gate.Handler(http.NotFoundHandler(), gate.Options{Now: time.Now, Logger: slog.New(slog.DiscardHandler),
			Secure: secure})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", nil))
		if got := w.Header().Get("Strict-Transport-Security"); got != want {
			t.Errorf("%t: %q", secure, got)
		}
	}
}
