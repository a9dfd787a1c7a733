// Package oci reads manifests, tags and blobs from OCI registries, with the configured credentials.
//
// The library of the ORAS project implements the protocol. The artifacts are interpreted by the packages that use
// it; nothing is pushed.
package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/millipede-iac/millipede/internal/cloud"
)

// The media types of manifests.
const (
	ImageManifest = ocispec.MediaTypeImageManifest
	ImageIndex    = ocispec.MediaTypeImageIndex
)

// maxManifest is the maximum size of a manifest, in bytes: the size that registries must at least support.
const maxManifest = 4 << 20

// Client reads from registries. It is safe for concurrent use, and authenticates to each repository once.
type Client struct {
	transport http.RoundTripper
	policy    *Policy
	env       cloud.Environment

	mu    sync.Mutex // guards repos
	repos map[string]*Repository
}

// New returns a client. With a nil policy it uses only credentials found in the environment.
func New(transport http.RoundTripper, policy *Policy, s cloud.Environment) *Client {
	if policy == nil {
		policy = &Policy{}
	}
	return &Client{
		transport: secure{transport},
		policy:    policy,
		env:       s.Completed(),
		repos:     map[string]*Repository{},
	}
}

// secure rejects unencrypted connections: to registries, to redirect targets, and to token services.
type secure struct{ inner http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s secure) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		if r.Body != nil {
			_ = r.Body.Close() // required of RoundTrip
		}
		return nil, fmt.Errorf("the registry leads to %s, which is not asked without TLS", r.URL.Host)
	}
	return s.inner.RoundTrip(r)
}

// Repository is a repository of a registry. It is safe for concurrent use.
type Repository struct {
	remote *remote.Repository
	name   string
}

// Repository returns a repository, with its credentials. It sends no request.
func (c *Client) Repository(ctx context.Context, host, path string) (*Repository, error) {
	at := registry.Reference{Registry: host, Repository: path}
	if err := errors.Join(at.ValidateRegistry(), at.ValidateRepository()); err != nil || strings.Contains(host, "/") {
		return nil, fmt.Errorf("%q is not the name of a repository in an OCI registry", host+"/"+path)
	}
	name := host + "/" + path
	c.mu.Lock()
	have := c.repos[name]
	c.mu.Unlock()
	if have != nil {
		return have, nil
	}
	found, err := c.policy.find(ctx, c.env, host, path)
	if err != nil {
		return nil, fmt.Errorf("looking for the credentials of %s: %w", name, err)
	}
	client := &auth.Client{
		Client: &http.Client{Transport: retry.NewTransport(c.transport)},
		Header: http.Header{"User-Agent": {c.env.UserAgent}},
		Cache:  auth.NewCache(),
		Credential: func(_ context.Context, asking string) (auth.Credential, error) {
			if asking != at.Host() && asking != host {
				return auth.EmptyCredential, nil // they are only for this host
			}
			return auth.Credential{
				Username: found.Username, Password: found.Password, AccessToken: found.AccessToken,
				RefreshToken: found.RefreshToken,
			}, nil
		},
	}
	r := &Repository{name: name, remote: &remote.Repository{
		Client: client, Reference: at, MaxMetadataBytes: maxManifest,
		ManifestMediaTypes: []string{ImageManifest, ImageIndex},
	}}
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.repos[name]; have != nil {
		return have, nil
	}
	c.repos[name] = r
	return r, nil
}

// Name is HOST/PATH.
func (r *Repository) Name() string { return r.name }

// Descriptor describes an object in a repository.
type Descriptor struct {
	MediaType    string    `json:"mediaType"`
	ArtifactType string    `json:"artifactType"`
	Digest       string    `json:"digest"`
	Size         int64     `json:"size"`
	Platform     *Platform `json:"platform"`
}

// Platform is the platform of a manifest.
type Platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	OSVersion    string `json:"os.version"`
}

// Manifest is an image manifest, which has layers, or an index, which has manifests.
type Manifest struct {
	MediaType    string       `json:"mediaType"`
	ArtifactType string       `json:"artifactType"`
	Layers       []Descriptor `json:"layers"`
	Manifests    []Descriptor `json:"manifests"`
}

// Error is an error response of a registry.
type Error struct {
	Status int
	// Codes are the error codes of the registry, such as NAME_UNKNOWN.
	Codes []string
	text  string
}

func (e *Error) Error() string { return e.text }

// Missing reports whether an error means that there is no such repository, manifest or blob.
func Missing(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Status == http.StatusNotFound ||
		slices.ContainsFunc(e.Codes, func(c string) bool { return c == "NAME_UNKNOWN" || c == "NAME_INVALID" }))
}

