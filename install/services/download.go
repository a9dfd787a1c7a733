package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/millipede-iac/millipede/internal/sleep"
)

// Download is a request for a file.
type Download struct {
	URL string
	// Host is the host whose credentials are sent with the request; empty for none.
	Host string
	// Header is added to the request.
	Header http.Header
	// Retries is the number of retries after the server fails or the connection breaks.
	Retries int
	// NoContent also accepts a response without content.
	NoContent bool
}

// StatusError is a response with an unexpected status.
type StatusError struct {
	URL    string
	Code   int
	Status string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("unsuccessful request to %s: %s", e.URL, e.Status)
}

// Download writes the content to a file, from its beginning, and returns the header of the response. After an error
// the content is undefined. The error is a StatusError if a server responds with another status.
func (s *Services) Download(ctx context.Context, d Download, into *os.File) (http.Header, error) {
	client := s.client(d.Retries, 0)
	for attempt := 0; ; attempt++ {
		header, err := s.attempt(ctx, client, d, into)
		if err == nil || !errors.Is(err, errCut) || attempt >= d.Retries || ctx.Err() != nil {
			return header, err
		}
		if sleep.For(ctx, s.options.Wait<<attempt) != nil {
			return nil, ctx.Err()
		}
	}
}

// errCut is the error of an incomplete download.
var errCut = errors.New("the connection was cut during the download")

// attempt downloads once; the client repeats requests that fail before the content.
func (s *Services) attempt(ctx context.Context, client *retryablehttp.Client, d Download,
	into *os.File) (http.Header, error) {
	r, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, d.URL, nil)
	if err != nil {
		return nil, err
	}
	for name, values := range d.Header {
		r.Header[name] = values
	}
	r.Header.Set(versionHeader, s.options.Version)
	if d.Host != "" {
		if err := s.authorize(ctx, r.Request, d.Host); err != nil {
			return nil, err
		}
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && !(d.NoContent && resp.StatusCode == http.StatusNoContent) {
		return nil, &StatusError{d.URL, resp.StatusCode, resp.Status}
	}
	if _, err := into.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	if err := into.Truncate(0); err != nil {
		return nil, err
	}
	if _, err := io.Copy(into, resp.Body); err != nil {
		var local *fs.PathError // the disk is full
		if ctx.Err() != nil || errors.As(err, &local) {
			return nil, err
		}
		return nil, fmt.Errorf("%w (%s): %w", errCut, d.URL, err)
	}
	return resp.Header, nil
}
