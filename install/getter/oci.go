package getter

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/internal/cloud/oci"
)

// The media types of OpenTofu for a module's package in an OCI registry.
const (
	moduleArtifact = "application/vnd.opentofu.modulepkg"
	zipLayer       = "archive/zip"
)

// oci gets a package from an OCI registry: oci://HOST/REPOSITORY[?tag=TAG|?digest=DIGEST].
func (g *Getter) oci(ctx context.Context, u *url.URL, into string) error {
	reference, err := ociReference(u)
	if err != nil {
		return err
	}
	repository, err := g.services.OCI().Repository(ctx, u.Host, strings.Trim(u.Path, "/"))
	if err != nil {
		return err
	}
	m, err := repository.Manifest(ctx, reference, oci.ImageManifest)
	if err != nil {
		return err
	}
	if m.ArtifactType != moduleArtifact {
		return fmt.Errorf(
			"%s holds an artifact of the type %q, not the package of a module (%s)",
			repository.Name(),
			m.ArtifactType,
			moduleArtifact,
		)
	}
	layers := slices.DeleteFunc(m.Layers, func(d oci.Descriptor) bool { return d.MediaType != zipLayer })
	if len(layers) != 1 {
		return fmt.Errorf(
			"the package in %s has %d layers of the type %s, and it has to have one",
			repository.Name(),
			len(layers),
			zipLayer,
		)
	}
	f, err := os.CreateTemp(g.env.TempDir(), "module-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = repository.Blob(ctx, layers[0], bounds.Bytes, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return unpack(f.Name(), "zip", into)
}

// ociReference returns the tag or the digest in an address.
func ociReference(u *url.URL) (string, error) {
	if u.User != nil {
		return "", errors.New(
			"the address of an OCI repository has no user; credentials are in the CLI configuration (oci_credentials)",
		)
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", errors.New("the query of the address cannot be read")
	}
	for name, values := range q {
		switch {
		case name != "tag" && name != "digest":
			return "", fmt.Errorf("the address of an OCI repository takes no argument %q, only tag or digest", name)
		case len(values) > 1:
			return "", fmt.Errorf("the address has the argument %q more than once", name)
		case values[0] == "":
			return "", fmt.Errorf("the argument %q of the address is empty", name)
		}
	}
	tag, digest := q.Get("tag"), q.Get("digest")
	switch {
	case tag != "" && digest != "":
		return "", errors.New("the address names a tag and a digest; one of them is enough")
	case digest != "" && !strings.Contains(digest, ":"):
		return "", fmt.Errorf("%q is not a digest such as sha256:HEX", digest)
	case strings.ContainsAny(tag, ":@/"):
		return "", fmt.Errorf("%q is not a valid tag", tag)
	case digest != "":
		return digest, nil
	case tag != "":
		return tag, nil
	}
	return "latest", nil
}
