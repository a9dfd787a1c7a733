package modules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/apparentlymart/go-versions/versions"
	goversion "github.com/hashicorp/go-version"

	"github.com/millipede-iac/millipede/install/getter"
	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
)

// published installs modules from registries. The module registry protocol is documented by OpenTofu.
type published struct {
	network
	services *services.Services
	versions map[string][]string // responses of the registries, by package
}

// Fetch implements Source.
func (g *published) Fetch(ctx context.Context, r config.ModuleRequest, into string) (config.Installed, diag.List) {
	pkg := r.Source.Registry.Package
	all, err := g.available(ctx, r)
	if err != nil {
		return config.Installed{}, g.notListed(ctx, r, err)
	}
	version, diags := choose(r, all)
	if diags.HasErrors() {
		return config.Installed{}, diags
	}
	g.downloading(r, pkg.String(), version)
	loc, err := g.locate(ctx, r, version)
	if err != nil {
		return config.Installed{}, diags.Append(diag.New(diag.Error, "Error accessing remote module registry",
			fmt.Sprintf("Where version %s of %s is cannot be found out from %s: %s.", version, r.Source.Text, pkg.Host,
				err), &r.Call.Range))
	}
	subdir := r.Source.Registry.Subdir
	if loc.archive != "" {
		d := services.Download{URL: loc.archive, Retries: g.services.Retries(),
			Header: http.Header{"Accept": {"application/zip, application/x-tar; *;q=0.1"}}}
		if loc.credentials {
			d.Host = string(pkg.Host)
		}
		err = g.getter.Archive(ctx, d, func(file string) error { return getter.Unpack(file, g.path(into)) })
	} else {
		subdir = path.Join(loc.source.Subdir, subdir)
		err = g.getter.Get(ctx, loc.source.Package, g.path(into))
	}
	if err != nil {
		return config.Installed{}, diags.Append(notDownloaded(ctx, r, loc.String(), err))
	}
	at, more := g.installed(r, into, subdir, version)
	return at, diags.Append(more)
}

var (
	errUnknownModule = errors.New("the registry does not know the module")
	errNoModule      = errors.New("the answer holds no module")
)

// notListed reports why the versions of a module cannot be listed.
func (g *published) notListed(ctx context.Context, r config.ModuleRequest, err error) diag.List {
	host := r.Source.Registry.Package.Host
	switch {
	case errors.Is(err, errUnknownModule):
		return diag.Errors("Module not found", fmt.Sprintf("The module registry at %s has no module %s.", host,
			r.Source.Registry.Package.ForRegistryProtocol()), &r.Call.Range)
	case errors.Is(err, errNoModule):
		return diag.Errors("Invalid response from remote module registry", fmt.Sprintf("The registry at %s was asked "+
			"for the versions of the module %q, and its answer holds no module.", host, r.Call.Name), &r.Call.Range)
	case ctx.Err() != nil:
		return diag.Errors("Module installation was interrupted", fmt.Sprintf("Stopped while the versions of the "+
			"module %q were asked for.", r.Call.Name), &r.Call.Range)
	default:
		return diag.Errors("Error accessing remote module registry", fmt.Sprintf("The versions of the module %q "+
			"cannot be found out from %s: %s.", r.Call.Name, host, err), &r.Call.Range)
	}
}

// available returns the versions of a module in a registry.
func (g *published) available(ctx context.Context, r config.ModuleRequest) ([]string, error) {
	key := r.Source.Registry.Package.String()
	if known, ok := g.versions[key]; ok {
		return known, nil
	}
	var answer struct {
		Modules []struct {
			Versions []struct {
				Version string `json:"version"`
			} `json:"versions"`
		} `json:"modules"`
	}
	resp, err := g.ask(ctx, r, "versions")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, errUnknownModule
	default:
		return nil, errors.New(resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("the answer cannot be read: %w", err)
	}
	if len(answer.Modules) == 0 {
		return nil, errNoModule
	}
	var out []string
	for _, v := range answer.Modules[0].Versions { // the first is the requested one
		out = append(out, v.Version)
	}
	g.versions[key] = out
	return out, nil
}

