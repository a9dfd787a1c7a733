// Package registry is a registry of providers and modules on loopback, with a network mirror, for tests. It can be told
// to misbehave.
//
// It speaks the protocols as OpenTofu documents them, over TLS with a certificate of its own. It verifies nothing.
package registry

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// Registry is a server. Close it.
type Registry struct {
	server *httptest.Server
	key    *openpgp.Entity

	mu       sync.Mutex // guards the fields below
	token    string
	files    map[string][]byte // by path
	releases map[string]map[string]map[string][]byte
	modules  map[string]map[string]string // namespace/name/system to version to location
	unsigned bool
	warnings []string
	faults   []fault
	requests []string
}

// fault takes the place of answers.
type fault struct {
	part  string
	times int
	serve http.HandlerFunc
}

// key signs for all registries of the process: making one takes long.
var key = sync.OnceValues(func() (*openpgp.Entity, error) {
	return openpgp.NewEntity("Test", "", "test@example.com", &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA})
})

// New starts a registry without content.
func New() (*Registry, error) {
	key, err := key()
	if err != nil {
		return nil, err
	}
	r := &Registry{
		key: key, files: map[string][]byte{}, releases: map[string]map[string]map[string][]byte{},
		modules: map[string]map[string]string{},
	}
	r.server = httptest.NewTLSServer(r)
	return r, nil
}

// Close stops the server.
func (r *Registry) Close() { r.server.Close() }

// Host is the name of the registry in addresses: it has services without being configured.
func (r *Registry) Host() string { return strings.TrimPrefix(r.server.URL, "https://") }

// URL returns the URL of a path on the server.
func (r *Registry) URL(path string) string { return r.server.URL + path }

// Transport trusts the server's certificate.
func (r *Registry) Transport() http.RoundTripper { return r.server.Client().Transport }

// WriteCertificate writes the certificate into a file, for SSL_CERT_FILE.
func (r *Registry) WriteCertificate(name string) error {
	return os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw}),
		0o644)
}

// HostBlock returns a host block for a CLI configuration with which the services of another host are found here.
func (r *Registry) HostBlock(host string) string {
	return fmt.Sprintf("host %q {\n  services = {\n    \"providers.v1\" = %q\n    \"modules.v1\" = %q\n  }\n}\n", host,
		r.URL("/v1/providers/"), r.URL("/v1/modules/"))
}

// Require makes the registry refuse requests that do not carry this token; its files need none.
func (r *Registry) Require(token string) { r.set(func() { r.token = token }) }

// Unsigned leaves the keys out of the answers.
func (r *Registry) Unsigned() { r.set(func() { r.unsigned = true }) }

// Warn adds a warning to the answers about providers.
func (r *Registry) Warn(text string) { r.set(func() { r.warnings = append(r.warnings, text) }) }

// Misbehave lets serve answer the next requests whose path contains part; times -1 stands for all.
func (r *Registry) Misbehave(part string, times int, serve http.HandlerFunc) {
	r.set(func() { r.faults = append(r.faults, fault{part, times, serve}) })
}

// File puts content under a path.
func (r *Registry) File(path string, content []byte) { r.set(func() { r.files[path] = content }) }

// Module says where a version of NAMESPACE/NAME/SYSTEM is.
func (r *Registry) Module(name, version, location string) {
	r.set(func() {
		if r.modules[name] == nil {
			r.modules[name] = map[string]string{}
		}
		r.modules[name][version] = location
	})
}

// Provider adds a package of NAMESPACE/TYPE that holds one plugin with this content.
func (r *Registry) Provider(name, version, platform, content string) {
	_, kind, _ := strings.Cut(name, "/")
	pkg := Zip(map[string]string{"terraform-provider-" + kind + "_v" + version: content})
	r.set(func() {
		if r.releases[name] == nil {
			r.releases[name] = map[string]map[string][]byte{}
		}
		if r.releases[name][version] == nil {
			r.releases[name][version] = map[string][]byte{}
		}
		r.releases[name][version][platform] = pkg
	})
}

// Requests returns the paths of all requests so far, and forgets them.
func (r *Registry) Requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.requests
	r.requests = nil
	return out
}

func (r *Registry) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// Zip packs files, which are executable.
func Zip(files map[string]string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		h.SetMode(0o755)
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write([]byte(files[name]))
		}
		if err != nil {
			panic(err) // writing to memory does not fail
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// ServeHTTP implements http.Handler.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.requests = append(r.requests, req.URL.Path)
	for i := range r.faults {
		f := &r.faults[i]
		if f.times != 0 && strings.Contains(req.URL.Path, f.part) {
			f.times--
			r.mu.Unlock() // the fault may take its time
			f.serve(w, req)
			return
		}
	}
	defer r.mu.Unlock()
	switch {
	case req.URL.Path == "/.well-known/terraform.json":
		answer(w, map[string]any{"providers.v1": "/v1/providers/", "modules.v1": "/v1/modules/"})
	case strings.HasPrefix(req.URL.Path, "/v1/"):
		if r.token != "" && req.Header.Get("Authorization") != "Bearer "+r.token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if rest, ok := strings.CutPrefix(req.URL.Path, "/v1/providers/"); ok {
			r.provider(w, strings.Split(rest, "/"))
			return
		}
		r.module(w, strings.Split(strings.TrimPrefix(req.URL.Path, "/v1/modules/"), "/"))
	case strings.HasPrefix(req.URL.Path, "/mirror/"):
		r.mirror(w, strings.Split(strings.TrimPrefix(req.URL.Path, "/mirror/"), "/"))
	case strings.HasPrefix(req.URL.Path, "/packages/"):
		r.pkg(w, strings.Split(strings.TrimPrefix(req.URL.Path, "/packages/"), "/"))
	case r.files[req.URL.Path] != nil:
		w.Write(r.files[req.URL.Path]) //nolint:errcheck // the client went away
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// answer writes JSON.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		panic(err) // maps of strings
	}
}

