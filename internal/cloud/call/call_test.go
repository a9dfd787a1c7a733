package call_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/internal/cloud/call"
)

// answers serves one function after the other, and the last one from then on.
func answers(t *testing.T, each ...http.HandlerFunc) (*httptest.Server, *int) {
	t.Helper()
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := min(asked, len(each)-1)
		asked++
		each[at](w, r)
	}))
	t.Cleanup(s.Close)
	return s, &asked
}

// Services refused all signatures of a machine whose clock was an hour slow: every command failed until somebody had
// set the clock.
func TestARefusedSignatureIsMadeAgainByTheClockOfTheService(t *testing.T) {
	const format = time.RFC3339
	now := time.Now()
	s, asked := answers(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
		signed, err := time.Parse(format, r.Header.Get("Signed-At"))
		if d := now.Sub(signed); err != nil || d > time.Minute || d < -time.Minute {
			w.WriteHeader(http.StatusForbidden)
		}
	})
	clock := &call.Clock{Machine: func() time.Time { return now.Add(-time.Hour) }}
	c := &call.Caller{Client: s.Client(), Clock: clock, Attempts: 1,
		Sign: func(_ context.Context, r *http.Request, _ []byte) error {
			r.Header.Set("Signed-At", clock.Now().UTC().Format(format))
			return nil
		}}
	for range 2 {
		if _, err := c.Do(t.Context(), call.Request{Method: http.MethodGet, URL: s.URL}); err != nil {
			t.Fatal(err)
		}
	}
	if *asked != 3 {
		t.Errorf("the service was asked %d times, want twice by the first call and once by the second", *asked)
	}
}

func TestARefusalThatTheClockMayExplainSaysHowWrongItIs(t *testing.T) {
	s, asked := answers(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(-2*time.Hour).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusForbidden)
	}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(2*time.Hour).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusForbidden)
	})
	c := &call.Caller{Client: s.Client(), Clock: &call.Clock{}, Attempts: 5}
	_, err := c.Do(t.Context(), call.Request{Method: http.MethodGet, URL: s.URL})
	if err == nil || !strings.Contains(err.Error(), "the clock of this machine is 4h0m") || *asked != 2 {
		t.Errorf("%v, after %d requests", err, *asked)
	}
}

func TestAServiceThatIsBusyIsGivenTheTimeThatItAsksFor(t *testing.T) {
	var at []time.Time
	s, _ := answers(t, func(w http.ResponseWriter, _ *http.Request) {
		at = append(at, time.Now())
		w.Header().Set("Retry-After", strconv.Itoa(1))
		w.WriteHeader(http.StatusTooManyRequests)
	}, func(http.ResponseWriter, *http.Request) { at = append(at, time.Now()) })
	c := &call.Caller{Client: s.Client(), Pause: time.Millisecond}
	answer, err := c.Do(t.Context(), call.Request{Method: http.MethodGet, URL: s.URL})
	if err != nil || answer.Attempt != 2 || at[1].Sub(at[0]) < time.Second {
		t.Errorf("%v, %+v, at %s", err, answer, at)
	}
}

// silence is an error like that of a connection without data.
type silence struct{}

func (silence) Error() string   { return "nothing was heard" }
func (silence) Timeout() bool   { return true }
func (silence) Temporary() bool { return true }

func TestASilentServiceIsAskedTwiceAtMost(t *testing.T) {
	asked := 0
	c := &call.Caller{Attempts: 9, Pause: time.Millisecond}
	err := c.Repeat(t.Context(), func(int) error { asked++; return silence{} })
	if !errors.Is(err, silence{}) || asked != 2 {
		t.Errorf("%v, after %d attempts", err, asked)
	}
}

func TestKeysAreFetchedAgainBeforeTheyEnd(t *testing.T) {
	fetched := 0
	ends := time.Now().Add(time.Hour)
	keys := call.NewRenewed(time.Minute, func(context.Context) (int, time.Time, error) {
		fetched++
		return fetched, ends, nil
	})
	for _, want := range []int{1, 1} {
		if got, err := keys.Get(t.Context()); err != nil || got != want {
			t.Fatalf("got %d, %v; want %d", got, err, want)
		}
	}
	keys.Early = 2 * time.Hour
	if got, err := keys.Get(t.Context()); err != nil || got != 2 {
		t.Errorf("got %d, %v; want the second ones", got, err)
	}
}
