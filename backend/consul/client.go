package consul

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/millipede-iac/millipede/internal/cloud/call"
)

const (
	// maxState bounds the size of a state, and of the response with it, in bytes.
	maxState = 1 << 30
	// maxRefusal is how much of an error's text is shown.
	maxRefusal = 300
)

// Retries of requests to an agent that is busy or unreachable. The pauses double: 3.5 seconds in all.
const (
	retries   = 3
	retryWait = 500 * time.Millisecond
	retryMost = 2 * time.Second
)

// client implements the calls of Consul's HTTP API that the backend needs.
type client struct {
	once, often           *retryablehttp.Client
	base                  *url.URL
	common                url.Values // parameters of each call
	user, password, token string
	userAgent             string
}

func newClient(transport http.RoundTripper, base *url.URL) *client {
	with := func(retries int) *retryablehttp.Client {
		r := retryablehttp.NewClient()
		r.HTTPClient.Transport = transport
		r.Logger = nil
		r.RetryMax, r.RetryWaitMin, r.RetryWaitMax = retries, retryWait, retryMost
		r.ErrorHandler = retryablehttp.PassthroughErrorHandler // return the last response
		call.Bound(r)
		return r
	}
	return &client{once: with(0), often: with(retries), base: base}
}

// refusal is an error response.
type refusal struct {
	doing  string
	status int
	text   string
}

func (e *refusal) Error() string {
	text := http.StatusText(e.status)
	if e.text != "" {
		text += ": " + e.text
	}
	return fmt.Sprintf("%s: Consul answered %d %s", e.doing, e.status, text)
}

// isStatus reports whether an error is a response with one of these statuses.
func isStatus(err error, status int) bool {
	var e *refusal
	return errors.As(err, &e) && e.status == status
}

// tooLarge reports whether Consul rejects a request because of its size.
func tooLarge(err error) bool {
	var e *refusal
	return errors.As(err, &e) && (e.status == http.StatusRequestEntityTooLarge || strings.Contains(e.text, "too large"))
}

// call makes one call, and returns the body of the response. A response other than 200 is a *refusal.
func (c *client) call(ctx context.Context, by *retryablehttp.Client, method, path string, query url.Values,
	body []byte) ([]byte, error) {
	to := *c.base
	to.Path += path
	all := url.Values{}
	for _, values := range []url.Values{c.common, query} {
		for name, v := range values {
			all[name] = v
		}
	}
	to.RawQuery = all.Encode()
	doing := method + " " + path
	r, err := retryablehttp.NewRequestWithContext(ctx, method, to.String(), body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	r.Header.Set("User-Agent", c.userAgent)
	if c.token != "" {
		r.Header.Set("X-Consul-Token", c.token)
	}
	if c.user != "" || c.password != "" {
		r.SetBasicAuth(c.user, c.password)
	}
	if len(body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := by.Do(r)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // the address is added below
		}
		return nil, fmt.Errorf("%s at %s: %w", doing, c.base, err)
	}
	defer answer.Body.Close() // it was read to its end, or is not needed
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, maxState>>10)) // the part of it that exists
		return text, &refusal{doing: doing, status: answer.StatusCode, text: c.shown(text)}
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, 2*maxState+1))
	if err == nil && len(data) > 2*maxState {
		err = fmt.Errorf("the answer has more than %d bytes", 2*maxState)
	}
	if err != nil {
		err = fmt.Errorf("%s at %s: %w", doing, c.base, err)
	}
	return data, err
}

// shown returns a server's text as one short line, without the token.
func (c *client) shown(text []byte) string {
	line := strings.Join(strings.Fields(strings.ToValidUTF8(string(text), "?")), " ")
	if c.token != "" {
		line = strings.ReplaceAll(line, c.token, "(the token)")
	}
	if len(line) > maxRefusal {
		line = strings.ToValidUTF8(line[:maxRefusal], "") + "..."
	}
	return line
}

// pair is a key with its value.
type pair struct {
	Key         string
	Value       []byte
	Flags       uint64
	Session     string
	ModifyIndex uint64
}

