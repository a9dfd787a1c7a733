// Package cloud is what packages that ask services of clouds take from the operation that they ask for.
//
// It asks nothing itself: who asks, and how, is for the packages below it.
package cloud

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"golang.org/x/net/http/httpproxy"

	"github.com/millipede-iac/millipede/environ"
)

// Surroundings are an operation's directory and environment. The zero value has neither.
type Surroundings struct {
	// Dir is the directory that relative paths start from; default: the working directory.
	Dir string
	// Environ is the environment of the operation, for programs that are started for it; default: an empty one.
	Environ environ.Variables
	// Env returns the value of an environment variable, empty when it is not set; default: that in Environ.
	Env func(name string) string
	// UserAgent is what servers are told; default "Millipede".
	UserAgent string
}

// Completed returns the surroundings with the defaults in the place of what is not set.
func (s Surroundings) Completed() Surroundings {
	if s.Env == nil {
		s.Env = s.Environ.Get
	}
	if s.UserAgent == "" {
		s.UserAgent = "Millipede"
	}
	return s
}

// Path returns a path of a file as the operation means it: relative ones start from its directory.
func (s Surroundings) Path(name string) string {
	if s.Dir == "" || name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.Dir, name)
}

// Either returns the first of some variables that is not empty.
func (s Surroundings) Either(names ...string) string {
	if s.Env == nil {
		return ""
	}
	for _, n := range names {
		if v := s.Env(n); v != "" {
			return v
		}
	}
	return ""
}

// Transport returns a new HTTP transport that takes its proxies, a file of certificate authorities (SSL_CERT_FILE, in
// the place of the system's), and its patience with servers that are silent, from the operation's environment. Its
// owner closes its idle connections.
func (s Surroundings) Transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = s.Dialer().DialContext
	t.IdleConnTimeout = s.Patience() / 2
	t.TLSHandshakeTimeout = min(t.TLSHandshakeTimeout, s.Patience())
	proxies := httpproxy.Config{
		HTTPProxy:  s.Either("HTTP_PROXY", "http_proxy"),
		HTTPSProxy: s.Either("HTTPS_PROXY", "https_proxy"),
		NoProxy:    s.Either("NO_PROXY", "no_proxy"),
		CGI:        s.Either("REQUEST_METHOD") != "",
	}
	choose := proxies.ProxyFunc()
	t.Proxy = func(r *http.Request) (*url.URL, error) { return choose(r.URL) }
	if text, err := os.ReadFile(s.Path(s.Either("SSL_CERT_FILE"))); err == nil {
		roots := x509.NewCertPool()
		if roots.AppendCertsFromPEM(text) {
			t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
		}
	}
	return t
}

// Trust sets how a transport checks servers and what it shows them. Where that names no authorities, those that the
// transport has already stay.
func Trust(t *http.Transport, config *tls.Config) {
	if config.RootCAs == nil && t.TLSClientConfig != nil {
		config.RootCAs = t.TLSClientConfig.RootCAs
	}
	t.TLSClientConfig = config
}
