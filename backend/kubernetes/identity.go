package kubernetes

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/launch"
)

const (
	// programEnds is how long a credentials program may continue after its time limit.
	programEnds = 2 * time.Second
	// early is how long before its expiry a credential is no longer used.
	early = 10 * time.Second
)

// identity is the client's identity for the API server.
type identity struct {
	token, tokenFile   string
	username, password string
	certificate        *tls.Certificate
	program            *execEntry
	impersonation      http.Header
	cluster            map[string]any // the cluster information for a program that requests it
	place              backend.Place

	mu     sync.Mutex // guards the fields below
	made   credential
	usable bool
	until  time.Time // zero if it does not expire
}

// credential is the output of a program.
type credential struct {
	Token           string
	CertificateData string     `json:"clientCertificateData"`
	KeyData         string     `json:"clientKeyData"`
	Expires         *time.Time `json:"expirationTimestamp"`
	certificate     *tls.Certificate
}

// authorize adds the credentials to a request.
func (i *identity) authorize(ctx context.Context, r *http.Request) error {
	maps.Copy(r.Header, i.impersonation)
	switch {
	case i.tokenFile != "": // it is rotated while this process runs
		text, err := os.ReadFile(i.tokenFile)
		if err != nil {
			return fmt.Errorf("reading the token: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(text)))
	case i.token != "":
		r.Header.Set("Authorization", "Bearer "+i.token)
	case i.username != "":
		r.SetBasicAuth(i.username, i.password)
	case i.program != nil:
		c, err := i.ask(ctx)
		if err != nil {
			return err
		}
		if c.Token != "" {
			r.Header.Set("Authorization", "Bearer "+c.Token)
		}
	}
	return nil
}

// clientCertificate is tls.Config.GetClientCertificate.
func (i *identity) clientCertificate(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if i.certificate != nil {
		return i.certificate, nil
	}
	if i.program != nil {
		c, err := i.ask(request.Context())
		if err != nil {
			return nil, err
		}
		if c.certificate != nil {
			return c.certificate, nil
		}
	}
	return &tls.Certificate{}, nil
}

// forget removes the credential of a program after the server has rejected it; it reports whether there was one.
func (i *identity) forget() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	was := i.usable
	i.usable = false
	return was
}

// ask returns the credential of the program, which is run if there is none, or if it is about to expire.
func (i *identity) ask(ctx context.Context) (credential, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.usable && (i.until.IsZero() || i.place.Now().Add(early).Before(i.until)) {
		return i.made, nil
	}
	c, err := i.run(ctx)
	if err != nil {
		return credential{}, fmt.Errorf("the credentials program %q: %w", i.program.Command, err)
	}
	i.made, i.usable, i.until = c, true, time.Time{}
	if c.Expires != nil {
		i.until = *c.Expires
	}
	return c, nil
}

func (i *identity) run(ctx context.Context) (credential, error) {
	p := i.program
	spec := map[string]any{"interactive": false}
	if p.ProvideClusterInfo {
		spec["cluster"] = i.cluster
	}
	question, err := json.Marshal(map[string]any{"apiVersion": p.APIVersion, "kind": "ExecCredential", "spec": spec})
	if err != nil {
		return credential{}, err
	}
	command, err := i.place.Environ.Program(environ.Path(i.place.Dir, p.dir), p.Command)
	if err != nil {
		return credential{}, err
	}
	cmd := launch.Command(ctx, i.place.Dir, nil, command, p.Args...)
	cmd.WaitDelay = programEnds
	variables := i.place.Environ
	for _, e := range p.Env {
		variables = variables.With(e.Name + "=" + e.Value)
	}
	cmd.Env = variables.With("KUBERNETES_EXEC_INFO=" + string(question))
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	output, err := cmd.Output()
	if err != nil {
		if ctx.Err() != nil {
			return credential{}, context.Cause(ctx)
		}
		if text := strings.TrimSpace(complaint.String()); text != "" {
			err = fmt.Errorf("%w: %s", err, text[:min(len(text), 500)])
		}
		return credential{}, err
	}
	var answer struct {
		Kind, APIVersion string
		Status           *credential
	}
	// The invalid output is not quoted: it may contain a secret.
	if json.Unmarshal(output, &answer) != nil || answer.Kind != "ExecCredential" || answer.Status == nil {
		return credential{}, errors.New("it does not answer with an ExecCredential that has a status")
	}
	if answer.APIVersion != p.APIVersion {
		return credential{}, fmt.Errorf("it answers in version %q, and %q is configured",
			answer.APIVersion, p.APIVersion)
	}
	c := *answer.Status
	if c.Token == "" && c.CertificateData == "" {
		return credential{}, errors.New("it answers with neither a token nor a certificate")
	}
	if c.CertificateData != "" {
		pair, err := tls.X509KeyPair([]byte(c.CertificateData), []byte(c.KeyData))
		if err != nil {
			return credential{}, fmt.Errorf("its certificate cannot be used: %w", err)
		}
		c.certificate = &pair
	}
	return c, nil
}
