// Package call sends requests to HTTP services of clouds, and retries them while a service is busy.
//
// Signatures, the content of requests, and the form of error responses belong to the packages that use it.
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

	"github.com/millipede-iac/millipede/internal/sleep"
)

// maxAnswer is the maximum size of a response that is read completely, maxRefusal that of an error response, in
// bytes.
const (
	maxAnswer  = 1 << 30
	maxRefusal = 64 << 10
)

// Caller sends requests. Safe for concurrent use after it is set up.
type Caller struct {
	// Client executes them. It should not follow redirects, which could send credentials to another host. Required.
	Client *http.Client
	// Sign prepares a request before each attempt; nil does not sign. The body is also the request's own.
	Sign func(ctx context.Context, r *http.Request, body []byte) error
	// UserAgent identifies the client to services.
	UserAgent string
	// Attempts is the total number of attempts of a request; default 5. Pause is the pause before the second
	// attempt, which doubles with each; default 250 ms. If a service requests a longer pause, that is used, up to
	// 20 s.
	Attempts int
	Pause    time.Duration
	// Timeout bounds one attempt including its response; 0 means none.
	Timeout time.Duration
	// Explain decodes the parts of an error response that Error does not support; nil if the common form is
	// sufficient.
	Explain func(e *Error, header http.Header)
	// Clock is the clock used by Sign. If a service rejects a request because its clock differs, the request is
	// retried once with the service's time. Nil if signatures have no time.
	Clock *Clock
}

// Request is one call.
type Request struct {
	Method, URL string
	Header      http.Header
	Body        []byte
	// MaxAnswer is the maximum size of the response in bytes; 0 means a gibibyte.
	MaxAnswer int64
}

// Response is a response that was read completely.
type Response struct {
	Header http.Header
	Body   []byte
	// Attempt is the number of the attempt, from 1.
	Attempt int
}

// Error is an error response.
type Error struct {
	Status        int
	Code, Message string
	// Temporary is set if a retry may succeed although the status does not say so.
	Temporary bool
	// RequestID is the service's ID of the request; empty if unknown.
	RequestID string
	// Body is the response as received, for services with other forms; at most 64 KiB.
	Body []byte
	// Attempt is the number of the attempt, from 1: an earlier one may have been executed although its response was
	// lost.
	Attempt int

	after time.Duration // the pause that the service requests
	skew  time.Duration // how far this machine's clock is ahead of the service's, if that may be the reason
}

func (e *Error) Error() string {
	text := strings.TrimRight(e.Message, ".\n")
	if text == "" {
		text = http.StatusText(e.Status)
	}
	about := []string{fmt.Sprintf("status %d", e.Status)}
	if e.Code != "" {
		about = append(about, e.Code)
	}
	if e.RequestID != "" {
		about = append(about, "request "+e.RequestID)
	}
	text += " (" + strings.Join(about, ", ") + ")"
	switch {
	case e.skew > 0:
		text += fmt.Sprintf("; the clock of this machine is %s ahead of the service's", e.skew.Round(time.Second))
	case e.skew < 0:
		text += fmt.Sprintf("; the clock of this machine is %s behind the service's", (-e.skew).Round(time.Second))
	}
	return text
}

// IsStatus reports whether an error is an *Error with one of these statuses.
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

// IsCode reports whether an error is an *Error with one of these codes.
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

// NoRedirects is the CheckRedirect of clients that do not follow redirects.
func NoRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// maxSilences is the maximum number of attempts of a call that may end because the service was silent for too long:
// each takes a while, and there is no third attempt at a service that does not respond twice.
const maxSilences = 2

// Do sends a request, and retries it after a pause while the service is busy or unreachable. So it is for requests
// that may be executed twice. A host that does not exist or refuses connections is not retried. The error for a
// response of 300 or above is *Error.
func (c *Caller) Do(ctx context.Context, r Request) (*Response, error) {
	var answer *Response
	err := c.Repeat(ctx, func(attempt int) error {
		var err error
		if answer, err = c.once(ctx, r); err == nil {
			answer.Attempt = attempt
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// Repeat calls try until it succeeds, fails permanently, or has had all its attempts, as Do does with a request.
// try may send requests by other means; the number of the attempt is set in an *Error that it returns.
func (c *Caller) Repeat(ctx context.Context, try func(attempt int) error) error {
	attempts, pause := c.Attempts, c.Pause
	if attempts <= 0 {
		attempts = 5
	}
	if pause <= 0 {
		pause = 250 * time.Millisecond
	}
	silences, corrected := 0, false
	for attempt := 1; ; attempt++ {
		err := try(attempt)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var refused *Error
		if errors.As(err, &refused) {
			refused.Attempt = attempt
			if !corrected && refused.skew != 0 && c.Clock != nil {
				corrected = true
				c.Clock.behind(refused.skew)
				continue
			}
		}
		if silent(err) {
			silences++
		}
		if attempt >= attempts || silences >= maxSilences || !again(err) {
			return err
		}
		wait := pause/2 + rand.N(pause/2+1) // clients should not retry simultaneously
		if refused != nil {
			wait = min(max(wait, refused.after), maxPause)
		}
		if err := sleep.For(ctx, wait); err != nil {
			return err
		}
		pause = min(2*pause, maxPause)
	}
}

// maxPause is the longest pause between two attempts, even if a service requests more.
const maxPause = 20 * time.Second

// again reports whether a failed attempt may succeed when it is retried.
func again(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return e.Temporary || e.Status == http.StatusRequestTimeout || e.Status == http.StatusTooManyRequests ||
			e.Status >= 500 && e.Status != http.StatusNotImplemented
	}
	var missing *net.DNSError
	if errors.As(err, &missing) && missing.IsNotFound || errors.Is(err, syscall.ECONNREFUSED) {
		return false
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

// silent reports whether an attempt failed because the service was silent for too long.
func silent(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}

// once sends a request once, and reads the response.
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
	return c.Receive(h, r.MaxAnswer)
}

// Receive sends a complete request once, and reads the response, of at most limit bytes (0: a gibibyte).
func (c *Caller) Receive(r *http.Request, limit int64) (*Response, error) {
	answer, err := c.Client.Do(r)
	if err != nil {
		return nil, withoutQuery(err)
	}
	defer answer.Body.Close() // read to its end, or abandoned
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
		return nil, c.refusal(answer, body)
	case int64(len(body)) > limit:
		return nil, fmt.Errorf("the answer has more than %d bytes", limit)
	}
	return &Response{Header: answer.Header, Body: body}, nil
}

// refusal decodes the reason of an error response: XML or JSON with a code and a message, or a header of Azure.
func (c *Caller) refusal(answer *http.Response, body []byte) error {
	e := &Error{
		Status: answer.StatusCode, Code: answer.Header.Get("X-Ms-Error-Code"), Body: body[:min(len(body), maxRefusal)],
	}
	switch answer.StatusCode {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
		e.skew = c.Clock.skew(answer.Header)
	}
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
	if c.Explain != nil {
		c.Explain(e, answer.Header)
	}
	e.Message, _, _ = strings.Cut(e.Message, "\n") // Azure adds lines with the request's ID and time
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
