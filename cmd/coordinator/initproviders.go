package main

import (
	"github.com/millipede-iac/millipede/provider/install"
)

// installing shows what the installer does.
func (i *initialisation) installing(e install.Event) {
	name := e.Provider.Display()
	switch e.Kind {
	case install.Finding:
		if e.Constraints == "" {
			i.item("Finding latest version of %s...", name)
		} else {
			i.item("Finding %s versions matching %q...", name, e.Constraints)
		}
	case install.Reusing:
		i.item("Reusing previous version of %s from the dependency lock file", name)
	case install.Present:
		if e.Shared {
			i.item("Detected previously-installed %s v%s in the shared cache directory", name, e.Version)
		} else {
			i.item("Using previously-installed %s v%s", name, e.Version)
		}
	case install.Installing:
		where := ""
		if e.Shared {
			where = " to the shared cache directory"
		}
		i.item("Installing %s v%s%s...", name, e.Version, where)
	case install.Installed:
		i.installed(e)
	case install.Linked:
		i.item("Using %s v%s from the shared cache directory", name, e.Version)
	case install.Builtin:
		i.item("%s is built in to Millipede", e.Provider)
	case install.Waiting:
		i.item("Waiting for lock on the shared cache directory of %s v%s", name, e.Version)
	}
}

// installed shows that a package is there, and who vouches for it.
func (i *initialisation) installed(e install.Event) {
	auth := e.Authentication
	if auth != nil && auth.SigningSkipped {
		i.item("Installed %s v%s. Signature validation was skipped due to the registry not containing GPG keys for "+
			"this provider", e.Provider.Display(), e.Version)
		return
	}
	i.item("Installed %s v%s (%s)", e.Provider.Display(), e.Version, authenticated(auth))
	if auth != nil && auth.KeyID != "" {
		i.signed = true
		if auth.KeyExpired {
			i.item("The key that %s is signed with has expired", e.Provider.Display())
		}
	}
}

// authenticated says who vouches for a package.
func authenticated(auth *install.Authentication) string {
	text := auth.String()
	if auth != nil && auth.KeyID != "" {
		text += ", key ID " + auth.KeyID
	}
	return text
}