// get reads a key; nil if there is none. The read is consistent: the leader answers.
func (c *client) get(ctx context.Context, key string, more url.Values) (*pair, error) {
	query := url.Values{"consistent": {""}}
	for name, v := range more {
		query[name] = v
	}
	data, err := c.call(ctx, c.often, http.MethodGet, "/v1/kv/"+key, query, nil)
	if isStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var pairs []*pair
	if err := json.Unmarshal(data, &pairs); err != nil {
		return nil, fmt.Errorf("reading the key %q: the answer is not Consul's: %w", key, err)
	}
	if len(pairs) != 1 || pairs[0] == nil {
		return nil, fmt.Errorf("reading the key %q: the answer holds %d values", key, len(pairs))
	}
	return pairs[0], nil
}

// keys lists the keys with a prefix, up to a separator.
func (c *client) keys(ctx context.Context, prefix, separator string) ([]string, error) {
	data, err := c.call(ctx, c.often, http.MethodGet, "/v1/kv/"+prefix,
		url.Values{"keys": {""}, "separator": {separator}, "consistent": {""}}, nil)
	if isStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var keys []string
	if err := json.Unmarshal(data, &keys); err != nil {
		return nil, fmt.Errorf("listing keys: the answer is not Consul's: %w", err)
	}
	return keys, nil
}

// put writes a key, and returns whether Consul has done so.
func (c *client) put(ctx context.Context, key string, query url.Values, value []byte) (bool, error) {
	answer, err := c.call(ctx, c.often, http.MethodPut, "/v1/kv/"+key, query, value)
	return string(bytes.TrimSpace(answer)) == "true", err
}

// remove deletes a key, or with recurse all keys with that prefix. If there is none, that is not an error.
func (c *client) remove(ctx context.Context, key string, recurse bool) error {
	var query url.Values
	if recurse {
		query = url.Values{"recurse": {""}}
	}
	_, err := c.call(ctx, c.often, http.MethodDelete, "/v1/kv/"+key, query, nil)
	return err
}

// operation is one part of a transaction.
type operation struct {
	Verb    string
	Key     string
	Value   []byte `json:",omitempty"`
	Index   uint64 `json:",omitempty"`
	Session string `json:",omitempty"`
}

// rolledBack is the error of a transaction with a rejected operation: nothing was done.
type rolledBack struct {
	operation int // the first rejected one
	what      string
}

func (e *rolledBack) Error() string { return "Consul rolled the transaction back: " + e.what }

// transact executes all operations or none, and returns the written pairs.
func (c *client) transact(ctx context.Context, ops ...operation) ([]pair, error) {
	type entry struct{ KV operation }
	entries := make([]entry, len(ops))
	for i, op := range ops {
		entries[i].KV = op
	}
	body, err := json.Marshal(entries)
	if err != nil {
		return nil, err
	}
	data, err := c.call(ctx, c.often, http.MethodPut, "/v1/txn", nil, body)
	conflict := isStatus(err, http.StatusConflict)
	if err != nil && !conflict {
		return nil, err
	}
	var answer struct {
		Results []struct{ KV pair }
		Errors  []struct {
			OpIndex int
			What    string
		}
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("a transaction: the answer is not Consul's: %w", err)
	}
	if len(answer.Errors) > 0 {
		first := answer.Errors[0]
		return nil, &rolledBack{operation: first.OpIndex, what: c.shown([]byte(first.What))}
	}
	if conflict {
		return nil, err
	}
	out := make([]pair, len(answer.Results))
	for i, r := range answer.Results {
		out[i] = r.KV
	}
	return out, nil
}

// createSession creates a session, which expires unless it is renewed.
func (c *client) createSession(ctx context.Context, name string, ttl, delay time.Duration) (string, error) {
	body, err := json.Marshal(map[string]string{
		"Name": name, "TTL": ttl.String(), "LockDelay": delay.String(), "Behavior": "release",
	})
	if err != nil {
		return "", err
	}
	data, err := c.call(ctx, c.often, http.MethodPut, "/v1/session/create", nil, body)
	if err != nil {
		return "", err
	}
	var answer struct{ ID string }
	if err := json.Unmarshal(data, &answer); err != nil || answer.ID == "" {
		return "", errors.New("creating a session: the answer is not Consul's")
	}
	return answer.ID, nil
}

// renewSession renews a session, and reports whether it still exists. There are no retries.
func (c *client) renewSession(ctx context.Context, id string) (bool, error) {
	_, err := c.call(ctx, c.once, http.MethodPut, "/v1/session/renew/"+id, nil, nil)
	if isStatus(err, http.StatusNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (c *client) destroySession(ctx context.Context, id string) error {
	_, err := c.call(ctx, c.often, http.MethodPut, "/v1/session/destroy/"+id, nil, nil)
	return err
}
