package consul

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
)

// Kind returns the kind "consul". Unlike with other kinds, an argument that is set to "" does not override an
// environment variable, because in OpenTofu Consul's own client reads these variables.
func Kind() *backend.Kind {
	attributes := map[string]*schema.Attribute{
		"path": {Type: cty.String, Required: true},
		"gzip": {Type: cty.Bool, Optional: true},
		"lock": {Type: cty.Bool, Optional: true},
	}
	for _, name := range []string{
		"access_token", "address", "scheme", "datacenter", "http_auth", "ca_file", "cert_file", "key_file",
	} {
		attributes[name] = &schema.Attribute{Type: cty.String, Optional: true}
	}
	return &backend.Kind{
		Name:     "consul",
		Schema:   &schema.Block{Attributes: attributes},
		Defaults: map[string]cty.Value{"lock": cty.True, "gzip": cty.False},
		Address:  address,
		Open:     open,
	}
}

const (
	defaultAddress = "127.0.0.1:8500"
	dialTimeout    = 10 * time.Second
	// keepAlive is less than the time after which common firewalls drop idle connections.
	keepAlive = 17 * time.Second
	// answerTimeout bounds the time for one response; no request takes the server longer than a second.
	answerTimeout = 30 * time.Second
)

// open returns a backend for the arguments. It sends no request.
func open(_ context.Context, p backend.Place, args backend.Arguments) (backend.Backend, diag.List) {
	var diags diag.List
	path := args.String("path")
	switch {
	case path == "":
		diags = diags.Append(args.Problem("path", "Invalid path", `"path" cannot be empty.`))
	case strings.HasPrefix(path, "/"):
		diags = diags.Append(args.Problem("path", "Invalid path",
			`"path" is a key of Consul, which cannot begin with "/".`))
	}
	transport := p.Transport()
	dialer := p.Environment().Dialer()
	dialer.Timeout, dialer.KeepAlive, dialer.Silence = dialTimeout, keepAlive, min(dialer.Silence, answerTimeout)
	transport.DialContext = dialer.DialContext
	base, more := locate(p, args, transport)
	diags = diags.Append(more)
	config, more := tlsConfig(p, args)
	diags = diags.Append(more)
	token, more := accessToken(p, args)
	if diags = diags.Append(more); diags.HasErrors() {
		return nil, diags
	}
	cloud.Trust(transport, config)
	c := newClient(transport, base)
	c.token, c.userAgent = token, p.UserAgent
	c.user, c.password, _ = strings.Cut(either(args.String("http_auth"), p.Env("CONSUL_HTTP_AUTH")), ":")
	c.common = common(p, args)
	return &store{
		client: c, path: path, gzip: args.Bool("gzip"), lock: args.Bool("lock"), now: p.Now,
		known: map[string]uint64{}, held: map[string]*heldLock{},
	}, diags
}

// common returns the parameters of all requests that say where the keys are.
func common(p backend.Place, args backend.Arguments) url.Values {
	out := url.Values{}
	for name, value := range map[string]string{
		"dc": args.String("datacenter"), "ns": p.Env("CONSUL_NAMESPACE"), "partition": p.Env("CONSUL_PARTITION"),
	} {
		if value != "" {
			out.Set(name, value)
		}
	}
	return out
}

