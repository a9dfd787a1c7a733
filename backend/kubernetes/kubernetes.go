// Package kubernetes stores snapshots in secrets of a Kubernetes cluster, compatible with OpenTofu's backend
// "kubernetes".
//
// A workspace is a secret with the compressed state; a lease beside it is its lock.
package kubernetes

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/internal/pattern"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/tfstate"
)

const (
	// maxSecret is the maximum size of the data in one secret.
	maxSecret = 1 << 20
	// maxState bounds the size of an uncompressed state.
	maxState = 1 << 30
	// stateKey is the key in a secret's data.
	stateKey = "tfstate"
)

type store struct {
	api       *api
	namespace string
	suffix    string
	labels    map[string]string

	transport  *http.Transport
	checks     backend.LockChecks
	checkEvery time.Duration
}

// Close closes the connections. Locks are kept.
func (b *store) Close() error {
	b.checks.Close()
	b.transport.CloseIdleConnections()
	return nil
}

func (b *store) secretName(workspace string) string { return "tfstate-" + workspace + "-" + b.suffix }

func (b *store) leaseName(workspace string) string { return "lock-" + b.secretName(workspace) }

func (b *store) secrets() collection {
	return collection{b.api, "/api/v1/namespaces/" + b.namespace + "/secrets"}
}

func (b *store) leases() collection {
	return collection{b.api, "/apis/coordination.k8s.io/v1/namespaces/" + b.namespace + "/leases"}
}

// labelsOf returns the labels of a workspace's secret and lease.
func (b *store) labelsOf(workspace string) map[string]string {
	labels := map[string]string{
		"tfstate": "true", "tfstateSecretSuffix": b.suffix, "tfstateWorkspace": workspace,
		"app.kubernetes.io/managed-by": "terraform",
	}
	maps.Copy(labels, b.labels)
	return labels
}

// Describe implements backend.Backend.
func (b *store) Describe(workspace string) backend.Description {
	return backend.Description{
		Where: fmt.Sprintf("the secret %s/%s at %s", b.namespace, b.secretName(workspace), b.api.address.Host),
		Form:  tfstate.Compact,
	}
}

var subdomain = pattern.Lazy(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// checkName checks the name of a workspace, and the suffix.
func (b *store) checkName(workspace string) error {
	name := b.leaseName(workspace) // the longer one of the two
	switch {
	case !subdomain().MatchString(name) || len(name) > 253:
		return fmt.Errorf("%q cannot be the name of a secret: Kubernetes takes lower-case letters, digits, \"-\" and "+
			"\".\", a letter or digit at both ends, 253 characters at most", b.secretName(workspace))
	case len(workspace) > 63:
		return fmt.Errorf("the workspace's name %q is too long for a label: Kubernetes takes 63 characters", workspace)
	}
	return nil
}

// Read implements backend.Backend. It also reads states that Terraform has split.
func (b *store) Read(ctx context.Context, workspace string) ([]byte, error) {
	if err := b.checkName(workspace); err != nil {
		return nil, err
	}
	secret, err := b.secrets().get(ctx, b.secretName(workspace))
	if err != nil || secret == nil {
		return nil, err
	}
	packed, err := stateOf(secret)
	if err != nil || packed == nil {
		return nil, err
	}
	data, err := unpack(packed)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		return data, err
	}
	parts, listErr := b.parts(ctx, workspace)
	if listErr != nil {
		return nil, listErr
	}
	for _, p := range parts {
		part, err := b.secrets().get(ctx, p)
		if err != nil {
			return nil, err
		}
		more, err := stateOf(part)
		if err != nil {
			return nil, err
		}
		packed = append(packed, more...)
	}
	return unpack(packed)
}

// stateOf returns the compressed state in a secret; nil if there is none.
func stateOf(secret object) ([]byte, error) {
	text, ok := secret.child("data")[stateKey].(string)
	if !ok || text == "" {
		return nil, nil
	}
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("the secret %s does not hold base64: %w", secret.name(), err)
	}
	return packed, nil
}

// unpack decompresses the first stream of the data. Parts of an older state may follow, which an interrupted writer
// has not removed. The error is io.ErrUnexpectedEOF if the rest of the stream is missing.
func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("the state is not compressed as it should be: %w", err)
	}
	r.Multistream(false)
	data, err := io.ReadAll(io.LimitReader(r, maxState+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the compressed state is damaged: %w", err)
	case len(data) > maxState:
		return nil, fmt.Errorf("the state has more than %d bytes", maxState)
	}
	return data, nil
}

