// Package services connects to the network services of hosts: registries of providers and of modules, and the
// addresses to which they refer.
//
// It discovers the services of a host, adds the user's credentials, and retries requests that may succeed later. It
// does not interpret the responses.
package services

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/opentofu/svchost"
	"github.com/opentofu/svchost/disco"
	"github.com/opentofu/svchost/svcauth"

	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/cloud/oci"
)

// The services that registries offer.
const (
	Providers = "providers.v1"
	Modules   = "modules.v1"
)

// Options are the options of Services.
type Options struct {
	Config *cliconfig.Config
	// Version is the version of the program in requests, for hosts whose responses depend on it.
	Version string
	// Transport executes the requests; nil for the default one, with the proxies of the Environment and the root
	// certificates of the machine.
	Transport http.RoundTripper
	// Wait is the pause before the first retry of a request; it doubles with each. 0 is one second. If the host
	// specifies a pause (Retry-After), that is used.
	Wait time.Duration
	// Environment is the operation's environment, for services that have credentials of their own: those of
	// clouds, and OCI registries. Without an Environ it is the environment in which Config was read.
	Environment cloud.Environment
}

// Services connects to hosts. It is safe for concurrent use, and discovers the services of each host once.
type Services struct {
	options Options
	disco   *disco.Disco
	plain   *http.Client
	oci     *oci.Client
}

// New returns services that use the CLI configuration's hosts, credentials and limits.
func New(o Options) *Services {
	if o.Wait == 0 {
		o.Wait = time.Second
	}
	if o.Environment.Environ == nil {
		o.Environment.Environ = o.Config.Environ()
	}
	if o.Environment.UserAgent == "" {
		o.Environment.UserAgent = "OpenTofu/" + o.Version + " (Millipede)"
	}
	o.Environment = o.Environment.Completed()
	if o.Transport == nil {
		o.Transport = later(sync.OnceValue(o.Environment.Transport))
	}
	s := &Services{options: o, plain: &http.Client{Transport: agent{o.Version, o.Transport}}}
	s.oci = oci.New(o.Transport, &o.Config.OCI, o.Environment)
	s.disco = disco.New(
		disco.WithHTTPClient(s.client(o.Config.Retries, o.Config.Timeout).StandardClient()),
		disco.WithCredentials(svcauth.CachingCredentialsSource(credentials{o.Config})),
	)
	for host, services := range o.Config.Hosts {
		s.disco.ForceHostServices(host, services)
	}
	return s
}

// Environment returns the environment for services with credentials of their own.
func (s *Services) Environment() cloud.Environment { return s.options.Environment }

// OCI returns the client of OCI registries, with the credentials of the CLI configuration.
func (s *Services) OCI() *oci.Client { return s.oci }

// later is a transport that is made for the first request. Each command has services, but few send requests, and
// making a transport parses the certificate authorities of SSL_CERT_FILE.
type later func() *http.Transport

// RoundTrip implements http.RoundTripper.
func (l later) RoundTrip(r *http.Request) (*http.Response, error) { return l().RoundTrip(r) }

// agent adds the name of the program to each request.
type agent struct {
	version string
	inner   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a agent) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("User-Agent") == "" {
		r = r.Clone(r.Context())
		r.Header.Set("User-Agent", "OpenTofu/"+a.version+" (Millipede)")
	}
	return a.inner.RoundTrip(r)
}

// maxPause bounds the pauses between retries.
const maxPause = 30 * time.Second

