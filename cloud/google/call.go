package google

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// maxAnswer is how large an answer may be that is read whole, maxRefusal how large one that says no, in bytes.
const (
	maxAnswer  = 1 << 30
	maxRefusal = 64 << 10
)

// Request is one call.
type Request struct {
	Method, URL string
	Header      http.Header
	Body        []byte
	// MaxAnswer is how large the answer may be, in bytes; 0 means a gibibyte.
	MaxAnswer int64
}

// Response is an answer, read whole.
type Response struct {
	Header http.Header
	Body   []byte
}

// Error is an answer that says no.
type Error struct {
	Status          int
	Reason, Message string
	// Attempt tells which attempt was answered so, the first being 1: an earlier one may have been carried out although
	// its answer was lost.
	Attempt int

	after time.Duration // what the service asks to wait
}

func (e *Error) Error() string {
	text := strings.TrimRight(e.Message, ".\n")
	if text == "" {
		text = http.StatusText(e.Status)
	}
	if e.Reason != "" {
		return fmt.Sprintf("%s (status %d, %s)", text, e.Status, e.Reason)
	}
	return fmt.Sprintf("%s (status %d)", text, e.Status)
}

// IsStatus tells whether an error is an *Error with one of these statuses.
func IsStatus(err error, statuses ...int) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	for _, s := range statuses {
		if e.Status == s {
			return true
		}
	}
	return false
}

// Do sends a request, and again after a pause while the service is busy, or is not reached, as often as the settings
// say. So it is for requests that may be carried out twice. A host that does not exist or refuses connections is not
// asked again. The error of an answer of 300 or above is *Error.
func (s *Session) Do(ctx context.Context, r Request) (*Response, error) {
	var answer *Response
	err := s.repeat(ctx, func(attempt int) error {
		h, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(r.Body))
		if err != nil {
			return err
		}
		for name, values := range r.Header {
			h.Header[http.CanonicalHeaderKey(name)] = values
		}
		h.Header.Set("User-Agent", s.settings.UserAgent)
		answer, err = receive(s.client, h, r.MaxAnswer)
		var e *Error
		if errors.As(err, &e) {
			e.Attempt = attempt
		}
		return err
	})
	return answer, err
}

// maxPause is the longest pause between two attempts, whatever a service asks for.
const maxPause = 20 * time.Second

// repeat calls try until it succeeds, fails for good, or has had all its attempts.
func (s *Session) repeat(ctx context.Context, try func(attempt int) error) error {
	pause := s.settings.Pause
	for attempt := 1; ; attempt++ {
		err := try(attempt)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if attempt >= s.settings.Attempts || !again(err) {
			return err
		}
		wait := pause/2 + rand.N(pause/2+1) // not all at the same moment
		var e *Error
		if errors.As(err, &e) {
			wait = min(max(wait, e.after), maxPause)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
		pause = min(2*pause, maxPause)
	}
}

// again tells whether an attempt that failed so may succeed a moment later.
func again(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return e.Status == http.StatusRequestTimeout || e.Status == http.StatusTooManyRequests ||
			e.Status >= 500 && e.Status != http.StatusNotImplemented
	}
	var missing *net.DNSError
	if errors.As(err, &missing) && missing.IsNotFound || errors.Is(err, syscall.ECONNREFUSED) {
		return false
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

// receive sends a request once, and reads the answer, of at most limit bytes (0: maxAnswer).
func receive(client *http.Client, r *http.Request, limit int64) (*Response, error) {
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() // read to its end, or given up
	if limit <= 0 {
		limit = maxAnswer
	}
	if answer.StatusCode >= 300 {
		limit = maxRefusal
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the answer: %w", err)
	case answer.StatusCode >= 300:
		return nil, refusal(answer, body)
	case int64(len(body)) > limit:
		return nil, fmt.Errorf("the answer has more than %d bytes", limit)
	}
	return &Response{answer.Header, body}, nil
}

// refusal reads why a service says no: JSON, or XML or a line of text where content was asked for.
func refusal(answer *http.Response, body []byte) error {
	e := &Error{Status: answer.StatusCode}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.after = time.Duration(min(seconds, 3600)) * time.Second
	}
	var object struct {
		Error struct {
			Message, Status string
			Errors          []struct{ Reason string }
		}
	}
	var document struct{ Code, Message string }
	switch text := bytes.TrimSpace(body); {
	case len(text) == 0:
	case text[0] == '{' && json.Unmarshal(text, &object) == nil:
		e.Message, e.Reason = object.Error.Message, object.Error.Status
		if len(object.Error.Errors) > 0 {
			e.Reason = object.Error.Errors[0].Reason
		}
	case text[0] == '<' && xml.Unmarshal(text, &document) == nil:
		e.Message, e.Reason = document.Message, document.Code
	case text[0] != '<':
		line, _, _ := strings.Cut(string(text), "\n")
		e.Message = strings.ToValidUTF8(line[:min(len(line), 200)], "")
	}
	return e
}
