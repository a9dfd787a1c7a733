package providers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apparentlymart/go-versions/versions"

	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// source is a place from which packages are installed.
type source interface {
	// available returns the versions for which the source has packages, for any platform, and the warnings of its
	// operator. The error is an absentError if the source does not have the provider.
	available(ctx context.Context, p addr.Provider) ([]versions.Version, []string, error)
	// locate finds one package. The error is a platformError if there is none of this version for the platform.
	locate(ctx context.Context, p addr.Provider, v versions.Version, platform string) (candidate, error)
	// where describes the source in a message.
	where(p addr.Provider) string
}

// absentError means that none of the sources has a provider.
type absentError struct {
	provider addr.Provider
	// registry is set if the provider's own registry does not have it.
	registry bool
	looked   []string
}

func (e *absentError) Error() string {
	if e.registry {
		return fmt.Sprintf("provider registry %s does not have a provider named %s", e.provider.Host, e.provider)
	}
	return fmt.Sprintf("provider %s was not found in any of the search locations", e.provider)
}

// platformError means that there is no package for a platform.
type platformError struct {
	provider addr.Provider
	version  versions.Version
	platform string
	mirror   string // its URL; empty for other sources
}

func (e *platformError) Error() string {
	if e.mirror != "" {
		return fmt.Sprintf("provider mirror %s does not have a package of %s %s for %s", e.mirror, e.provider,
			e.version, e.platform)
	}
	return fmt.Sprintf("provider %s %s is not available for %s", e.provider, e.version, e.platform)
}

// protocolError means that a provider supports none of the plugin protocols that Millipede supports. closest is the
// newest version that does; nil if there is none.
type protocolError struct {
	provider addr.Provider
	version  versions.Version
	closest  *versions.Version
}

func (e *protocolError) Error() string {
	return fmt.Sprintf("provider %s %s speaks none of the plugin protocols 5 and 6", e.provider, e.version)
}

// methodSource is the source of one method, which serves some providers only.
type methodSource struct {
	cliconfig.Method
	source
}

// sources are all sources, in the order in which they are used.
type sources []methodSource

// sources returns the sources that the options select.
func (o Options) sources() sources {
	methods := o.Methods
	if methods == nil {
		methods = o.CLI.MethodsOrImplied(o.Env,
			func(dir string) []addr.Provider { return providersIn(environ.Path(o.WorkDir, dir)) })
	}
	var out sources
	for _, m := range methods {
		retries := o.CLI.DownloadRetries
		if m.Retries != nil {
			retries = *m.Retries
		}
		var s source
		switch m.Kind {
		case cliconfig.FilesystemMirror:
			s = filesystemMirror{dir: environ.Path(o.WorkDir, m.Location), name: m.Location, mayMiss: m.MayMiss}
		case cliconfig.NetworkMirror:
			s = &networkMirror{services: o.Services, base: m.Location, retries: retries, trustAll: m.TrustAllHashes}
		case cliconfig.OCIMirror:
			s = &ociMirror{services: o.Services, method: m}
		default:
			s = &origin{services: o.Services, retries: retries, env: o.Env}
		}
		out = append(out, methodSource{m, s})
	}
	return out
}

// unclear returns errors if the CLI configuration does not determine where providers may come from, and that
// matters.
func (o Options) unclear() diag.List {
	if o.Methods != nil || len(o.CLI.Unclear) == 0 {
		return nil
	}
	var why strings.Builder
	for _, d := range o.CLI.Unclear {
		why.WriteString("\n  - " + d.Summary)
		if d.Subject != nil {
			fmt.Fprintf(&why, " (%s:%d)", d.Subject.Filename, d.Subject.Start.Line)
		}
		why.WriteString(": " + d.Detail)
	}
	return diag.Errors("Providers cannot be installed with this CLI configuration",
		"Because of mistakes in it, it is not clear where providers may come from, so nothing was asked for:"+
			why.String()+
			"\n\nCorrect the CLI configuration, and run the command again.", nil)
}

// Directories returns the methods that look for packages only in directories. A directory that does not exist has
// none.
func Directories(dirs []string) []cliconfig.Method {
	var out []cliconfig.Method
	for _, d := range dirs {
		out = append(out, cliconfig.Method{Kind: cliconfig.FilesystemMirror, Location: d, MayMiss: true})
	}
	return out
}

// available returns the versions of all sources. If one fails, the search fails, because its versions are unknown.
func (s sources) available(ctx context.Context, p addr.Provider) ([]versions.Version, []string, error) {
	if len(s) == 0 { // with an empty provider_installation block nothing has any version
		return nil, nil, nil
	}
	absent := &absentError{provider: p}
	var found []versions.Version
	var warnings []string
	for _, m := range s {
		if !m.Covers(p) {
			continue
		}
		absent.looked = append(absent.looked, m.where(p))
		versions, more, err := m.available(ctx, p)
		var none *absentError
		if errors.As(err, &none) {
			absent.registry = absent.registry || none.registry
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		found, warnings = append(found, versions...), append(warnings, more...)
	}
	if len(found) == 0 {
		return nil, warnings, absent
	}
	return found, warnings, nil
}

// locate returns the package of the first source that has it.
func (s sources) locate(ctx context.Context, p addr.Provider, v versions.Version, platform string) (candidate, error) {
	var absent error = &platformError{provider: p, version: v, platform: platform}
	for _, m := range s {
		if !m.Covers(p) {
			continue
		}
		c, err := m.locate(ctx, p, v, platform)
		var none *absentError
		var other *platformError
		switch {
		case err == nil:
			return c, nil
		case errors.As(err, &none):
		case !errors.As(err, &other):
			return candidate{}, err
		case other.mirror != "":
			absent = other
		}
	}
	return candidate{}, absent
}

// newest returns the newest of the allowed versions.
func newest(found []versions.Version, allowed versions.Set) (versions.Version, bool) {
	found = slices.DeleteFunc(slices.Clone(found), func(v versions.Version) bool { return !allowed.Has(v) })
	if len(found) == 0 {
		return versions.Unspecified, false
	}
	return versions.List(found).Newest(), true
}

// unauthorized explains a host's refusal, with advice for the user.
func unauthorized(ctx context.Context, s *services.Services, host string) error {
	if s.HasCredentials(ctx, host) {
		return fmt.Errorf("host %s rejected the given authentication credentials", host)
	}
	return fmt.Errorf("host %s requires authentication credentials (in a credentials block of the CLI configuration, "+
		"or in the environment variable TF_TOKEN_%s)", host,
		strings.ReplaceAll(strings.ReplaceAll(host, "-", "__"), ".", "_"))
}