// choose returns the newest version that the call accepts. A pre-release must be requested exactly.
func choose(r config.ModuleRequest, all []string) (string, diag.List) {
	var diags diag.List
	var latest, match *goversion.Version
	host := r.Source.Registry.Package.Host
	for _, text := range all {
		v, err := goversion.NewVersion(text)
		if err != nil {
			diags = diags.Append(diag.New(diag.Warning, "Invalid response from remote module registry",
				fmt.Sprintf("Among the versions of the module %q, the registry at %s lists %q, which is not a version. It was "+
					"left out.", r.Call.Name, host, text), &r.Call.Range))
			continue
		}
		if v.Prerelease() != "" && !exactly(r.Call.Version, v) {
			continue
		}
		if latest == nil || v.GreaterThan(latest) {
			latest = v
		}
		if r.Accepts(v.String()) && (match == nil || v.GreaterThan(match)) {
			match = v
		}
	}
	switch {
	case latest == nil:
		return "", diags.Append(diag.New(diag.Error, "Module has no versions", fmt.Sprintf("The module registry at "+
			"%s has no version of %s.", host, r.Source.Text), &r.Call.Range))
	case match == nil:
		return "", diags.Append(diag.New(diag.Error, "Unresolvable module version constraint",
			fmt.Sprintf("No version of %s meets the constraint %q. The newest is %s.", r.Source.Text, r.Call.Version,
				latest), &r.Call.Range))
	}
	return match.String(), diags
}

// exactly reports whether constraints request a pre-release by its exact version.
func exactly(constraints string, v *goversion.Version) bool {
	parsed, err := versions.ParseVersion(v.String())
	if err != nil || constraints == "" {
		return false
	}
	set, err := versions.MeetingConstraintsStringRuby(constraints)
	return err == nil && set.Has(parsed)
}

// location is the location of a module according to a registry: a package, or an archive that the registry serves.
type location struct {
	source      config.ModuleSource
	archive     string
	credentials bool // are sent with the request for the archive
}

func (l location) String() string {
	if l.archive != "" {
		return l.archive
	}
	return l.source.Text
}

// locate requests the location of a version.
func (g *published) locate(ctx context.Context, r config.ModuleRequest, version string) (location, error) {
	resp, err := g.ask(ctx, r, version+"/download")
	if err != nil {
		return location{}, err
	}
	defer resp.Body.Close()
	text := resp.Header.Get("X-Terraform-Get")
	switch resp.StatusCode {
	case http.StatusNoContent:
	case http.StatusOK:
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return location{}, err
		}
		var answer struct {
			Location    string `json:"location"`
			Credentials *bool  `json:"use_registry_credentials"`
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			return location{}, fmt.Errorf("the answer cannot be read: %w", err)
		}
		if answer.Credentials != nil {
			return direct(resp.Request.URL, answer.Location, *answer.Credentials)
		}
		if answer.Location != "" {
			text = answer.Location
		}
	case http.StatusNotFound:
		return location{}, fmt.Errorf("module %q version %q not found", r.Source.Registry.Package, version)
	default:
		return location{}, errors.New(resp.Status)
	}
	return indirect(resp.Request.URL, text)
}

// direct returns the location of an archive that the registry serves.
func direct(from *url.URL, text string, credentials bool) (location, error) {
	u, err := from.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Fragment != "" {
		return location{}, fmt.Errorf("registry returned invalid package URL %q", text)
	}
	return location{archive: u.String(), credentials: credentials}, nil
}

// indirect returns the location of a package to which the registry refers.
func indirect(from *url.URL, text string) (location, error) {
	if text == "" {
		return location{}, errors.New("registry did not return a location for this package")
	}
	if strings.HasPrefix(text, "/") || strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../") {
		u, err := from.Parse(text)
		if err != nil {
			return location{}, fmt.Errorf("registry returned invalid package location %q: %w", text, err)
		}
		text = u.String()
	}
	source, err := config.ParseModuleSource(text, false)
	if err == nil && source.Kind != config.RemoteSource {
		err = errors.New("it must be a direct remote package address")
	}
	if err != nil {
		return location{}, fmt.Errorf("registry returned invalid package location %q: %w", text, err)
	}
	return location{source: source}, nil
}

// ask sends a request to the registry of a module. The caller closes the body.
func (g *published) ask(ctx context.Context, r config.ModuleRequest, what string) (*http.Response, error) {
	pkg := r.Source.Registry.Package
	base, err := g.services.Find(ctx, string(pkg.Host), services.Modules)
	if err != nil {
		return nil, err
	}
	u, err := base.Parse(path.Join(pkg.Namespace, pkg.Name, pkg.TargetSystem, what))
	if err != nil {
		return nil, err
	}
	return g.services.Get(ctx, u, string(pkg.Host))
}
