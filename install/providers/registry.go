package providers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/apparentlymart/go-versions/versions"

	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/addr"
)

// origin is a source: the registry in a provider's address. The provider registry protocol is documented by
// OpenTofu.
type origin struct {
	services *services.Services
	retries  int
	env      environ.Variables
}

func (r *origin) where(p addr.Provider) string { return "registry " + p.Host }

// releases is a registry's list of versions.
type releases struct {
	Versions []struct {
		Version   string   `json:"version"`
		Protocols []string `json:"protocols"`
	} `json:"versions"`
	Warnings []string `json:"warnings"`
}

// release is a registry's description of one package.
type release struct {
	Protocols    []string `json:"protocols"`
	OS           string   `json:"os"`
	Arch         string   `json:"arch"`
	Filename     string   `json:"filename"`
	DownloadURL  string   `json:"download_url"`
	Sum          string   `json:"shasum"`
	SumsURL      string   `json:"shasums_url"`
	SignatureURL string   `json:"shasums_signature_url"`
	Keys         struct {
		GPG []struct {
			Armor string `json:"ascii_armor"`
		} `json:"gpg_public_keys"`
	} `json:"signing_keys"`
	Packages map[string]struct {
		Hashes []string `json:"hashes"`
		Size   int64    `json:"package_size"`
	} `json:"packages"`
}

func (r *origin) available(ctx context.Context, p addr.Provider) ([]versions.Version, []string, error) {
	all, err := r.releases(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	var out []versions.Version
	for _, v := range all.Versions {
		parsed, err := versions.ParseVersion(v.Version)
		if err != nil {
			return nil, nil, r.failed(p, fmt.Errorf("registry response includes invalid version string %q: %w",
				v.Version, err))
		}
		out = append(out, parsed)
	}
	return out, all.Warnings, nil
}

func (r *origin) releases(ctx context.Context, p addr.Provider) (releases, error) {
	var all releases
	_, err := r.get(ctx, p, "versions", &all)
	if errors.Is(err, errNotThere) {
		err = &absentError{provider: p, registry: true}
	}
	return all, err
}

func (r *origin) locate(ctx context.Context, p addr.Provider, v versions.Version, platform string) (candidate, error) {
	var rel release
	from, err := r.get(ctx, p, v.String()+"/download/"+strings.ReplaceAll(platform, "_", "/"), &rel)
	if errors.Is(err, errNotThere) {
		return candidate{}, &platformError{provider: p, version: v, platform: platform}
	}
	if err != nil {
		return candidate{}, err
	}
	if err := r.speaks(ctx, p, v, rel.Protocols); err != nil {
		return candidate{}, err
	}
	if got := rel.OS + "_" + rel.Arch; got != platform {
		return candidate{}, r.failed(p,
			fmt.Errorf("registry response to request for %s archive has incorrect target %s", platform, got))
	}
	c, err := r.checks(ctx, p, rel, from)
	if err != nil {
		return candidate{}, err
	}
	at, err := reference(from, rel.DownloadURL, "download URL")
	if err != nil {
		return candidate{}, r.failed(p, err)
	}
	return candidate{version: v, platform: platform, download: &download{
		Download: services.Download{URL: at.String(), Retries: r.retries}, services: r.services, verify: c.verify,
	}}, nil
}

// checks collects the data for verifying a package.
func (r *origin) checks(ctx context.Context, p addr.Provider, rel release, from *url.URL) (checks, error) {
	c := checks{provider: p, platform: rel.OS + "_" + rel.Arch, sum: rel.Sum, file: rel.Filename,
		packages: map[string]reported{}}
	if !validHash("zh:" + rel.Sum) {
		return c, r.failed(p, fmt.Errorf("registry response includes invalid SHA256 hash %q", rel.Sum))
	}
	for platform, pkg := range rel.Packages {
		for _, h := range pkg.Hashes {
			if !validHash(h) {
				return c, r.failed(p, fmt.Errorf("registry response includes invalid package hash %q", h))
			}
		}
		c.packages[platform] = reported{pkg.Hashes, pkg.Size}
	}
	for _, k := range rel.Keys.GPG {
		c.keys = append(c.keys, k.Armor)
	}
	c.enforce = mustBeSigned(p, r.env)
	c.enforceExpiration = r.env.Get("OPENTOFU_ENFORCE_GPG_EXPIRATION") == "true"
	var err error
	if c.sums, err = r.file(ctx, from, rel.SumsURL, "SHASUMS URL"); err != nil {
		return c, r.failed(p, fmt.Errorf("failed to retrieve authentication checksums for provider: %w", err))
	}
	if c.signature, err = r.file(ctx, from, rel.SignatureURL, "SHASUMS signature URL"); err != nil {
		return c, r.failed(p, fmt.Errorf("failed to retrieve cryptographic signature for provider: %w", err))
	}
	return c, nil
}

// speaks checks that the provider supports plugin protocol 5 or 6; a registry without this information is trusted.
func (r *origin) speaks(ctx context.Context, p addr.Provider, v versions.Version, protocols []string) error {
	if len(protocols) == 0 || slices.ContainsFunc(protocols, protocolSupported) {
		return nil
	}
	all, err := r.releases(ctx, p)
	if err != nil {
		return err
	}
	wrong := &protocolError{provider: p, version: v}
	for _, other := range all.Versions {
		o, err := versions.ParseVersion(other.Version)
		if err != nil || !slices.ContainsFunc(other.Protocols, protocolSupported) {
			continue
		}
		if wrong.closest == nil || wrong.closest.LessThan(o) {
			wrong.closest = &o
		}
	}
	return wrong
}

// protocolSupported reports whether a version of the plugin protocol is supported.
func protocolSupported(protocol string) bool {
	major, _, _ := strings.Cut(protocol, ".")
	return major == "5" || major == "6"
}

// get sends a request to the registry of a provider, and returns the URL of the response after redirects.
func (r *origin) get(ctx context.Context, p addr.Provider, what string, to any) (*url.URL, error) {
	base, err := r.services.Find(ctx, p.Host, services.Providers)
	if err != nil {
		return nil, err
	}
	u, err := base.Parse(p.Namespace + "/" + p.Type + "/" + what)
	if err != nil {
		return nil, err
	}
	resp, err := r.services.Get(ctx, u, p.Host)
	if err != nil {
		return nil, r.failed(p, err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, errNotThere
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, unauthorized(ctx, r.services, p.Host)
	default:
		return nil, r.failed(p, errors.New(resp.Status))
	}
	if err := json.NewDecoder(resp.Body).Decode(to); err != nil {
		return nil, r.failed(p, fmt.Errorf("registry response cannot be read: %w", err))
	}
	return resp.Request.URL, nil
}

// file reads a small file to which a response refers.
func (r *origin) file(ctx context.Context, from *url.URL, ref, what string) ([]byte, error) {
	u, err := reference(from, ref, what)
	if err != nil {
		return nil, err
	}
	resp, err := r.services.Get(ctx, u, "")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s returned from %s", resp.Status, resp.Request.URL.Host)
	}
	return io.ReadAll(resp.Body)
}

// reference resolves a URL in a response.
func reference(from *url.URL, ref, what string) (*url.URL, error) {
	u, err := from.Parse(ref)
	if err != nil {
		return nil, fmt.Errorf("registry response includes invalid %s: %w", what, err)
	}
	if u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("registry response includes invalid %s: must use http or https scheme", what)
	}
	return u, nil
}

func (r *origin) failed(p addr.Provider, err error) error {
	return fmt.Errorf("could not query provider registry for %s: %w", p, err)
}
