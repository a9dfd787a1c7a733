package openbao

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/sleep"
)

// server is a server of OpenBao or Vault, with the token for it. Safe for concurrent use.
type server struct {
	client   *http.Client
	at       url.URL
	header   http.Header
	attempts int
	timeout  time.Duration // of one attempt; 0 for none
}

// connect prepares requests to a server; it sends none.
func connect(s cloud.Environment, at *url.URL, token string) (*server, error) {
	transport := s.Transport()
	out := &server{at: *at, header: header(s, token), attempts: 3}
	if at.Scheme == "unix" {
		socket := at.Path
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}
		transport.Proxy = nil
		out.at = url.URL{Scheme: "http", Host: "localhost"}
	}
	if proxy := variable(s, "HTTP_PROXY"); proxy != "" || variable(s, "PROXY_ADDR") != "" {
		if other := variable(s, "PROXY_ADDR"); other != "" {
			proxy = other
		}
		u, err := url.Parse(proxy)
		if err != nil || u.Host == "" {
			return nil, errors.New("the environment variable BAO_PROXY_ADDR or BAO_HTTP_PROXY holds no address " +
				"of a proxy")
		}
		transport.Proxy = http.ProxyURL(u)
	}
	var err error
	if transport.TLSClientConfig, err = certificates(s, transport.TLSClientConfig); err != nil {
		return nil, err
	}
	if text := variable(s, "MAX_RETRIES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, errors.New("the environment variable BAO_MAX_RETRIES holds no number of retries")
		}
		out.attempts = n + 1
	}
	if text := variable(s, "CLIENT_TIMEOUT"); text != "" {
		if out.timeout, err = time.ParseDuration(text); err != nil {
			n, err := strconv.Atoi(text)
			if err != nil {
				return nil, errors.New("the environment variable BAO_CLIENT_TIMEOUT holds no duration")
			}
			out.timeout = time.Duration(n) * time.Second
		}
	}
	stay := variable(s, "DISABLE_REDIRECTS")
	out.client = &http.Client{Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		// A standby redirects to the active server, once. The token is sent there, so a redirect from an encrypted
		// connection to an unencrypted one is not followed.
		if is, err := strconv.ParseBool(stay); err == nil && is || len(via) > 1 ||
			via[0].URL.Scheme == "https" && r.URL.Scheme != "https" {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	return out, nil
}

// certificates returns the TLS configuration of the environment; unset variables leave the settings of base, which
// may be nil.
func certificates(s cloud.Environment, base *tls.Config) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if base != nil {
		t = base.Clone()
	}
	t.ServerName = variable(s, "TLS_SERVER_NAME")
	if text := variable(s, "SKIP_VERIFY"); text != "" {
		skip, err := strconv.ParseBool(text)
		if err != nil {
			return nil, errors.New("the environment variable BAO_SKIP_VERIFY must be true or false")
		}
		t.InsecureSkipVerify = skip
	}
	var texts [][]byte
	switch {
	case variable(s, "CACERT_BYTES") != "":
		texts = [][]byte{[]byte(variable(s, "CACERT_BYTES"))}
	case variable(s, "CACERT") != "":
		text, err := os.ReadFile(s.Path(variable(s, "CACERT")))
		if err != nil {
			return nil, fmt.Errorf("reading the certificates that BAO_CACERT names: %w", err)
		}
		texts = [][]byte{text}
	case variable(s, "CAPATH") != "":
		files, err := filepath.Glob(filepath.Join(s.Path(variable(s, "CAPATH")), "*"))
		if err != nil {
			return nil, fmt.Errorf("reading the certificates that BAO_CAPATH names: %w", err)
		}
		for _, f := range files {
			if text, err := os.ReadFile(f); err == nil { // subdirectories are ignored
				texts = append(texts, text)
			}
		}
	}
	if texts != nil {
		t.RootCAs = x509.NewCertPool()
		found := false
		for _, text := range texts {
			found = t.RootCAs.AppendCertsFromPEM(text) || found
		}
		if !found {
			return nil, errors.New("what BAO_CACERT, BAO_CACERT_BYTES or BAO_CAPATH names holds no certificate in " +
				"PEM form")
		}
	}
	cert, key := variable(s, "CLIENT_CERT"), variable(s, "CLIENT_KEY")
	if (cert == "") != (key == "") {
		return nil, errors.New("BAO_CLIENT_CERT and BAO_CLIENT_KEY have to be set both")
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(s.Path(cert), s.Path(key))
		if err != nil {
			return nil, fmt.Errorf("reading the certificate of BAO_CLIENT_CERT and its key: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// answer is the response of both calls.
type answer struct {
	Plaintext  string `json:"plaintext"`
	Ciphertext string `json:"ciphertext"`
}

// refused is an error response.
type refused struct {
	status int
	text   string
}

func (r *refused) Error() string {
	return fmt.Sprintf("%s (status %d)", r.text, r.status)
}

// maxAnswer bounds the size of a response, in bytes.
const maxAnswer = 1 << 20

// put sends a request, and retries it after a pause while the server is busy or unreachable.
func (s *server) put(ctx context.Context, path string, in any) (answer, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return answer{}, err
	}
	for pause, attempt := 200*time.Millisecond, 1; ; pause, attempt = 2*pause, attempt+1 {
		out, err := s.once(ctx, path, body)
		if err == nil || ctx.Err() != nil || attempt >= s.attempts || !again(err) {
			return out, err
		}
		if err := sleep.For(ctx, pause); err != nil {
			return answer{}, err
		}
	}
}

// again reports whether a failed attempt may succeed when it is retried.
func again(err error) bool {
	var no *refused
	if errors.As(err, &no) {
		return no.status == http.StatusTooManyRequests || no.status == http.StatusPreconditionFailed ||
			no.status >= 500 && no.status != http.StatusNotImplemented
	}
	var missing *net.DNSError
	var network net.Error
	if errors.As(err, &missing) && missing.IsNotFound || errors.Is(err, syscall.ECONNREFUSED) {
		return false
	}
	var untrusted *tls.CertificateVerificationError
	return !errors.As(err, &untrusted) &&
		(errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF))
}

func (s *server) once(ctx context.Context, path string, body []byte) (answer, error) {
	if s.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
	at := s.at
	at.Path, at.RawPath = strings.TrimSuffix(at.Path, "/")+path, ""
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, at.String(), bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Header = s.header.Clone()
	got, err := s.client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer got.Body.Close() // read to its end, or abandoned
	text, err := io.ReadAll(io.LimitReader(got.Body, maxAnswer))
	if err != nil {
		return answer{}, fmt.Errorf("reading the answer: %w", err)
	}
	if got.StatusCode >= 300 {
		return answer{}, s.refusal(got.StatusCode, text)
	}
	var out struct{ Data answer }
	if json.Unmarshal(text, &out) != nil {
		return answer{}, errors.New("the answer is not what the protocol of OpenBao has")
	}
	return out.Data, nil
}

func (s *server) refusal(status int, text []byte) error {
	var said struct{ Errors []string }
	no := &refused{status, http.StatusText(status)}
	if json.Unmarshal(text, &said) == nil && len(said.Errors) > 0 {
		no.text = strings.Join(strings.Fields(strings.Join(said.Errors, "; ")), " ")
	}
	if s.header.Get("X-Vault-Token") == "" && (status == http.StatusForbidden || status == http.StatusBadRequest) {
		no.text += "; no token was sent: set the argument token, or BAO_TOKEN in the environment"
	}
	return no
}
