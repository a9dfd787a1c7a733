package cloud_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/environ"
)

// Most clients had no time limit: a server that accepted a request and never answered blocked a command for ever.
func TestAServerThatIsSilentIsGivenUp(t *testing.T) {
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-over
	}))
	defer server.Close()
	defer close(over)
	s := cloud.Environment{Environ: environ.Variables{cloud.TimeoutVariable + "=1"}}.Completed()
	transport := s.Transport()
	defer transport.CloseIdleConnections()
	_, err := (&http.Client{Transport: transport}).Get(server.URL) //nolint:bodyclose // there is no answer
	var silent net.Error
	if !errors.As(err, &silent) || !silent.Timeout() {
		t.Errorf("the error is %v, want that of a time that is up", err)
	}
}

func TestASlowAnswerIsNotSilence(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 4 { // in all longer than the timeout
			timer := time.NewTimer(400 * time.Millisecond)
			select {
			case <-timer.C:
			case <-r.Context().Done():
				return
			}
			_, _ = w.Write([]byte("."))
			w.(http.Flusher).Flush()
		}
	}))
	defer server.Close()
	s := cloud.Environment{Environ: environ.Variables{cloud.TimeoutVariable + "=1"}}.Completed()
	transport := s.Transport()
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() // read to its end
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "...." {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestThePatienceIsAMinuteUnlessTheEnvironmentHasANumberOfSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": time.Minute, "5": 5 * time.Second, "0": time.Minute, "-1": time.Minute, "3601": time.Minute, "x": time.Minute,
	} {
		s := cloud.Environment{Environ: environ.Variables{cloud.TimeoutVariable + "=" + text}}.Completed()
		if got := s.Timeout(); got != want {
			t.Errorf("with %q it is %s, want %s", text, got, want)
		}
	}
}
