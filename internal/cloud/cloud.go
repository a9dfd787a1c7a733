// Package cloud has the environment of an operation for packages that use cloud services.
//
// It sends no requests: credentials and requests are left to the packages below it.
package cloud

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"golang.org/x/net/http/httpproxy"

	"github.com/millipede-iac/millipede/internal/environ"
)

// Environment is an operation's directory and environment variables. The zero value has neither.
type Environment struct {
	// Dir is the directory to which relative paths refer; default: the working directory.
	Dir string
	// Environ is the environment of the operation, for programs that are started; default: an empty one.
	Environ environ.Variables
	// Env returns the value of an environment variable, empty if it is not set; default: from Environ.
	Env func(name string) string
	// UserAgent identifies the client to servers; default "Millipede".
	UserAgent string
}

// Completed returns the environment with defaults for unset fields.
func (e Environment) Completed() Environment {
	if e.Env == nil {
		e.Env = e.Environ.Get
	}
	if e.UserAgent == "" {
		e.UserAgent = "Millipede"
	}
	return e
}

// Path returns the path of a file: relative ones refer to the directory of the operation.
func (e Environment) Path(name string) string {
	if e.Dir == "" || name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(e.Dir, name)
}

// Either returns the first non-empty variable.
func (e Environment) Either(names ...string) string {
	if e.Env == nil {
		return ""
	}
	for _, n := range names {
		if v := e.Env(n); v != "" {
			return v
		}
	}
	return ""
}

// Transport returns a new HTTP transport, with the proxies, the certificate authorities (SSL_CERT_FILE, replacing
// the system's), and the time limit for silent servers of the operation's environment. The caller closes its idle
// connections.
func (e Environment) Transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = e.Dialer().DialContext
	t.IdleConnTimeout = e.Timeout() / 2
	t.TLSHandshakeTimeout = min(t.TLSHandshakeTimeout, e.Timeout())
	proxies := httpproxy.Config{
		HTTPProxy:  e.Either("HTTP_PROXY", "http_proxy"),
		HTTPSProxy: e.Either("HTTPS_PROXY", "https_proxy"),
		NoProxy:    e.Either("NO_PROXY", "no_proxy"),
		CGI:        e.Either("REQUEST_METHOD") != "",
	}
	choose := proxies.ProxyFunc()
	t.Proxy = func(r *http.Request) (*url.URL, error) { return choose(r.URL) }
	if text, err := os.ReadFile(e.Path(e.Either("SSL_CERT_FILE"))); err == nil {
		roots := x509.NewCertPool()
		if roots.AppendCertsFromPEM(text) {
			t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
		}
	}
	return t
}

// Trust sets how a transport verifies servers, and its client certificate. If the configuration contains no
// authorities, the transport keeps its own.
func Trust(t *http.Transport, config *tls.Config) {
	if config.RootCAs == nil && t.TLSClientConfig != nil {
		config.RootCAs = t.TLSClientConfig.RootCAs
	}
	t.TLSClientConfig = config
}