// client returns a client that retries requests if a host is unreachable, overloaded, or fails. The last response
// is returned unchanged.
func (s *Services) client(retries int, timeout time.Duration) *retryablehttp.Client {
	inner := *s.plain
	inner.Timeout = timeout
	return &retryablehttp.Client{
		HTTPClient: &inner, RetryMax: retries, RetryWaitMin: s.options.Wait,
		RetryWaitMax: max(s.options.Wait, maxPause),
		CheckRetry:   retryablehttp.DefaultRetryPolicy, Backoff: retryablehttp.DefaultBackoff,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
}

// NoServiceError means that a host does not offer a service, according to its discovery document.
type NoServiceError struct {
	Host string
	// OtherVersion is set if the host offers the service only in versions that are not supported.
	OtherVersion bool
}

func (e *NoServiceError) Error() string {
	if e.OtherVersion {
		return "the host " + e.Host + " offers this service in other versions only"
	}
	return "the host " + e.Host + " does not offer this service"
}

// UnreachableError means that the services of a host could not be discovered.
type UnreachableError struct {
	Host string
	Err  error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("could not connect to %s: %s", e.Host, e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// Find returns the URL of a service of a host. It ends with a slash. The error is a NoServiceError, an
// UnreachableError, or says that the host's name is invalid.
func (s *Services) Find(ctx context.Context, host, service string) (*url.URL, error) {
	name, err := hostname(host)
	if err != nil {
		return nil, err
	}
	found, err := s.disco.Discover(ctx, name)
	if err != nil {
		return nil, &UnreachableError{host, err}
	}
	u, err := found.ServiceURL(service)
	var missing *disco.ErrServiceNotProvided
	var other *disco.ErrVersionNotSupported
	switch {
	case errors.As(err, &missing):
		return nil, &NoServiceError{Host: host}
	case errors.As(err, &other):
		return nil, &NoServiceError{Host: host, OtherVersion: true}
	case err != nil:
		return nil, &UnreachableError{host, err}
	}
	out := *u
	if out.Path == "" || out.Path[len(out.Path)-1] != '/' {
		out.Path += "/"
	}
	return &out, nil
}

// hostname returns the normalised form of a host's name.
func hostname(host string) (svchost.Hostname, error) {
	return svchost.ForComparison(svchost.ForDisplay(host))
}

// versionHeader is the header with the version of the client.
const versionHeader = "X-Terraform-Version"

// Get sends a request to a registry, with the credentials for a host (none if it is empty), and retries it if the
// failure may be temporary. The caller closes the body.
func (s *Services) Get(ctx context.Context, u *url.URL, host string) (*http.Response, error) {
	r, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set(versionHeader, s.options.Version)
	if host != "" {
		if err := s.authorize(ctx, r.Request, host); err != nil {
			return nil, err
		}
	}
	c := s.options.Config
	return s.client(c.Retries, c.Timeout).Do(r)
}

// authorize adds the credentials for a host, if there are any.
func (s *Services) authorize(ctx context.Context, r *http.Request, host string) error {
	name, err := hostname(host)
	if err != nil {
		return err
	}
	creds, err := s.disco.CredentialsForHost(ctx, name)
	if err != nil {
		return fmt.Errorf("failed to retrieve credentials for %s: %w", host, err)
	}
	if creds != nil {
		creds.PrepareRequest(r)
	}
	return nil
}

// Retries returns the number of retries of a request to a registry.
func (s *Services) Retries() int { return s.options.Config.Retries }

// HasCredentials reports whether requests to a host carry credentials.
func (s *Services) HasCredentials(ctx context.Context, host string) bool {
	name, err := hostname(host)
	if err != nil {
		return false
	}
	creds, err := s.disco.CredentialsForHost(ctx, name)
	return err == nil && creds != nil
}

// Token returns the user's token for a host; empty if there is none, or credentials of another kind.
func (s *Services) Token(ctx context.Context, host string) (string, error) {
	name, err := hostname(host)
	if err != nil {
		return "", err
	}
	creds, err := s.disco.CredentialsForHost(ctx, name)
	if err != nil {
		return "", fmt.Errorf("failed to retrieve credentials for %s: %w", host, err)
	}
	if token, ok := creds.(interface{ Token() string }); ok {
		return token.Token(), nil
	}
	return "", nil
}

// HTTP returns a client with the proxies and the certificates of the operation, without credentials and retries.
func (s *Services) HTTP() *http.Client { return s.plain }
