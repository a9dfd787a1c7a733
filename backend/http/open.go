package httpbackend

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/cloud/call"
	"github.com/millipede-iac/millipede/internal/pattern"
	"github.com/millipede-iac/millipede/lang/diag"
)

// most bounds the number of retries and the seconds between them in the arguments.
const most = 86400

// located returns the address of the state, without a password.
func located(args backend.Arguments) string {
	u, err := url.Parse(args.String("address"))
	if err != nil {
		return "" // open refuses it
	}
	return u.Redacted()
}

// open returns a backend for the arguments. It sends no request.
func open(_ context.Context, p backend.Place, args backend.Arguments) (backend.Backend, diag.List) {
	b := &store{
		updateMethod: args.String("update_method"),
		lockMethod:   args.String("lock_method"),
		unlockMethod: args.String("unlock_method"),
		username:     args.String("username"),
		password:     args.String("password"),
		userAgent:    p.UserAgent,
		held:         map[string][]byte{},
	}
	var diags diag.List
	for name, to := range map[string]**url.URL{"address": &b.address, "lock_address": &b.lockAddress,
		"unlock_address": &b.unlockAddress} {
		if !args.Given(name) {
			continue
		}
		u, err := url.Parse(args.String(name))
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			diags = diags.Append(args.Problem(name, "Invalid "+name,
				fmt.Sprintf("%q has to be a URL that begins with http:// or https://.", name)))
			continue
		}
		*to = u
	}
	for _, name := range []string{"retry_max", "retry_wait_min", "retry_wait_max"} {
		if n := args.Int(name); n < 0 || n > most {
			diags = diags.Append(args.Problem(name, "Invalid "+name,
				fmt.Sprintf("%q cannot be negative, nor above %d.", name, most)))
		}
	}
	var more diag.List
	b.headers, more = headers(args)
	diags = diags.Append(more)
	config, more := tlsConfig(args)
	if diags = diags.Append(more); diags.HasErrors() {
		return nil, diags
	}
	transport := p.Transport()
	cloud.Trust(transport, config)
	b.client = retryablehttp.NewClient()
	b.client.HTTPClient.Transport = transport
	b.client.Logger = nil
	b.client.RetryMax = args.Int("retry_max")
	b.client.RetryWaitMin = time.Duration(args.Int("retry_wait_min")) * time.Second
	b.client.RetryWaitMax = max(b.client.RetryWaitMin, time.Duration(args.Int("retry_wait_max"))*time.Second)
	// the last response is more informative than the number of attempts
	b.client.ErrorHandler = retryablehttp.PassthroughErrorHandler
	call.Bound(b.client)
	return b, diags
}

var headerName = pattern.Lazy(`^[A-Za-z0-9_-]+$`)

// headers checks the argument headers.
func headers(args backend.Arguments) (map[string]string, diag.List) {
	var diags diag.List
	bad := func(format string, a ...any) {
		diags = diags.Append(args.Problem("headers", "Invalid headers", fmt.Sprintf(format, a...)))
	}
	all := args.Map("headers")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		value := all[name]
		switch low := strings.ToLower(name); {
		case !headerName().MatchString(name):
			bad("The name of the header %q may hold letters, digits, \"-\" and \"_\" alone.", name)
		case strings.TrimSpace(value) == "":
			bad("The value of the header %q is empty.", name)
		case strings.ContainsFunc(value, func(r rune) bool { return r > 126 || r < 32 && r != '\t' }):
			bad("The value of the header %q may hold printable ASCII characters alone.", name)
		case low == "content-type" || low == "content-md5":
			bad("The header %q is set by the backend itself.", name)
		case low == "authorization" && args.Given("username"):
			bad("The header %q and the argument \"username\" both say who is asking; use one of them.", name)
		}
	}
	return all, diags
}

// tlsConfig returns the TLS configuration: how servers are verified, and the client certificate.
func tlsConfig(args backend.Arguments) (*tls.Config, diag.List) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: args.Bool("skip_cert_verification")}
	var diags diag.List
	if args.Given("client_ca_certificate_pem") {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(args.String("client_ca_certificate_pem"))) {
			diags = diags.Append(args.Problem("client_ca_certificate_pem", "Invalid certificate",
				"\"client_ca_certificate_pem\" holds no certificate in PEM form."))
		}
	}
	cert, key := args.Given("client_certificate_pem"), args.Given("client_private_key_pem")
	switch {
	case cert != key:
		has, needs := "client_certificate_pem", "client_private_key_pem"
		if key {
			has, needs = needs, has
		}
		diags = diags.Append(args.Problem(has, "Incomplete client certificate",
			fmt.Sprintf("%q needs %q beside it.", has, needs)))
	case cert:
		pair, err := tls.X509KeyPair([]byte(args.String("client_certificate_pem")),
			[]byte(args.String("client_private_key_pem")))
		if err != nil {
			diags = diags.Append(args.Problem("client_certificate_pem", "Invalid client certificate",
				fmt.Sprintf("The certificate and its key cannot be used: %s.", err)))
			break
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, diags
}
