// Package call sends requests to HTTP services of clouds, and sends them again while a service is busy.
//
// How a request is signed, and what is asked, is for the packages that use it.
package call

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

// Caller sends requests. Safe for concurrent use once it is set up.
type Caller struct {
	// Client sends them. It should follow no redirects, which could carry credentials to another host. Required.
	Client *http.Client
	// Sign prepares a request before each attempt; nil signs nothing. The body is also the request's own.
	Sign func(ctx context.Context, r *http.Request, body []byte) error
	// UserAgent is what services are told.
	UserAgent string
	// Attempts is how often a request is sent in total; default 5. Pause is the time before the second attempt, which
	// doubles with each; default 250 ms. A service that asks for a longer one gets it, up to 20 s.
	Attempts int
	Pause    time.Duration
	// Timeout bounds one attempt with its answer; 0 means none.
	Timeout time.Duration
}

// Request is one call.
type Request struct {
	Method, URL string
	Header      http.Header
	Body        []byte
}

// Response is an answer, read whole.
type Response struct {
	Header http.Header
	Body   []byte
	// Attempt tells which attempt was answered so, the first being 1.
	Attempt int
}

// Error is an answer that says no.
type Error struct {
	Status        int
	Code, Message string
	// Body is the answer as it came, for services that say it otherwise; at most 64 KiB.
	Body []byte
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
	if e.Code != "" {
		return fmt.Sprintf("%s (status %d, %s)", text, e.Status, e.Code)
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

// IsCode tells whether an error is an *Error with one of these codes.
func IsCode(err error, codes ...string) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	for _, c := range codes {
		if e.Code == c {
			return true
		}
	}
	return false
}

// NoRedirects is the CheckRedirect of clients that follow none.
func NoRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Do sends a request, and again after a pause while the service is busy or cannot be reached. So it is for requests
// that may be carried out twice. A host that does not exist or refuses connections is not asked again. The error of an
// answer of 300 or above is *Error.
func (c *Caller) Do(ctx context.Context, r Request) (*Response, error) {
	attempts, pause := c.Attempts, c.Pause
	if attempts <= 0 {
		attempts = 5
	}
	if pause <= 0 {
		pause = 250 * time.Millisecond
	}
	for attempt := 1; ; attempt++ {
		answer, err := c.once(ctx, r)
		if err == nil {
			answer.Attempt = attempt
			return answer, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var refused *Error
		if errors.As(err, &refused) {
			refused.Attempt = attempt
		}
		if attempt >= attempts || !again(err) {
			return nil, err
		}
		wait := pause/2 + rand.N(pause/2+1) // not all at the same moment
		if refused != nil {
			wait = min(max(wait, refused.after), maxPause)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		case <-timer.C:
		}
		pause = min(2*pause, maxPause)
	}
}

// maxPause is the longest pause between two attempts, whatever a service asks for.
const maxPause = 20 * time.Second

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

// once sends a request once, and reads the answer.
func (c *Caller) once(ctx context.Context, r Request) (*Response, error) {
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	h, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	for name, values := range r.Header {
		h.Header[http.CanonicalHeaderKey(name)] = values
	}
	h.Header.Set("User-Agent", c.UserAgent)
	if c.Sign != nil {
		if err := c.Sign(ctx, h, r.Body); err != nil {
			return nil, err
		}
	}
	answer, err := c.Client.Do(h)
	if err != nil {
		return nil, withoutQuery(err)
	}
	defer answer.Body.Close() // read to its end, or given up
	limit := int64(maxAnswer)
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
	return &Response{Header: answer.Header, Body: body}, nil
}

// refusal reads why a service says no: XML or JSON with a code and a message, or a header of Azure's.
func refusal(answer *http.Response, body []byte) error {
	e := &Error{Status: answer.StatusCode, Code: answer.Header.Get("X-Ms-Error-Code"), Body: body}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.after = time.Duration(min(seconds, 3600)) * time.Second
	}
	var document struct{ Code, Message string }
	var object struct {
		Error struct{ Code, Message string }
	}
	text := bytes.TrimPrefix(bytes.TrimSpace(body), []byte("\ufeff"))
	switch {
	case len(text) == 0:
	case text[0] == '<' && xml.Unmarshal(text, &document) == nil:
		e.Code, e.Message = either(document.Code, e.Code), document.Message
	case text[0] == '{' && json.Unmarshal(text, &object) == nil:
		e.Code, e.Message = either(object.Error.Code, e.Code), object.Error.Message
	}
	e.Message, _, _ = strings.Cut(e.Message, "\n") // Azure adds the request's ID and time in lines of their own
	if len(e.Message) > 500 {
		e.Message = e.Message[:500]
	}
	e.Message = strings.ToValidUTF8(e.Message, "")
	return e
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
