package providers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"path"

	"github.com/apparentlymart/go-versions/versions"

	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/lang/addr"
)

// networkMirror is a source: a web server that serves a directory of packages with index files. The provider
// network mirror protocol is documented by OpenTofu.
type networkMirror struct {
	services *services.Services
	base     string
	retries  int
	trustAll bool
}

func (n *networkMirror) where(addr.Provider) string { return "provider mirror at " + n.base }

func (n *networkMirror) available(ctx context.Context, p addr.Provider) ([]versions.Version, []string, error) {
	var index struct {
		Versions map[string]struct{} `json:"versions"`
	}
	if _, err := n.get(ctx, p, "index.json", &index); err != nil {
		if errors.Is(err, errNotThere) {
			return nil, nil, &absentError{provider: p}
		}
		return nil, nil, n.failed(p, err)
	}
	var out []versions.Version
	for text := range index.Versions {
		if v, err := versions.ParseVersion(text); err == nil { // others cannot be requested
			out = append(out, v)
		}
	}
	return out, nil, nil
}

func (n *networkMirror) locate(ctx context.Context, p addr.Provider, v versions.Version, platform string) (
	candidate, error) {
	var index struct {
		Archives map[string]struct {
			URL    string   `json:"url"`
			Hashes []string `json:"hashes"`
		} `json:"archives"`
	}
	from, err := n.get(ctx, p, v.String()+".json", &index)
	if errors.Is(err, errNotThere) {
		err = fmt.Errorf("it has no index of the packages of version %s", v)
	}
	if err != nil {
		return candidate{}, n.failed(p, err)
	}
	archive, ok := index.Archives[platform]
	if !ok {
		return candidate{}, &platformError{p, v, platform, n.base}
	}
	at, err := from.Parse(archive.URL)
	if err != nil {
		return candidate{}, n.failed(p, fmt.Errorf("it returned the invalid URL %q: %w", archive.URL, err))
	}
	c := checks{platform: platform}
	c.accepted = archive.Hashes
	if n.trustAll {
		for _, other := range index.Archives {
			c.trusted = append(c.trusted, other.Hashes...)
		}
	}
	for _, h := range append(c.accepted[:len(c.accepted):len(c.accepted)], c.trusted...) {
		if !validHash(h) {
			return candidate{}, n.failed(p, fmt.Errorf("it returned the invalid hash %q", h))
		}
	}
	return candidate{version: v, platform: platform, download: &download{
		Download: services.Download{URL: at.String(), Retries: n.retries}, services: n.services, verify: c.verify,
	}}, nil
}

var errNotThere = errors.New("not found")

// get reads an index file, and returns its URL after redirects.
func (n *networkMirror) get(ctx context.Context, p addr.Provider, file string, to any) (*url.URL, error) {
	base, err := url.Parse(n.base)
	if err != nil {
		return nil, err
	}
	u, err := base.Parse("./" + path.Join(p.Host, p.Namespace, p.Type, file))
	if err != nil {
		return nil, err
	}
	resp, err := n.services.Get(ctx, u, base.Host)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, errNotThere
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, unauthorized(ctx, n.services, base.Host)
	default:
		return nil, fmt.Errorf("server returned unsuccessful status %s", resp.Status)
	}
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, fmt.Errorf("response has invalid Content-Type %q: must be application/json",
			resp.Header.Get("Content-Type"))
	}
	if err := json.NewDecoder(resp.Body).Decode(to); err != nil {
		return nil, fmt.Errorf("invalid response content from mirror server: %w", err)
	}
	return resp.Request.URL, nil
}

func (n *networkMirror) failed(p addr.Provider, err error) error {
	return fmt.Errorf("failed to query provider mirror %s for %s: %w", n.base, p, err)
}
