package providers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/apparentlymart/go-versions/versions"

	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/internal/cloud/oci"
	"github.com/millipede-iac/millipede/internal/unpacking"
	"github.com/millipede-iac/millipede/lang/addr"
)

// The media types of OpenTofu for the artifacts of a provider in an OCI registry.
const (
	providerArtifact = "application/vnd.opentofu.provider"
	targetArtifact   = "application/vnd.opentofu.provider-target"
	zipLayer         = "archive/zip"
)

// ociMirror is a source: an OCI registry with a repository for each provider, which has a tag for each version,
// with an index that has a manifest for each platform.
type ociMirror struct {
	services *services.Services
	method   cliconfig.Method
}

func (m *ociMirror) where(p addr.Provider) string {
	host, path, err := m.method.Repository(p)
	if err != nil {
		return "OCI mirror " + m.method.Location
	}
	return "OCI repository " + host + "/" + path
}

func (m *ociMirror) repository(ctx context.Context, p addr.Provider) (*oci.Repository, error) {
	host, path, err := m.method.Repository(p)
	if err != nil {
		return nil, err
	}
	return m.services.OCI().Repository(ctx, host, path)
}

func (m *ociMirror) available(ctx context.Context, p addr.Provider) ([]versions.Version, []string, error) {
	r, err := m.repository(ctx, p)
	if err != nil {
		return nil, nil, m.failed(p, err)
	}
	tags, err := r.Tags(ctx)
	if oci.Missing(err) {
		return nil, nil, &absentError{provider: p}
	}
	if err != nil {
		return nil, nil, m.failed(p, err)
	}
	var out []versions.Version
	for _, tag := range tags {
		if v, err := versions.ParseVersion(versionOf(tag)); err == nil { // other tags are not versions
			out = append(out, v)
		}
	}
	return out, nil, nil
}

// versionOf returns the version of a tag, and tagOf the tag of a version. A tag cannot contain the plus sign before a
// version's metadata, so it is replaced by an underscore.
func versionOf(tag string) string           { return strings.ReplaceAll(tag, "_", "+") }
func tagOf(version versions.Version) string { return strings.ReplaceAll(version.String(), "+", "_") }

func (m *ociMirror) locate(
	ctx context.Context,
	p addr.Provider,
	v versions.Version,
	platform string,
) (candidate, error) {
	r, err := m.repository(ctx, p)
	if err != nil {
		return candidate{}, m.failed(p, err)
	}
	layer, err := target(ctx, r, v, platform)
	var none *platformError
	switch {
	case errors.As(err, &none):
		return candidate{}, &platformError{p, v, platform, r.Name()}
	case oci.Missing(err):
		return candidate{}, &platformError{p, v, platform, ""}
	case err != nil:
		return candidate{}, m.failed(p, err)
	}
	sum, isSHA256 := strings.CutPrefix(layer.Digest, "sha256:")
	if !isSHA256 || !validHash("zh:"+sum) {
		return candidate{}, m.failed(
			p,
			fmt.Errorf("its package has the digest %q, and only sha256 can be compared with lock files", layer.Digest),
		)
	}
	// The digest is the hash of the package's archive, so it is checked like the hash from any other mirror.
	c := checks{platform: platform, accepted: []string{"zh:" + sum}}
	return candidate{
		version:  v,
		platform: platform,
		download: &download{verify: c.verify, get: func(ctx context.Context, f *os.File) error {
			return r.Blob(ctx, layer, unpacking.Provider.Bytes, f)
		}},
	}, nil
}

// target finds the package for a platform; the error is a *platformError if there is none.
func target(ctx context.Context, r *oci.Repository, v versions.Version, platform string) (oci.Descriptor, error) {
	index, err := r.Manifest(ctx, tagOf(v), oci.ImageIndex)
	if err != nil {
		return oci.Descriptor{}, err
	}
	if index.ArtifactType != providerArtifact {
		return oci.Descriptor{}, fmt.Errorf(
			"version %s is an artifact of the type %q, not a provider (%s)",
			v,
			index.ArtifactType,
			providerArtifact,
		)
	}
	fitting := slices.DeleteFunc(index.Manifests, func(d oci.Descriptor) bool {
		return d.ArtifactType != targetArtifact || d.MediaType != oci.ImageManifest || d.Platform == nil ||
			d.Platform.OSVersion != "" || d.Platform.OS+"_"+d.Platform.Architecture != platform
	})
	switch len(fitting) {
	case 0:
		return oci.Descriptor{}, &platformError{}
	case 1:
	default:
		return oci.Descriptor{}, fmt.Errorf(
			"version %s has %d packages for %s, and it has to have one",
			v,
			len(fitting),
			platform,
		)
	}
	image, err := r.ManifestOf(ctx, fitting[0], oci.ImageManifest)
	if err != nil {
		return oci.Descriptor{}, err
	}
	layers := slices.DeleteFunc(image.Layers, func(d oci.Descriptor) bool { return d.MediaType != zipLayer })
	if image.ArtifactType != targetArtifact || len(layers) != 1 {
		return oci.Descriptor{}, fmt.Errorf(
			"the package of version %s for %s has the type %q and %d layers of the type %s; it has to have the type "+
				"%s and one layer",
			v,
			platform,
			image.ArtifactType,
			len(layers),
			zipLayer,
			targetArtifact,
		)
	}
	return layers[0], nil
}

func (m *ociMirror) failed(p addr.Provider, err error) error {
	return fmt.Errorf("failed to query %s for %s: %w", m.where(p), p, err)
}
