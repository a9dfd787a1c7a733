package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/internal/cloud/tfc"
)

const modelLine = `{"phase":"apply","status":"applying","model":{"version":2,"cursor":5,"head":{"run":"r"},` +
	`"counts":{},"names":[""],"vertices":{"number":[]}}}`

// A watcher that reconnects requests the events after those that it has read.
func TestWatchingGoesOnWhereTheConnectionWasLost(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		switch len(asked) {
		case 1:
			fmt.Fprintln(w, modelLine)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler) // the connection breaks
		case 2:
			w.WriteHeader(http.StatusBadGateway) // the service starts again
		case 3:
			fmt.Fprintln(w, `{"phase":"apply","status":"applying","changes":{"version":2,"cursor":9,"vertices":[]}}`)
		case 4:
			fmt.Fprintln(w, modelLine)
			fmt.Fprintln(w, `{"status":"applied","over":true}`)
		}
	}))
	defer server.Close()
	base, err := url.Parse(server.URL + "/api/v2/")
	if err != nil {
		t.Fatal(err)
	}
	client := tfc.New(tfc.Options{Base: base, Token: "t", HTTP: server.Client()})
	var said []string
	var seen []Seen
	err = Watch(t.Context(), client, "run-1", func(text string) { said = append(said, text) }, func(s *Seen) error {
		seen = append(seen, *s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(asked, "|"); got != "|cursor=5&phase=apply|cursor=5&phase=apply|cursor=9&phase=apply" {
		t.Errorf("the request is %s", got)
	}
	if len(seen) != 4 || seen[0].Again || !seen[2].Again || !seen[3].Over || seen[3].Status != tfc.Applied {
		t.Errorf("%+v", seen)
	}
	if len(said) != 2 {
		t.Errorf("the messages are %q", said)
	}
}

func TestWatchingEndsWithTheRefusalOfTheServiceAndWithAnInterruptAtOnce(t *testing.T) {
	begun := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "run-none") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_ = http.NewResponseController(w).Flush()
		close(begun)
		<-r.Context().Done()
	}))
	defer server.Close()
	base, err := url.Parse(server.URL + "/api/v2/")
	if err != nil {
		t.Fatal(err)
	}
	client := tfc.New(tfc.Options{Base: base, Token: "t", HTTP: server.Client()})
	see := func(*Seen) error { return nil }
	if err := Watch(t.Context(), client, "run-none", nil, see); !tfc.NotFound(err) {
		t.Errorf("watching a run that does not exist: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }() // it ends with the test's service
	if err := Watch(ctx, client, "run-1", nil, see); !errors.Is(err, context.Canceled) {
		t.Errorf("after the interrupt: %v", err)
	}
}
