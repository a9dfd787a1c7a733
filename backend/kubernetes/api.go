package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/millipede-iac/millipede/internal/cloud/call"
)

// maxAnswer bounds the size of a response: a page of a list is the largest.
const maxAnswer = 64 << 20

// api is an API server, with the identity of the client.
type api struct {
	address   *url.URL
	client    *retryablehttp.Client
	identity  *identity
	userAgent string
}

// retry reports whether a request is retried: only if the server says that it has not processed it.
func retry(ctx context.Context, answer *http.Response, err error) (bool, error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if err != nil {
		return false, err
	}
	busy := answer.StatusCode == http.StatusTooManyRequests ||
		answer.StatusCode >= 500 && answer.Header.Get("Retry-After") != ""
	return busy, nil
}

func newClient(transport *http.Transport) *retryablehttp.Client {
	c := retryablehttp.NewClient()
	c.HTTPClient.Transport = transport
	c.HTTPClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.Logger = nil
	c.RetryMax, c.RetryWaitMin, c.RetryWaitMax = 4, time.Second, 10*time.Second
	c.CheckRetry = retry
	c.ErrorHandler = retryablehttp.PassthroughErrorHandler
	call.Bound(c)
	return c
}

// statusError is an error response.
type statusError struct {
	Code          int
	Doing, Reason string
}

func (e *statusError) Error() string {
	switch e.Code {
	case http.StatusUnauthorized:
		return e.Doing + ": the API server does not accept the credentials (401)"
	case http.StatusForbidden:
		return e.Doing + ": the API server denies access with these credentials (403): " + e.Reason
	}
	return fmt.Sprintf("%s: the API server answered %d: %s", e.Doing, e.Code, e.Reason)
}

func isStatus(err error, code int) bool {
	var s *statusError
	return errors.As(err, &s) && s.Code == code
}

// ask sends a request and decodes the response; in and out may be nil. If credentials have expired, it gets new
// ones once.
func (a *api) ask(ctx context.Context, method, path string, query url.Values, accept string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	doing := method + " " + path
	for again := false; ; again = true {
		answer, err := a.send(ctx, method, path, query, accept, body)
		if err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
		data, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
		_ = answer.Body.Close()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", doing, err)
		case len(data) > maxAnswer:
			return fmt.Errorf("%s: the answer has more than %d bytes", doing, maxAnswer)
		case answer.StatusCode == http.StatusUnauthorized && !again && a.identity.forget():
			continue
		case answer.StatusCode >= 300:
			var status struct{ Message string }
			if json.Unmarshal(data, &status) != nil || status.Message == "" {
				status.Message = answer.Status
			}
			return &statusError{answer.StatusCode, doing, status.Message}
		case out == nil:
			return nil
		}
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if err := d.Decode(out); err != nil {
			return fmt.Errorf("%s: the answer is not what an API server sends: %w", doing, err)
		}
		return nil
	}
}

func (a *api) send(
	ctx context.Context, method, path string, query url.Values, accept string, body []byte,
) (*http.Response, error) {
	u := a.address.JoinPath(path)
	u.RawQuery = query.Encode()
	var content any
	if body != nil {
		content = body
	}
	r, err := retryablehttp.NewRequestWithContext(ctx, method, u.String(), content)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", a.userAgent)
	r.Header.Set("Accept", accept)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if err := a.identity.authorize(ctx, r.Request); err != nil {
		return nil, err
	}
	answer, err := a.client.Do(r)
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err // the address in the outer error may contain a password
	}
	return answer, err
}

// collection is the objects of one type in a namespace.
type collection struct {
	api  *api
	path string
}

const wholeObject = "application/json"

// get returns an object; nil if there is none.
func (c collection) get(ctx context.Context, name string) (object, error) {
	var o object
	err := c.api.ask(ctx, http.MethodGet, c.path+"/"+name, nil, wholeObject, nil, &o)
	if isStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	return o, err
}

func (c collection) create(ctx context.Context, o object) error {
	return c.api.ask(ctx, http.MethodPost, c.path, nil, wholeObject, o, nil)
}

// update replaces an object, unless it has changed since it was read.
func (c collection) update(ctx context.Context, o object) error {
	return c.api.ask(ctx, http.MethodPut, c.path+"/"+o.name(), nil, wholeObject, o, nil)
}

// list returns the metadata of the objects that a label selector matches, without the data, in pages of 500.
func (c collection) list(ctx context.Context, labels string) ([]object, error) {
	const accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
	var all []object
	query := url.Values{"labelSelector": {labels}, "limit": {"500"}}
	for {
		var page struct {
			Metadata struct{ Continue string }
			Items    []object
		}
		if err := c.api.ask(ctx, http.MethodGet, c.path, query, accept, nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Metadata.Continue == "" {
			return all, nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}

// remove deletes an object that has this backend's labels. If there is none, that is not an error.
func (c collection) remove(ctx context.Context, name string) error {
	o, err := c.get(ctx, name)
	if err != nil || o == nil {
		return err
	}
	if o.labels()["tfstate"] != "true" {
		return fmt.Errorf("%s/%s does not have the label \"tfstate=true\", so it is not deleted", c.path, name)
	}
	options := map[string]any{"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
	if uid, ok := o.child("metadata")["uid"].(string); ok {
		options["preconditions"] = map[string]string{"uid": uid}
	}
	err = c.api.ask(ctx, http.MethodDelete, c.path+"/"+name, nil, wholeObject, options, nil)
	if isStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// object is an object of the API, with all its fields, so that an update keeps unknown ones.
type object map[string]any

// child returns a nested object; nil if there is none.
func (o object) child(path ...string) map[string]any {
	at := map[string]any(o)
	for _, name := range path {
		at, _ = at[name].(map[string]any)
	}
	return at
}

// setChild sets a field of a nested object.
func (o object) setChild(in, name string, v any) {
	inner, ok := o[in].(map[string]any)
	if !ok {
		inner = map[string]any{}
		o[in] = inner
	}
	inner[name] = v
}

// annotationsWith returns the annotations with one set or, without a value, removed.
func (o object) annotationsWith(name, value string) map[string]any {
	all := maps.Clone(o.child("metadata", "annotations"))
	if all == nil {
		all = map[string]any{}
	}
	if all[name] = value; value == "" {
		delete(all, name)
	}
	return all
}

func (o object) name() string {
	name, _ := o.child("metadata")["name"].(string)
	return name
}

func (o object) labels() map[string]string {
	labels := map[string]string{}
	for k, v := range o.child("metadata", "labels") {
		labels[k], _ = v.(string)
	}
	return labels
}

// selector returns labels in the form of a query.
func selector(labels map[string]string) string {
	var terms []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		terms = append(terms, k+"="+labels[k])
	}
	return strings.Join(terms, ",")
}
