package getter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/millipede-iac/millipede/internal/cloud/call"
	"github.com/millipede-iac/millipede/internal/cloud/google"
)

// google gets a package from Google Cloud Storage: www.googleapis.com/storage/VERSION/BUCKET/OBJECT#GENERATION.
func (g *Getter) google(ctx context.Context, u *url.URL, into string) error {
	parts := strings.SplitN(strings.TrimPrefix(u.Path, "/"), "/", 4)
	if !strings.HasSuffix(u.Host, ".googleapis.com") || strings.Count(u.Host, ".") != 2 || len(parts) != 4 ||
		parts[2] == "" || parts[3] == "" {
		return errors.New("an address in Google Cloud Storage is https://www.googleapis.com/storage/v1/BUCKET/OBJECT")
	}
	s := g.services.Environment()
	at := google.StorageEmulator(s.Env)
	client, err := google.Open(ctx, google.Settings{
		Anonymous: at != "", AccessToken: s.Either("GOOGLE_OAUTH_ACCESS_TOKEN"),
		Scopes:   []string{"https://www.googleapis.com/auth/devstorage.read_only"},
		Attempts: 3, Transport: s.Transport(), Env: s.Env, Path: s.Path, UserAgent: s.UserAgent,
	})
	if err != nil {
		return err
	}
	if at == "" {
		at = client.Endpoint("storage")
	}
	b := &googleBucket{client, at + "/storage/v1/b/" + url.PathEscape(parts[2]) + "/o"}
	return getObjects(ctx, b, u, parts[3], u.Fragment, into, g.env.TempDir())
}

type googleBucket struct {
	client *google.Client
	at     string // the address of the bucket's objects
}

func (b *googleBucket) ask(ctx context.Context, address string, q url.Values, limit int64) ([]byte, error) {
	answer, err := b.client.Do(
		ctx,
		call.Request{Method: http.MethodGet, URL: address + "?" + q.Encode(), MaxAnswer: limit},
	)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// list implements bucket.
func (b *googleBucket) list(ctx context.Context, prefix, more string) ([]string, string, error) {
	q := url.Values{"prefix": {prefix}, "fields": {"items(name),nextPageToken"}}
	if more != "" {
		q.Set("pageToken", more)
	}
	body, err := b.ask(ctx, b.at, q, maxList)
	if err != nil {
		return nil, "", err
	}
	var answer struct {
		Items         []struct{ Name string }
		NextPageToken string
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, "", fmt.Errorf("reading the list of objects: %w", err)
	}
	var names []string
	for _, o := range answer.Items {
		names = append(names, o.Name)
	}
	return names, answer.NextPageToken, nil
}

// read implements bucket.
func (b *googleBucket) read(ctx context.Context, name, version string, limit int64) ([]byte, error) {
	q := url.Values{"alt": {"media"}}
	if version != "" {
		q.Set("generation", version)
	}
	return b.ask(ctx, b.at+"/"+url.PathEscape(name), q, limit)
}
