// Package tfc is a client of services with the API of HCP Terraform: that one, Millipede's own, and others.
//
// It implements the requests and responses, and retries requests that may succeed later. Missing features of a
// service are detected by its responses. It discovers no hosts and tokens, and makes no decisions about runs and
// states.
package tfc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/internal/sleep"
)

// Options are the options of a client.
type Options struct {
	// Base is the address of the API, such as https://HOST/api/v2/. It ends with a slash.
	Base  *url.URL
	Token string
	// HTTP executes the requests. It may follow redirects, and must not retry requests itself.
	HTTP *http.Client
	// Agent is the name of the program, Version the version of OpenTofu that it is compatible with.
	Agent, Version string
	// Integrated is set if the requests are those of a cloud block, which gets structured logs.
	Integrated bool
	// Pause is the pause before the first retry of a request; default 0.8 s. Later ones are longer.
	Pause time.Duration
	// Repeating is called when a retry has failed, and there will be another; may be nil.
	Repeating func(attempt int, why error)
}

// Client is a client of one service. Safe for concurrent use.
type Client struct{ o Options }

// New returns a client. It sends no request.
func New(o Options) *Client {
	if o.Pause == 0 {
		o.Pause = 800 * time.Millisecond
	}
	return &Client{o}
}

const (
	// maxAnswer is the maximum size of a response with documents, in bytes.
	maxAnswer = 64 << 20
	// maxState is the maximum size of a state or a plan.
	maxState = 1 << 30
	// attempts is the maximum number of attempts of a request, longestPause the longest pause between two of them.
	attempts     = 30
	longestPause = 16 * time.Second
	mediaType    = "application/vnd.api+json"
)

// Refusal is an error response of a service.
type Refusal struct {
	// Code is the status of the response, such as 404.
	Code int
	// Said is the service's message, a line for each error; empty if there is none.
	Said string
	// the request: its method and path.
	asked string
}

func (r *Refusal) Error() string {
	switch {
	case r.Code == http.StatusUnauthorized:
		return "the service does not accept the token"
	case r.Code == http.StatusNotFound && r.Said == "":
		return "it does not exist, or the token gives no access to it"
	case r.Said == "":
		return fmt.Sprintf("the service answered %d %s", r.Code, http.StatusText(r.Code))
	}
	return r.Said
}

// Refused reports whether an error is a response with this status.
func Refused(err error, code int) bool {
	var r *Refusal
	return errors.As(err, &r) && r.Code == code
}

// NotFound reports whether the object does not exist, or is not visible with the token.
func NotFound(err error) bool { return Refused(err, http.StatusNotFound) }

// Conflict reports whether the request conflicts with the current state of the object.
func Conflict(err error) bool { return Refused(err, http.StatusConflict) }

// request is one request, which can be retried.
type request struct {
	method string
	url    *url.URL
	// body returns the content; nil for none. length is its length.
	body   func() (io.ReadCloser, error)
	length int64
	media  string
	// secret: the address itself is the authorization, so that no token is sent, and it is never shown.
	secret bool
	// accept is the accepted media type; empty for documents.
	accept string
	// most is the maximum number of attempts; 0 for the default.
	most int
}

func content(data []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
}

// send sends a request until there is a response for which a retry is pointless. The caller closes its body.
func (c *Client) send(ctx context.Context, q request) (*http.Response, error) {
	most := q.most
	if most == 0 {
		most = attempts
	}
	for attempt := 1; ; attempt++ {
		answer, err := c.once(ctx, q)
		var why error
		pause := min(c.o.Pause*time.Duration(attempt), max(longestPause, c.o.Pause))
		switch {
		case ctx.Err() != nil:
			if err == nil {
				answer.Body.Close()
			}
			return nil, context.Cause(ctx)
		case err != nil:
			why = err
		case answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode >= 500 &&
			answer.StatusCode != http.StatusNotImplemented:
			if asked, ok := resetOf(answer); ok {
				pause = asked
			}
			if why = refusal(q, answer); attempt < most {
				answer.Body.Close()
			}
		default:
			return answer, nil
		}
		if attempt >= most {
			if answer != nil {
				answer.Body.Close()
			}
			return nil, why
		}
		if c.o.Repeating != nil {
			c.o.Repeating(attempt, why)
		}
		if err := sleep.For(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// resetOf returns the pause that an overloaded service requests.
func resetOf(answer *http.Response) (time.Duration, bool) {
	for _, name := range []string{"X-Ratelimit-Reset", "Retry-After"} {
		seconds, err := strconv.ParseFloat(answer.Header.Get(name), 64)
		if err == nil && seconds >= 0 && seconds <= 3600 {
			return time.Duration(seconds * float64(time.Second)), true
		}
	}
	return 0, false
}

// once sends a request once.
func (c *Client) once(ctx context.Context, q request) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, q.method, q.url.String(), nil)
	if err != nil {
		return nil, err
	}
	if q.body != nil {
		if r.Body, err = q.body(); err != nil {
			return nil, err
		}
		r.ContentLength, r.GetBody = q.length, q.body
		r.Header.Set("Content-Type", q.media)
	}
	accept := q.accept
	if accept == "" {
		accept = mediaType
	}
	r.Header.Set("Accept", accept)
	r.Header.Set("User-Agent", c.o.Agent)
	if !q.secret {
		r.Header.Set("Authorization", "Bearer "+c.o.Token)
		r.Header.Set("Terraform-Version", c.o.Version)
		if c.o.Integrated {
			r.Header.Set("X-Terraform-Integration", "cloud")
		}
	}
	answer, err := c.o.HTTP.Do(r)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // the address in it may be secret
		}
		return nil, fmt.Errorf("asking %s: %w", q.url.Host, err)
	}
	return answer, nil
}

