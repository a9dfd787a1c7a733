package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/test/stage/process"
)

// host is `coordinator serve` in a separate process.
type host struct {
	path, dir string   // the program; the service's directory
	args, env []string // more options, and more of its environment
	listen    string
	token     string
	*process.Process
	http *http.Client
}

// newHost returns a service with its data below dir. start starts it.
func (b *bench) newHost(dir string, args ...string) (*host, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that it can reuse after a restart
	if err != nil {
		return nil, fmt.Errorf("choosing a port: %w", err)
	}
	h := &host{path: b.coordinator.path, dir: dir, args: args, listen: l.Addr().String()}
	return h, l.Close()
}

func (h *host) data() string { return filepath.Join(h.dir, "data") }
func (h *host) key() string  { return filepath.Join(h.dir, "service.key") }

// start starts the service, and returns how long it took to become ready.
func (h *host) start(ctx context.Context) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, h.path, append([]string{"serve", "-listen=" + h.listen, "-data=" + h.data(),
		"-key-file=" + h.key(), "-log-level=error"}, h.args...)...)
	cmd.Dir, cmd.Env = h.dir, append(append(os.Environ(), "HOME="+h.dir, "XDG_CONFIG_HOME="), h.env...)
	began := time.Now()
	var err error
	if h.Process, err = process.Start("the service", cmd); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the service did not become ready in a minute"))
	defer cancel()
	for {
		if h.http == nil {
			if err := h.trust(); err != nil && !errors.Is(err, os.ErrNotExist) {
				return 0, err
			}
		}
		if h.http != nil && h.ready(ctx) {
			break
		}
		select {
		case <-time.After(time.Millisecond):
		case <-h.Done():
			return 0, fmt.Errorf("the service has ended:\n%s", h.Output())
		case <-ctx.Done():
			return 0, fmt.Errorf("starting the service: %w\n%s", context.Cause(ctx), h.Output())
		}
	}
	took := time.Since(began)
	if h.token == "" {
		text, err := os.ReadFile(filepath.Join(h.data(), "admin.token"))
		if err != nil {
			return 0, err
		}
		h.token = strings.TrimSpace(string(text))
	}
	return took, nil
}

// trust creates a client that trusts the service, once the service has created its authority.
func (h *host) trust() error {
	client, err := h.client()
	if err == nil {
		h.http = client
	}
	return err
}

// client returns a client with separate connections.
func (h *host) client() (*http.Client, error) {
	text, err := os.ReadFile(filepath.Join(h.data(), "tls", "ca.pem"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, os.ErrNotExist // it is being written
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots,
		MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 256}}, nil
}

func (h *host) ready(ctx context.Context) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+h.listen+"/readyz", nil)
	if err != nil {
		return false
	}
	answer, err := h.http.Do(r)
	if err != nil {
		return false
	}
	return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
}

// thing is a resource of the API.
type thing struct {
	ID            string              `json:"id,omitempty"`
	Type          string              `json:"type"`
	Attributes    map[string]any      `json:"attributes,omitempty"`
	Relationships map[string]relation `json:"relationships,omitempty"`
}

// relation is another resource, or several.
type relation struct {
	Data any `json:"data"`
}

func (t *thing) text(attribute string) string {
	s, _ := t.Attributes[attribute].(string)
	return s
}

// related returns the ID of a related resource.
func (t *thing) related(name string) string {
	one, _ := t.Relationships[name].Data.(map[string]any)
	id, _ := one["id"].(string)
	return id
}

// send sends a request with a body, and returns the body of the response.
func (h *host) send(ctx context.Context, client *http.Client, method, address, kind string, body []byte) ([]byte,
	error) {
	if strings.HasPrefix(address, "/") {
		address = "https://" + h.listen + address
	}
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+h.token)
	r.Header.Set("Content-Type", kind)
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, address, answer.Status, text)
	}
	return text, err
}