// parts returns the names of the secrets, after the first, into which Terraform has split a state, in order.
func (b *store) parts(ctx context.Context, workspace string) ([]string, error) {
	items, err := b.secrets().list(ctx, selector(map[string]string{
		"tfstate": "true", "tfstateSecretSuffix": b.suffix, "tfstateWorkspace": workspace,
		"app.kubernetes.io/managed-by": "terraform",
	}))
	if err != nil {
		return nil, err
	}
	numbers := map[int]string{}
	for _, item := range items {
		rest, ok := strings.CutPrefix(item.name(), b.secretName(workspace)+"-part-")
		if n, err := strconv.Atoi(rest); ok && err == nil && n > 0 {
			numbers[n] = item.name()
		}
	}
	var names []string
	for _, n := range slices.Sorted(maps.Keys(numbers)) {
		names = append(names, numbers[n])
	}
	return names, nil
}

// Write implements backend.Backend. A concurrent write to the secret is an error.
func (b *store) Write(ctx context.Context, workspace string, data []byte) error {
	return b.store(ctx, workspace, data, true)
}

// store writes a state; unless replace is set, only if there is none.
func (b *store) store(ctx context.Context, workspace string, data []byte, replace bool) error {
	if err := b.checkName(workspace); err != nil {
		return err
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(data); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if packed.Len() > maxSecret {
		return fmt.Errorf("the state has %d bytes when it is compressed, and Kubernetes takes %d in a secret: "+
			"divide the "+
			"configuration, or use another backend", packed.Len(), maxSecret)
	}
	text := base64.StdEncoding.EncodeToString(packed.Bytes())
	name := b.secretName(workspace)
	secret, err := b.secrets().get(ctx, name)
	switch {
	case err != nil:
		return err
	case secret == nil:
		err = b.secrets().create(ctx, object{
			"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
			"metadata": map[string]any{
				"name": name, "namespace": b.namespace, "labels": b.labelsOf(workspace),
				"annotations": map[string]string{"encoding": "gzip"},
			},
			"data": map[string]string{stateKey: text},
		})
		if !replace && isStatus(err, http.StatusConflict) {
			return nil
		}
		return err
	case !replace && secret.child("data")[stateKey] != nil:
		return nil
	}
	// Without the permission to list there are no split states: Terraform needs it, too.
	stale, err := b.parts(ctx, workspace)
	if err != nil && !isStatus(err, http.StatusForbidden) {
		return err
	}
	secret.setChild("data", stateKey, text)
	secret.setChild("metadata", "annotations", secret.annotationsWith("encoding", "gzip"))
	if err := b.secrets().update(ctx, secret); err != nil {
		return err
	}
	for _, part := range stale {
		if err := b.secrets().remove(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// Workspaces implements backend.Backend.
func (b *store) Workspaces(ctx context.Context) ([]string, error) {
	items, err := b.secrets().list(ctx, selector(map[string]string{"tfstate": "true", "tfstateSecretSuffix": b.suffix}))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, item := range items {
		if w := item.labels()["tfstateWorkspace"]; w != "" && w != journal.DefaultWorkspace {
			names = append(names, w)
		}
	}
	slices.Sort(names)
	return append([]string{journal.DefaultWorkspace}, slices.Compact(names)...), nil
}

// Create implements backend.Backend. It stores an empty state, as OpenTofu does.
func (b *store) Create(ctx context.Context, workspace string) error {
	if workspace == journal.DefaultWorkspace {
		return nil
	}
	empty, err := backend.EmptyState()
	if err != nil {
		return err
	}
	return b.store(ctx, workspace, empty, false)
}

// Delete implements backend.Backend. It also deletes the lease.
func (b *store) Delete(ctx context.Context, workspace string) error {
	if workspace == journal.DefaultWorkspace || workspace == "" {
		return backend.ErrDefault
	}
	if err := b.checkName(workspace); err != nil {
		return err
	}
	parts, err := b.parts(ctx, workspace)
	if err != nil {
		return err
	}
	for _, name := range append(parts, b.secretName(workspace)) {
		if err := b.secrets().remove(ctx, name); err != nil {
			return err
		}
	}
	return b.leases().remove(ctx, b.leaseName(workspace))
}
