package install

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/apparentlymart/go-versions/versions"

	"github.com/millipede-iac/millipede/lang/addr"
)

// candidate is one package that a source offers.
type candidate struct {
	version versions.Version
	// dir is an unpacked package, archive a packed one; exactly one is set.
	dir, archive string
}

// providersIn returns the providers that a filesystem mirror has anything of.
func providersIn(dir string) []addr.Provider {
	var out []addr.Provider
	for _, host := range subdirs(dir) {
		for _, ns := range subdirs(filepath.Join(dir, host)) {
			for _, name := range subdirs(filepath.Join(dir, host, ns)) {
				out = append(out, addr.Provider{Host: host, Namespace: ns, Type: name})
			}
		}
	}
	return out
}

func subdirs(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // what cannot be read has nothing to offer
	}
	var out []string
	for _, e := range entries {
		if info, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && info.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out
}

// inMirror returns the packages that a filesystem mirror has of a provider for a platform (os_arch): unpacked
// HOST/NAMESPACE/TYPE/VERSION/PLATFORM directories, packed terraform-provider-TYPE_VERSION_PLATFORM.zip files.
func inMirror(dir string, p addr.Provider, platform string) []candidate {
	base := filepath.Join(dir, p.Host, p.Namespace, p.Type)
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil
	}
	var out []candidate
	for _, e := range entries {
		name := e.Name()
		full := filepath.Join(base, name)
		if rest, ok := strings.CutPrefix(name, "terraform-provider-"+p.Type+"_"); ok {
			text, ok := strings.CutSuffix(rest, "_"+platform+".zip")
			if v, err := versions.ParseVersion(text); ok && err == nil {
				out = append(out, candidate{version: v, archive: full})
			}
			continue
		}
		v, err := versions.ParseVersion(name)
		if err != nil {
			continue
		}
		unpacked := filepath.Join(full, platform)
		if info, err := os.Stat(unpacked); err == nil && info.IsDir() {
			out = append(out, candidate{version: v, dir: unpacked})
		}
	}
	return out
}

// executable returns the plugin in an unpacked package, or "" when there is none.
func executable(dir string, p addr.Provider) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	prefix := "terraform-provider-" + p.Type
	for _, e := range entries {
		name := e.Name()
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok || (rest != "" && rest[0] != '_' && rest[0] != '.') {
			continue
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && !info.IsDir() {
			return filepath.Join(dir, name)
		}
	}
	return ""
}