// ask sends a request below /api/v2 with the given resource, or with an empty body if it is nil. It returns the
// resource in the response.
func (h *host) ask(ctx context.Context, method, path string, in *thing) (*thing, error) {
	var body []byte
	var err error
	if in != nil {
		if body, err = json.Marshal(map[string]any{"data": in}); err != nil {
			return nil, err
		}
	}
	text, err := h.send(ctx, h.http, method, "/api/v2"+path, "application/vnd.api+json", body)
	if err != nil || len(text) == 0 {
		return &thing{}, err
	}
	var out struct{ Data thing }
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", method, path, err, text)
	}
	return &out.Data, nil
}

// workspace creates a workspace, and returns its ID.
func (h *host) workspace(ctx context.Context, name string) (string, error) {
	w, err := h.ask(ctx, http.MethodPost, "/organizations/main/workspaces", &thing{Type: "workspaces",
		Attributes: map[string]any{"name": name}})
	if err != nil {
		return "", err
	}
	return w.ID, nil
}

// upload creates a version of a workspace's configuration, and returns its ID.
func (h *host) upload(ctx context.Context, workspace, text string) (string, error) {
	c, err := h.ask(ctx, http.MethodPost, "/workspaces/"+workspace+"/configuration-versions",
		&thing{Type: "configuration-versions", Attributes: map[string]any{"auto-queue-runs": false}})
	if err != nil {
		return "", err
	}
	archive, err := packed(text)
	if err != nil {
		return "", err
	}
	_, err = h.send(ctx, h.http, http.MethodPut, c.text("upload-url"), "application/octet-stream", archive)
	return c.ID, err
}

// packed returns the archive of a configuration with one file.
func packed(text string) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	err := w.WriteHeader(&tar.Header{Name: "main.tf", Mode: 0o644, Size: int64(len(text))})
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	err = errors.Join(err, w.Close(), z.Close())
	return b.Bytes(), err
}

// queue queues a run.
func (h *host) queue(ctx context.Context, workspace, configuration, message string, auto bool) (*thing, error) {
	return h.ask(ctx, http.MethodPost, "/runs", &thing{Type: "runs",
		Attributes: map[string]any{"message": message, "auto-apply": auto},
		Relationships: map[string]relation{
			"workspace":             {thing{ID: workspace, Type: "workspaces"}},
			"configuration-version": {thing{ID: configuration, Type: "configuration-versions"}},
		}})
}

// phase returns the API's name of a phase of a run.
type phase string

const (
	planPhase  phase = "plan"
	applyPhase phase = "apply"
)

// logAddress returns the address of the log of a phase of a run.
func (h *host) logAddress(ctx context.Context, r *thing, p phase) (string, error) {
	kind := map[phase]string{planPhase: "plans", applyPhase: "applies"}[p]
	t, err := h.ask(ctx, http.MethodGet, "/"+kind+"/"+r.related(string(p)), nil)
	if err != nil {
		return "", err
	}
	return t.text("log-read-url"), nil
}

// becomes waits for a status of a run. If the run ends with another one, it returns an error with its log.
func (h *host) becomes(ctx context.Context, id, status string) (*thing, error) {
	for {
		r, err := h.ask(ctx, http.MethodGet, "/runs/"+id, nil)
		if err != nil {
			return nil, err
		}
		switch now := r.text("status"); now {
		case status:
			return r, nil
		case "applied", "errored", "canceled", "discarded", "planned_and_finished", "force_canceled":
			log := ""
			for _, p := range []phase{planPhase, applyPhase} {
				if at, err := h.logAddress(ctx, r, p); err == nil {
					text, _ := h.send(ctx, h.http, http.MethodGet, at+"?limit=20000&offset=0", "", nil)
					log += string(text)
				}
			}
			return r, fmt.Errorf("the run %s is %s, not %s:\n%s", id, now, status, log)
		}
		select {
		case <-time.After(time.Second): // as tofu does
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