// told returns the error of a registry without the requested address, which may contain a signature.
func (r *Repository) told(err error) error {
	var answer *errcode.ErrorResponse
	if !errors.As(err, &answer) {
		if errors.Is(err, errdef.ErrNotFound) {
			return &Error{Status: http.StatusNotFound, text: r.name + ": not found"}
		}
		return err
	}
	e := &Error{Status: answer.StatusCode}
	said := http.StatusText(answer.StatusCode)
	if len(answer.Errors) > 0 {
		said = answer.Errors.Error()
	}
	for _, one := range answer.Errors {
		e.Codes = append(e.Codes, one.Code)
	}
	e.text = fmt.Sprintf("%s: the registry answers: %s (status %d)", r.name, said, answer.StatusCode)
	if e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden {
		e.text += "; credentials can be given with oci_credentials in the CLI configuration"
	}
	return e
}

// Tags returns all tags.
func (r *Repository) Tags(ctx context.Context) ([]string, error) {
	var all []string
	err := r.remote.Tags(ctx, "", func(tags []string) error {
		if all = append(all, tags...); len(all) > maxTags {
			return fmt.Errorf("%s has more than %d tags", r.name, maxTags)
		}
		return nil
	})
	if err != nil {
		return nil, r.told(err)
	}
	return all, nil
}

// maxTags is the maximum number of tags of a repository.
const maxTags = 100_000

// Manifest returns the manifest of a tag or a digest. It must have the given media type.
func (r *Repository) Manifest(ctx context.Context, reference, mediaType string) (Manifest, error) {
	d, err := r.remote.Resolve(ctx, reference)
	if err != nil {
		return Manifest{}, fmt.Errorf("the manifest %q: %w", reference, r.told(err))
	}
	return r.manifest(ctx, d, mediaType)
}

// ManifestOf returns the manifest of a descriptor. It must have the given media type.
func (r *Repository) ManifestOf(ctx context.Context, d Descriptor, mediaType string) (Manifest, error) {
	of, err := d.checked()
	if err != nil {
		return Manifest{}, err
	}
	return r.manifest(ctx, of, mediaType)
}

func (r *Repository) manifest(ctx context.Context, d ocispec.Descriptor, mediaType string) (Manifest, error) {
	switch {
	case d.MediaType != mediaType:
		return Manifest{}, fmt.Errorf(
			"the manifest %s of %s has the media type %q, not %q",
			d.Digest,
			r.name,
			d.MediaType,
			mediaType,
		)
	case d.Size > maxManifest:
		return Manifest{}, fmt.Errorf(
			"the manifest %s of %s has %d bytes, more than %d",
			d.Digest,
			r.name,
			d.Size,
			maxManifest,
		)
	}
	text, err := content.FetchAll(ctx, r.remote.Manifests(), d) // it checks size and digest
	if err != nil {
		return Manifest{}, fmt.Errorf("the manifest %s: %w", d.Digest, r.told(err))
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return Manifest{}, fmt.Errorf("the manifest %s of %s is not valid: %w", d.Digest, r.name, err)
	}
	if m.MediaType != mediaType {
		return Manifest{}, fmt.Errorf(
			"the manifest %s of %s calls itself %q, not %q",
			d.Digest,
			r.name,
			m.MediaType,
			mediaType,
		)
	}
	return m, nil
}

// checked returns a descriptor for the library, if its digest is valid.
func (d Descriptor) checked() (ocispec.Descriptor, error) {
	sum := digest.Digest(d.Digest)
	if err := sum.Validate(); err != nil || d.Size < 0 {
		return ocispec.Descriptor{}, fmt.Errorf(
			"the descriptor of a %s has the digest %q and the size %d, which are not valid",
			d.MediaType,
			d.Digest,
			d.Size,
		)
	}
	return ocispec.Descriptor{MediaType: d.MediaType, Digest: sum, Size: d.Size}, nil
}

// Blob writes a blob of at most limit bytes. After an error the written data must not be used: size and digest are
// checked at the end.
func (r *Repository) Blob(ctx context.Context, d Descriptor, limit int64, to io.Writer) error {
	of, err := d.checked()
	if err != nil {
		return err
	}
	if d.Size > limit {
		return fmt.Errorf("the blob %s of %s has %d bytes, more than %d", d.Digest, r.name, d.Size, limit)
	}
	from, err := r.remote.Blobs().Fetch(ctx, of)
	if err != nil {
		return fmt.Errorf("the blob %s: %w", d.Digest, r.told(err))
	}
	defer from.Close() // read to its end, or abandoned
	checked := content.NewVerifyReader(from, of)
	if _, err := io.Copy(to, checked); err != nil {
		return fmt.Errorf("reading the blob %s of %s: %w", d.Digest, r.name, err)
	}
	if err := checked.Verify(); err != nil {
		return fmt.Errorf("the blob %s of %s is not what its digest says: %w", d.Digest, r.name, err)
	}
	return nil
}
