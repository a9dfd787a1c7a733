package providers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apparentlymart/go-versions/versions"

	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

func interrupted() diag.List {
	return diag.Errors("Provider installation was canceled", "The installation was interrupted.", nil)
}

func unresolved(p addr.Provider, why error) diag.List {
	return diag.Errors("Failed to resolve provider packages", fmt.Sprintf("Could not resolve provider %s: %s",
		p.Display(), why), nil)
}

// notQueried reports why the versions of a provider cannot be listed.
func (o Options) notQueried(p addr.Provider, err error) diag.List {
	var absent *absentError
	var missing *services.NoServiceError
	switch {
	case errors.As(err, &absent):
		var inferred diag.List
		if absent.registry && o.Inferred != nil {
			inferred = o.Inferred(p)
		}
		return append(inferred, diag.New(diag.Error, "Failed to query available provider packages", fmt.Sprintf(
			"Could not retrieve the list of available versions for provider %s: %s%s", p.Display(), err,
			absent.advice()), nil))
	case errors.As(err, &missing):
		return diag.Errors("Invalid provider registry host", noRegistry(p, missing), nil)
	default:
		return unresolved(p, err)
	}
}

// advice suggests what to do about a provider that no source has.
func (e *absentError) advice() string {
	if !e.registry {
		if len(e.looked) == 0 {
			return "\n\nNo installation method is configured for it."
		}
		return "\n\nIt was searched for in:\n  - " + strings.Join(e.looked, "\n  - ")
	}
	return fmt.Sprintf("\n\nEvery module says in required_providers which provider it means by a name; without that, "+
		"%s is meant. "+
		"To see which modules require it, run:\n    "+diag.Program()+" providers", e.provider.Display())
}

func noRegistry(p addr.Provider, e *services.NoServiceError) string {
	switch {
	case e.OtherVersion:
		return fmt.Sprintf("The host %q of the provider source address %q offers a provider registry of another "+
			"version than Millipede knows.", e.Host, p)
	case e.Host == "github.com":
		return fmt.Sprintf("The source address %q names a GitHub repository, and not a provider. The documentation of "+
			"the provider has its source address.", p)
	default:
		return fmt.Sprintf("The host %q of the provider source address %q does not offer a provider registry.", e.Host,
			p)
	}
}

// notLocated reports why there is no package of a version.
func (o Options) notLocated(p addr.Provider, v versions.Version, err error) diag.List {
	const incompatible = "Incompatible provider version"
	var platform *platformError
	var protocol *protocolError
	switch {
	case errors.As(err, &platform) && platform.mirror != "":
		return diag.Errors(incompatible, fmt.Sprintf(
			"The provider mirror at %s has no package of %s v%s for this platform, %s.\n\nThe provider may not be "+
				"made for it, or the mirror has only some of the packages that the registry %s has.",
			platform.mirror, p, v, o.Platform, p.Host), nil)
	case errors.As(err, &platform):
		return diag.Errors(incompatible, fmt.Sprintf(
			"There is no package of the provider %s v%s for this platform, %s.\n\nNot every provider is made for "+
				"every platform, and other versions of it may be made for other platforms.",
			p, v, o.Platform), nil)
	case errors.As(err, &protocol) && protocol.closest == nil:
		return diag.Errors(incompatible,
			fmt.Sprintf("No version of the provider %s speaks the plugin protocols 5 or 6.", p), nil)
	case errors.As(err, &protocol):
		return diag.Errors(incompatible, fmt.Sprintf(
			"The provider %s v%s speaks neither plugin protocol 5 nor 6. The newest version that does is %s; to "+
				"select it, constrain the version of the provider:\n  version = %q",
			p.Display(), v, protocol.closest, protocol.closest), nil)
	default:
		return diag.Errors("Failed to install provider", fmt.Sprintf("Error while installing %s v%s: %s",
			p.Display(), v, err), nil)
	}
}

// AllUnavailable reports whether there are errors, and all of them say that a provider is not installed.
func AllUnavailable(l diag.List) bool {
	return l.HasErrors() && !slices.ContainsFunc(l, func(d *diag.Diagnostic) bool {
		return d.Severity == diag.Error && d.Extra != ErrUnavailable //nolint:errorlint // an Extra is this error itself
	})
}
