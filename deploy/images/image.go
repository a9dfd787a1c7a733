package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the user and the group of the images: not root, and none that a distribution gives to somebody.
const user = 65532

// home is the directory that the user may write to, besides /tmp. Both are volumes, so that the rest can be read-only.
const home = "/var/lib/millipede"

// write makes an image for each platform, and writes it.
func (s *checkout) write(ctx context.Context, p program, platforms []platform, out string, stdout io.Writer) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, on := range platforms {
		img, size, err := s.image(ctx, p, on)
		if err != nil {
			return err
		}
		tag, err := name.NewTag(p.name + ":" + s.tag())
		if err != nil {
			return err
		}
		path := filepath.Join(out, fmt.Sprintf("%s_%s_%s.tar", p.name, on.os, on.arch))
		if err := tarball.WriteToFile(path, tag, img); err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: on.os, Architecture: on.arch}}})
		digest, err := img.ConfigName() // which docker calls the ID of the image
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s %s/%s: %.1f MB uncompressed, %s, in %s\n", tag, on.os, on.arch, float64(size)/1e6, digest,
			path)
	}
	dir := filepath.Join(out, p.name)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	_, err := layout.Write(dir, index)
	return err
}

// tag is the version as a tag, in which "+" is not permitted.
func (s *checkout) tag() string { return strings.ReplaceAll(s.version, "+", "-") }

// image makes the image of a program for a platform, and says how many bytes its files have.
func (s *checkout) image(ctx context.Context, p program, on platform) (v1.Image, int, error) {
	dir, err := os.MkdirTemp("", "millipede-images-")
	if err != nil {
		return nil, 0, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	path := filepath.Join(dir, p.binary)
	if err := s.build(ctx, p, on, path); err != nil {
		return nil, 0, err
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, err
	}
	base, err := base()
	if err != nil {
		return nil, 0, err
	}
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	size := 0
	for _, files := range [][]file{base, {{name: "usr/local/bin/" + p.binary, mode: 0o755, content: binary}}} {
		layer, bytes, err := s.layer(files)
		if err != nil {
			return nil, 0, err
		}
		if img, err = mutate.Append(img, mutate.Addendum{Layer: layer, History: v1.History{
			Created: v1.Time{Time: s.made}, CreatedBy: "deploy/images", Comment: files[len(files)-1].name}}); err != nil {
			return nil, 0, err
		}
		size += bytes
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, 0, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = on.os, on.arch, v1.Time{Time: s.made}
	config.Config = v1.Config{
		User:       fmt.Sprintf("%d:%d", user, user),
		Entrypoint: []string{"/usr/local/bin/" + p.binary},
		Env:        []string{"PATH=/usr/local/bin", "HOME=" + home},
		WorkingDir: home,
		Volumes:    map[string]struct{}{home: {}, "/tmp": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title":    p.title,
			"org.opencontainers.image.version":  s.version,
			"org.opencontainers.image.revision": s.revision,
			"org.opencontainers.image.created":  s.made.Format(time.RFC3339),
			"org.opencontainers.image.source":   "https://github.com/millipede-iac/millipede",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	img, err = mutate.ConfigFile(img, config)
	return img, size, err
}

// file is a file or, without content, a directory of a layer.
type file struct {
	name    string // without a leading slash; directories end with one
	mode    int64
	owner   int
	content []byte
}

// base returns the files of all images: certificates, the name of the user, and the directories to write to.
func base() ([]file, error) {
	certificates, err := authorities()
	if err != nil {
		return nil, err
	}
	return []file{
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:\nmillipede:x:%d:\n", user)},
		{name: "etc/passwd", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:0:root:/:/none\n"+
			"millipede:x:%d:%[1]d:Millipede:%s:/none\n", user, home)},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: certificates},
		{name: "tmp/", mode: 0o1777},
		{name: "usr/", mode: 0o755},
		{name: "usr/local/", mode: 0o755},
		{name: "usr/local/bin/", mode: 0o755},
		{name: "var/", mode: 0o755},
		{name: "var/lib/", mode: 0o755},
		{name: "var/lib/millipede/", mode: 0o700, owner: user},
	}, nil
}

// authorities returns the certificates of Mozilla's programme, of the version in go.mod. Those that Mozilla trusts
// only for some certificates (by their dates, for example) are not among them: a file cannot say for which.
func authorities() ([]byte, error) {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return all.Bytes(), nil
}

// layer makes a layer of files, and says how many bytes they have.
func (s *checkout) layer(files []file) (v1.Layer, int, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	size := 0
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.content)),
			ModTime: s.made, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, 0, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, 0, err
		}
		size += len(f.content)
	}
	if err := w.Close(); err != nil {
		return nil, 0, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	return layer, size, err
}
