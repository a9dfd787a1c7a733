package bucket

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"

	"github.com/millipede-iac/millipede/internal/cloud/call"
)

// Plain sends requests to a bucket that has its own host, and whose objects are paths there. Several drivers use it.
type Plain struct {
	Caller    *call.Caller
	Transport *http.Transport
	Address   string // without a slash at the end
	Bucket    string
}

// Ask sends a request about an object; about the bucket if object is empty. query, header and body may be nil.
func (p *Plain) Ask(ctx context.Context, method, object string, query url.Values, header http.Header,
	body []byte) (*call.Response, error) {
	u := url.URL{Path: "/" + object, RawQuery: query.Encode()}
	answer, err := p.Caller.Do(ctx, call.Request{Method: method, URL: p.Address + u.String(), Header: header, Body: body})
	if call.IsCode(err, "NoSuchBucket") {
		return nil, fmt.Errorf("the bucket %q does not exist; Millipede does not create it: %w", p.Bucket, err)
	}
	return answer, err
}

// Fetch reads an object with its metadata; nil if there is none.
func (p *Plain) Fetch(ctx context.Context, object string) (*call.Response, error) {
	answer, err := p.Ask(ctx, http.MethodGet, object, nil, nil, nil)
	if call.IsCode(err, "NoSuchKey") {
		return nil, nil
	}
	return answer, err
}

// List implements Driver.
func (p *Plain) List(ctx context.Context, prefix, page string) (names []string, next string, err error) {
	query := url.Values{"prefix": {prefix}, "max-keys": {"1000"}}
	if page != "" {
		query.Set("marker", page)
	}
	answer, err := p.Ask(ctx, http.MethodGet, "", query, nil, nil)
	if err != nil {
		return nil, "", err
	}
	var list struct {
		Contents    []struct{ Key string }
		IsTruncated bool
		NextMarker  string
	}
	if err := xml.Unmarshal(answer.Body, &list); err != nil {
		return nil, "", fmt.Errorf("reading the list of objects: %w", err)
	}
	for _, object := range list.Contents {
		names = append(names, object.Key)
	}
	switch {
	case !list.IsTruncated:
		return names, "", nil
	case list.NextMarker == "" && len(names) > 0: // the next page begins after the last object of this one
		return names, names[len(names)-1], nil
	}
	return names, list.NextMarker, nil
}

// Delete implements Driver.
func (p *Plain) Delete(ctx context.Context, object string) error {
	_, err := p.Ask(ctx, http.MethodDelete, object, nil, nil, nil)
	if call.IsCode(err, "NoSuchKey") {
		return nil
	}
	return err
}

// Close implements Driver.
func (p *Plain) Close() { p.Transport.CloseIdleConnections() }
