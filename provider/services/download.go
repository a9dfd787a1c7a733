package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// Download is a file to bring here.
type Download struct {
	URL string
	// Host is whose credentials go with the request; empty for none.
	Host string
	// Header is added to the request.
	Header http.Header
	// Retries is how often the download is tried again when the server fails or the connection is cut.
	Retries int
	// NoContent also accepts an answer that has a header alone.
	NoContent bool
}

// StatusError is the answer of a server that does not have what was asked for, or does not give it.
type StatusError struct {
	URL    string
	Code   int
	Status string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("unsuccessful request to %s: %s", e.URL, e.Status)
}

// Download writes a file, from its beginning, and returns the header of the answer. With an error the content is
// undefined. The error is a StatusError when a server answered with something else than the file.
func (s *Services) Download(ctx context.Context, d Download, into *os.File) (http.Header, error) {
	client := s.client(d.Retries, 0)
	for attempt := 0; ; attempt++ {
		header, err := s.attempt(ctx, client, d, into)
		if err == nil || !errors.Is(err, errCut) || attempt >= d.Retries || ctx.Err() != nil {
			return header, err
		}
		if err := pause(ctx, s.options.Wait<<attempt); err != nil {
			return nil, err
		}
	}
}

// errCut is the error of a download that ended before its end.
var errCut = errors.New("the connection was cut during the download")

// attempt downloads once; requests that get no file are repeated by the client.
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

// pause waits, but not longer than the context lasts.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
