package config

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	regaddr "github.com/opentofu/registry-address/v2"
)

// ModuleSource is the address from which a module is installed.
type ModuleSource struct {
	Kind SourceKind
	// Text is the normalized form, as in the manifest.
	Text string
	// Registry is set for registry modules.
	Registry regaddr.Module
	// Package and Subdir are set for remote packages: the address to fetch, and the module's directory within the
	// package.
	Package, Subdir string
}

// SourceKind is how a module is installed.
type SourceKind byte

// The kinds of module sources.
const (
	LocalSource    SourceKind = iota + 1 // a directory beside the caller's
	RegistrySource                       // a module registry
	RemoteSource                         // a package that is fetched: git, an archive, ...
)

// errMaybeLocal is the error for a source that seems to lack a leading ./.
var errMaybeLocal = errors.New("not a source that can be fetched; a directory beside the module starts with ./")

// ParseModuleSource parses the source argument of a module block. registryOnly is true if a version is given, which
// only registries have.
func ParseModuleSource(text string, registryOnly bool) (ModuleSource, error) {
	if isLocalSource(text) {
		if registryOnly {
			return ModuleSource{}, fmt.Errorf("%q is a local directory, and those have no versions", text)
		}
		clean := path.Clean(strings.ReplaceAll(text, `\`, "/"))
		if !strings.HasPrefix(clean, "../") {
			clean = "./" + clean
		}
		return ModuleSource{Kind: LocalSource, Text: clean}, nil
	}
	m, err := regaddr.ParseModuleSource(text)
	if err == nil {
		return ModuleSource{Kind: RegistrySource, Text: m.String(), Registry: m}, nil
	}
	if registryOnly {
		return ModuleSource{}, err
	}
	return parseRemote(text)
}

func isLocalSource(text string) bool {
	for _, prefix := range []string{"./", "../", `.\`, `..\`} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

// parseRemote normalises the address of a package, and separates the directory within it.
func parseRemote(text string) (ModuleSource, error) {
	pkg, subdir := splitSubdir(text)
	if strings.HasPrefix(subdir, "../") {
		return ModuleSource{}, fmt.Errorf("the directory %q lies outside of the package", subdir)
	}
	pkg, more, err := normalPackage(pkg)
	if err != nil {
		return ModuleSource{}, err
	}
	if more != "" {
		subdir = path.Join(more, subdir)
	}
	return ModuleSource{Kind: RemoteSource, Text: joinSubdir(pkg, subdir), Package: pkg, Subdir: subdir}, nil
}

// splitSubdir splits an address at the // before the directory within the package. The query stays with the
// package.
func splitSubdir(text string) (pkg, subdir string) {
	end := len(text)
	if i := strings.IndexByte(text, '?'); i >= 0 {
		end = i
	}
	from := 0
	if i := strings.Index(text[:end], "://"); i >= 0 {
		from = i + 3
	}
	i := strings.Index(text[from:end], "//")
	if i < 0 {
		return text, ""
	}
	i += from
	return text[:i] + text[end:], path.Clean(text[i+2 : end])
}

func joinSubdir(pkg, subdir string) string {
	if subdir == "" {
		return pkg
	}
	if i := strings.IndexByte(pkg, '?'); i >= 0 {
		return pkg[:i] + "//" + subdir + pkg[i:]
	}
	return pkg + "//" + subdir
}

// normalPackage expands the short forms of package addresses.
func normalPackage(text string) (pkg, subdir string, err error) {
	if forced, rest, ok := strings.Cut(text, "::"); ok && isScheme(forced) {
		return forcedPackage(forced, rest)
	}
	if scheme, _, ok := strings.Cut(text, "://"); ok && isScheme(scheme) {
		return text, "", nil
	}
	if strings.HasPrefix(text, "/") {
		return "file://" + text, "", nil
	}
	for _, host := range []string{"github.com/", "bitbucket.org/"} {
		if rest, ok := strings.CutPrefix(text, host); ok {
			return hostedRepository(host, rest)
		}
	}
	if user, rest, ok := strings.Cut(text, "@"); ok && !strings.ContainsAny(user, "/:") {
		if host, repo, ok := strings.Cut(rest, ":"); ok && !strings.Contains(host, "/") {
			return "git::ssh://" + user + "@" + host + "/" + strings.TrimPrefix(repo, "/"), "", nil
		}
	}
	if strings.Contains(text, ".amazonaws.com/") {
		return amazonPackage(text)
	}
	if strings.Contains(text, ".googleapis.com/") {
		return googlePackage(text)
	}
	if u, err := url.Parse(text); err == nil && u.Scheme != "" {
		return text, "", nil // the error is reported when it is fetched
	}
	return "", "", errMaybeLocal
}

// hostedRepository expands github.com/OWNER/NAME[/SUBDIR].
func hostedRepository(host, rest string) (pkg, subdir string, err error) {
	rest, query, hasQuery := strings.Cut(rest, "?")
	parts := strings.SplitN(rest, "/", 3)
	if len(parts) < 2 || parts[0] == "" || parts[1] == "" {
		return "", "", fmt.Errorf("%s needs the owner and the name of a repository behind it",
			strings.TrimSuffix(host, "/"))
	}
	pkg = "git::https://" + host + parts[0] + "/" + strings.TrimSuffix(parts[1], ".git") + ".git"
	if len(parts) == 3 {
		subdir = parts[2]
	}
	if hasQuery && query != "" {
		pkg += "?" + query
	}
	return pkg, subdir, nil
}

// amazonPackage normalizes the address of an object in S3 to the form with the bucket in the path.
func amazonPackage(text string) (pkg, subdir string, err error) {
	host, object, _ := strings.Cut(text, "/")
	parts := strings.Split(host, ".")
	switch {
	case len(parts) == 3: // s3-region.amazonaws.com/bucket/key
		return "s3::https://" + text, "", nil
	case len(parts) == 4: // bucket.s3-region.amazonaws.com/key
		return "s3::https://" + parts[1] + ".amazonaws.com/" + parts[0] + "/" + object, "", nil
	case len(parts) == 5 && parts[1] == "s3": // bucket.s3.region.amazonaws.com/key
		return "s3::https://s3." + parts[2] + ".amazonaws.com/" + parts[0] + "/" + object, "", nil
	}
	return "", "", fmt.Errorf("the host %q is not one of Amazon S3", host)
}

// googlePackage normalizes the address of an object in Google Cloud Storage: HOST/storage/VERSION/BUCKET/OBJECT.
func googlePackage(text string) (pkg, subdir string, err error) {
	parts := strings.SplitN(text, "/", 5)
	if len(parts) < 5 {
		return "", "", errors.New("an address in Google Cloud Storage is www.googleapis.com/storage/v1/BUCKET/OBJECT")
	}
	return "gcs::https://www.googleapis.com/storage/" + strings.Join(parts[2:], "/"), "", nil
}

// Shown returns an address without its secrets, for output and for the manifest. Passwords, keys and tokens in it
// become "redacted".
func Shown(address string) string {
	shown, _ := redact(address)
	return shown
}

// Conceal removes the secrets of an address from a text about it, such as an error.
func Conceal(text, address string) string {
	_, secrets := redact(address)
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, hidden)
		if plain, err := url.QueryUnescape(s); err == nil {
			text = strings.ReplaceAll(text, plain, hidden)
		}
	}
	return text
}

// hidden replaces secrets.
const hidden = "redacted"

// redact returns an address without its secrets, and the secrets.
func redact(address string) (shown string, secrets []string) {
	hide := func(secret string) string {
		if secret == "" || secret == hidden {
			return secret
		}
		secrets = append(secrets, secret)
		return hidden
	}
	head, rest, ok := strings.Cut(address, "://")
	if !ok {
		head, rest = "", address
	} else {
		head += "://"
	}
	place, query, hasQuery := strings.Cut(rest, "?")
	host, object, hasObject := strings.Cut(place, "/")
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		if user, password, both := strings.Cut(host[:at], ":"); both {
			host = user + ":" + hide(password) + host[at:]
		}
	}
	if hasObject {
		host += "/" + object
	}
	if !hasQuery {
		return head + host, secrets
	}
	arguments := strings.Split(query, "&")
	for i, a := range arguments {
		if name, value, _ := strings.Cut(a, "="); secretArguments[strings.ToLower(name)] {
			arguments[i] = name + "=" + hide(value)
		}
	}
	return head + host + "?" + strings.Join(arguments, "&"), secrets
}

// secretArguments are the query arguments that contain secrets.
var secretArguments = map[string]bool{
	"aws_access_key_id": true, "aws_access_key_secret": true, "aws_access_token": true, "sshkey": true,
	"x-amz-signature": true, "x-amz-security-token": true, "x-amz-credential": true,
	"x-goog-signature": true, "sig": true,
}

// forcedPackage expands the short form after a prefix that selects how to fetch: git::git@example.com:a/b.git.
func forcedPackage(forced, rest string) (pkg, subdir string, err error) {
	if scheme, _, ok := strings.Cut(rest, "://"); ok && isScheme(scheme) {
		return forced + "::" + rest, "", nil
	}
	pkg, subdir, err = normalPackage(rest)
	if err != nil {
		return forced + "::" + rest, "", nil //nolint:nilerr // it is in no short form
	}
	if _, bare, ok := strings.Cut(pkg, "::"); ok {
		pkg = bare
	}
	return forced + "::" + pkg, subdir, nil
}

func isScheme(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '+' && r != '-' && r != '.'
	}) < 0
}