// refusal decodes an error response.
func refusal(q request, answer *http.Response) *Refusal {
	r := &Refusal{Code: answer.StatusCode, asked: q.method + " " + q.url.Path}
	if q.secret {
		r.asked = q.method + " " + q.url.Host
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	var all struct {
		Errors []json.RawMessage `json:"errors"`
		Error  string            `json:"error"` // for addresses outside of the API
	}
	if err != nil || json.Unmarshal(text, &all) != nil {
		return r
	}
	lines := []string{all.Error}
	for _, one := range all.Errors {
		var e struct{ Title, Detail string }
		var plain string
		switch {
		case json.Unmarshal(one, &plain) == nil:
			lines = append(lines, plain)
		case json.Unmarshal(one, &e) != nil:
		case e.Detail == "" || e.Detail == e.Title:
			lines = append(lines, e.Title)
		case e.Title == "" || strings.EqualFold(e.Title, http.StatusText(r.Code)):
			lines = append(lines, e.Detail)
		default:
			lines = append(lines, e.Title+": "+e.Detail)
		}
	}
	r.Said = strings.TrimSpace(strings.Join(lines, "\n"))
	return r
}

// ask sends a request with documents, and decodes the response into out, which may be nil.
func (c *Client) ask(ctx context.Context, method, path string, query url.Values, body, out any) error {
	return c.askFor(ctx, method, path, query, body, out, 0)
}

func (c *Client) askFor(ctx context.Context, method, path string, query url.Values, body, out any, most int) error {
	u, err := c.o.Base.Parse(path)
	if err != nil {
		return err
	}
	u.RawQuery = query.Encode()
	q := request{method: method, url: u, media: mediaType, most: most}
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		q.body, q.length = content(text), int64(len(text))
	}
	code, text, err := c.read(ctx, q, maxAnswer)
	switch {
	case err != nil:
		return err
	case out == nil:
		return nil
	case code == http.StatusNoContent:
		return fmt.Errorf("the answer to %s %s has no content", method, u.Path)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("reading the answer to %s %s: %w", method, u.Path, err)
	}
	return nil
}

// read sends a request, and reads the response, of at most a number of bytes. An error response is a *Refusal. A
// request that only reads is repeated if the connection was lost in the middle of the response: the service may have
// been restarted.
func (c *Client) read(ctx context.Context, q request, most int64) (code int, data []byte, err error) {
	for attempt := 1; ; attempt++ {
		answer, err := c.send(ctx, q)
		if err != nil {
			return 0, nil, err
		}
		if answer.StatusCode >= 300 {
			err := refusal(q, answer)
			answer.Body.Close()
			return 0, nil, err
		}
		data, err := readAll(answer.Body, most)
		answer.Body.Close()
		switch {
		case err == nil:
			return answer.StatusCode, data, nil
		case ctx.Err() != nil:
			return 0, nil, context.Cause(ctx)
		case q.method != http.MethodGet || attempt == readAttempts || errors.Is(err, errTooLong):
			return 0, nil, fmt.Errorf("reading the answer to %s %s: %w", q.method, q.url.Path, err)
		}
		if c.o.Repeating != nil {
			c.o.Repeating(attempt, err)
		}
	}
}

// address resolves an address from the service, which may be relative to the API.
func (c *Client) address(text string) (*url.URL, error) {
	u, err := c.o.Base.Parse(text)
	if err != nil || text == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("the service has returned an invalid address")
	}
	return u, nil
}

// put uploads to an address from the service.
func (c *Client) put(ctx context.Context, to string, body func() (io.ReadCloser, error), length int64) error {
	u, err := c.address(to)
	if err != nil {
		return err
	}
	q := request{method: http.MethodPut, url: u, body: body, length: length, media: "application/octet-stream",
		secret: true, accept: "*/*"}
	answer, err := c.send(ctx, q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		return refusal(q, answer)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer))
	return nil
}

// get downloads from an address of the service; nil if there is no content yet.
func (c *Client) get(ctx context.Context, from string) ([]byte, error) {
	u, err := c.address(from)
	if err != nil {
		return nil, err
	}
	code, data, err := c.read(ctx, request{method: http.MethodGet, url: u, accept: "*/*"}, maxState)
	if code == http.StatusNoContent {
		return nil, nil
	}
	return data, err
}

// readAttempts is the number of attempts for a response that ends too early.
const readAttempts = 10

// errTooLong is the error for a response that is longer than expected.
var errTooLong = errors.New("it is too long")

// readAll reads a body of a bounded size.
func readAll(r io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%w: more than %d bytes", errTooLong, most)
	}
	return data, err
}