// provider answers for NAMESPACE/TYPE/versions and NAMESPACE/TYPE/VERSION/download/OS/ARCH.
func (r *Registry) provider(w http.ResponseWriter, parts []string) {
	name := strings.Join(parts[:min(2, len(parts))], "/")
	all := r.releases[name]
	if all == nil || len(parts) != 3 && len(parts) != 6 {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if len(parts) == 3 {
		var list []map[string]any
		for _, v := range slices.Sorted(maps.Keys(all)) {
			list = append(list, map[string]any{"version": v, "protocols": []string{"5.0"}})
		}
		answer(w, map[string]any{"versions": list, "warnings": r.warnings})
		return
	}
	version, platform := parts[2], parts[4]+"_"+parts[5]
	pkg := all[version][platform]
	if pkg == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	base := "/packages/" + name + "/" + version + "/"
	out := map[string]any{
		"protocols": []string{"5.0"}, "os": parts[4], "arch": parts[5], "filename": file(name, version, platform),
		"download_url": base + file(name, version, platform), "shasum": sum(pkg),
		"shasums_url": base + "SHA256SUMS", "shasums_signature_url": base + "SHA256SUMS.sig",
	}
	keys := []map[string]string{}
	if !r.unsigned {
		keys = append(keys, map[string]string{"key_id": r.key.PrimaryKey.KeyIdString(), "ascii_armor": r.armor()})
	}
	out["signing_keys"] = map[string]any{"gpg_public_keys": keys}
	answer(w, out)
}

// KeyID names the key that signs.
func (r *Registry) KeyID() string { return r.key.PrimaryKey.KeyIdString() }

func file(name, version, platform string) string {
	_, kind, _ := strings.Cut(name, "/")
	return "terraform-provider-" + kind + "_" + version + "_" + platform + ".zip"
}

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}

func (r *Registry) armor() string {
	var b bytes.Buffer
	w, err := armor.Encode(&b, openpgp.PublicKeyType, nil)
	if err == nil {
		err = r.key.Serialize(w)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // writing to memory does not fail
	}
	return b.String()
}

// pkg answers for NAMESPACE/TYPE/VERSION/FILE: a package, the list of checksums, its signature.
func (r *Registry) pkg(w http.ResponseWriter, parts []string) {
	if len(parts) != 4 {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	name, version := parts[0]+"/"+parts[1], parts[2]
	var sums bytes.Buffer
	for _, platform := range slices.Sorted(maps.Keys(r.releases[name][version])) {
		pkg := r.releases[name][version][platform]
		fmt.Fprintf(&sums, "%s  %s\n", sum(pkg), file(name, version, platform))
		if parts[3] == file(name, version, platform) {
			w.Write(pkg) //nolint:errcheck // the client went away
			return
		}
	}
	switch parts[3] {
	case "SHA256SUMS":
		w.Write(sums.Bytes()) //nolint:errcheck // the client went away
	case "SHA256SUMS.sig":
		if err := openpgp.DetachSign(w, r.key, &sums, nil); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// mirror answers for HOST/NAMESPACE/TYPE/index.json and HOST/NAMESPACE/TYPE/VERSION.json.
func (r *Registry) mirror(w http.ResponseWriter, parts []string) {
	if len(parts) != 4 {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	name := parts[1] + "/" + parts[2]
	all := r.releases[name]
	version := strings.TrimSuffix(parts[3], ".json")
	switch {
	case all == nil:
		w.WriteHeader(http.StatusNotFound)
	case version == "index":
		list := map[string]any{}
		for v := range all {
			list[v] = map[string]any{}
		}
		answer(w, map[string]any{"versions": list})
	default:
		archives := map[string]any{}
		for platform, pkg := range all[version] {
			archives[platform] = map[string]any{
				"url":    "/packages/" + name + "/" + version + "/" + file(name, version, platform),
				"hashes": []string{"zh:" + sum(pkg)},
			}
		}
		answer(w, map[string]any{"archives": archives})
	}
}

// module answers for NAMESPACE/NAME/SYSTEM/versions and NAMESPACE/NAME/SYSTEM/VERSION/download.
func (r *Registry) module(w http.ResponseWriter, parts []string) {
	name := strings.Join(parts[:min(3, len(parts))], "/")
	all := r.modules[name]
	switch {
	case all == nil || len(parts) != 4 && len(parts) != 5:
		w.WriteHeader(http.StatusNotFound)
	case len(parts) == 4:
		var list []map[string]any
		for _, v := range slices.Sorted(maps.Keys(all)) {
			list = append(list, map[string]any{"version": v})
		}
		answer(w, map[string]any{"modules": []any{map[string]any{"versions": list}}})
	case all[parts[3]] == "":
		w.WriteHeader(http.StatusNotFound)
	default:
		w.Header().Set("X-Terraform-Get", all[parts[3]])
		w.WriteHeader(http.StatusNoContent)
	}
}

// Publish adds all files below a directory under a path.
func (r *Registry) Publish(path, dir string) error {
	return filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		r.File(path+filepath.ToSlash(rel), text)
		return nil
	})
}