// address returns where the states are: the server, and the key.
func address(p backend.Place, args backend.Arguments, _ string) string {
	base, diags := locate(p, args, &http.Transport{})
	if diags.HasErrors() {
		return "" // open refuses it
	}
	server := base.String()
	if given := either(args.String("address"), p.Env("CONSUL_HTTP_ADDR")); strings.HasPrefix(given, "unix://") {
		server = given
	}
	return server + " " + common(p, args).Encode() + " " + args.String("path")
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// locate parses the agent's address: host and port, a URL with an optional path prefix, or unix://SOCKET.
func locate(p backend.Place, args backend.Arguments, transport *http.Transport) (*url.URL, diag.List) {
	scheme := args.String("scheme")
	if scheme == "" {
		scheme = "http"
		if text := p.Env("CONSUL_HTTP_SSL"); text != "" {
			on, err := strconv.ParseBool(text)
			if err != nil {
				return nil, diag.List{args.Problem("scheme", "Invalid scheme",
					fmt.Sprintf("The environment variable CONSUL_HTTP_SSL has to be true or false, not %q.", text))}
			}
			if on {
				scheme = "https"
			}
		}
	}
	if scheme != "http" && scheme != "https" {
		return nil, diag.List{args.Problem("scheme", "Invalid scheme",
			fmt.Sprintf(`"scheme" has to be http or https, not %q.`, scheme))}
	}
	address := either(either(args.String("address"), p.Env("CONSUL_HTTP_ADDR")), defaultAddress)
	if prefix, rest, ok := strings.Cut(address, "://"); ok {
		address = rest
		switch prefix {
		case "https":
			scheme = "https"
		case "http": // TLS that is configured elsewhere is kept
		case "unix":
			transport.Proxy = nil
			dial := transport.DialContext
			transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dial(ctx, "unix", rest)
			}
			return &url.URL{Scheme: "http", Host: "localhost"}, nil
		default:
			return nil, diag.List{args.Problem("address", "Invalid address",
				fmt.Sprintf(`"address" can begin with http://, https:// or unix://, not with %s://.`, prefix))}
		}
	}
	base, err := url.Parse(scheme + "://" + address)
	switch {
	case err != nil || base.Hostname() == "" || base.RawQuery != "" || base.Fragment != "":
		// The value is not repeated: it may contain a password.
		return nil, diag.List{args.Problem("address", "Invalid address",
			`"address" has to be a host with a port, such as 127.0.0.1:8500, or the URL of a Consul agent.`)}
	case base.User != nil:
		return nil, diag.List{args.Problem("address", "Invalid address",
			`"address" cannot hold a user and a password; "http_auth" can.`)}
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	return base, nil
}

// accessToken returns the ACL token: the argument, else the content of the file in the environment, else the
// environment's token.
func accessToken(p backend.Place, args backend.Arguments) (string, diag.List) {
	if token := args.String("access_token"); token != "" {
		return token, nil
	}
	if name := p.Env("CONSUL_HTTP_TOKEN_FILE"); name != "" {
		data, err := os.ReadFile(p.Path(name))
		if err != nil {
			return "", diag.List{args.Problem("access_token", "Invalid access token",
				fmt.Sprintf("The file that CONSUL_HTTP_TOKEN_FILE names cannot be read: %s.", err))}
		}
		if token := strings.TrimSpace(string(data)); token != "" {
			return token, nil
		}
	}
	return p.Env("CONSUL_HTTP_TOKEN"), nil
}

// tlsConfig returns the TLS configuration: how the agent is verified, and the client certificate.
func tlsConfig(p backend.Place, args backend.Arguments) (*tls.Config, diag.List) {
	var diags diag.List
	bad := func(name, format string, a ...any) {
		diags = diags.Append(args.Problem(name, "Invalid "+name, fmt.Sprintf(format, a...)))
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: p.Env("CONSUL_TLS_SERVER_NAME")}
	if text := p.Env("CONSUL_HTTP_SSL_VERIFY"); text != "" {
		verify, err := strconv.ParseBool(text)
		if err != nil {
			bad("scheme", "The environment variable CONSUL_HTTP_SSL_VERIFY has to be true or false, not %q.", text)
		}
		config.InsecureSkipVerify = err == nil && !verify
	}
	var files []string
	if name := either(args.String("ca_file"), p.Env("CONSUL_CACERT")); name != "" {
		files = []string{p.Path(name)}
	} else if name := p.Env("CONSUL_CAPATH"); name != "" {
		entries, err := os.ReadDir(p.Path(name))
		if err != nil {
			bad("ca_file", "The directory that CONSUL_CAPATH names cannot be read: %s.", err)
		}
		for _, e := range entries {
			if !e.IsDir() {
				files = append(files, filepath.Join(p.Path(name), e.Name()))
			}
		}
	}
	for _, name := range files {
		if config.RootCAs == nil {
			config.RootCAs = x509.NewCertPool()
		}
		data, err := os.ReadFile(name)
		if err == nil && !config.RootCAs.AppendCertsFromPEM(data) {
			err = errors.New("it holds no certificate in PEM form")
		}
		if err != nil {
			bad("ca_file", "The file of certificate authorities %s cannot be used: %s.", name, err)
		}
	}
	cert, key := either(args.String("cert_file"), p.Env("CONSUL_CLIENT_CERT")), either(args.String("key_file"),
		p.Env("CONSUL_CLIENT_KEY"))
	switch {
	case cert != "" && key == "":
		bad("cert_file", `"cert_file" needs "key_file" beside it.`)
	case key != "" && cert == "":
		bad("key_file", `"key_file" needs "cert_file" beside it.`)
	case cert != "":
		pair, err := tls.LoadX509KeyPair(p.Path(cert), p.Path(key))
		if err != nil {
			bad("cert_file", "The certificate and its key cannot be used: %s.", err)
			break
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, diags
}
