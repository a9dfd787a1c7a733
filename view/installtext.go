package view

import (
	"fmt"

	"github.com/millipede-iac/millipede/install/providers"
)

// InstallText describes a step of the installer, a sentence for each line.
func InstallText(e providers.Event) []string {
	one := func(format string, args ...any) []string { return []string{fmt.Sprintf(format, args...)} }
	name := e.Provider.Display()
	switch e.Kind {
	case providers.Finding:
		if e.Constraints == "" {
			return one("Finding latest version of %s...", name)
		}
		return one("Finding %s versions matching %q...", name, e.Constraints)
	case providers.Reusing:
		return one("Reusing previous version of %s from the dependency lock file", name)
	case providers.Present:
		if e.Shared {
			return one("Detected previously-installed %s v%s in the shared cache directory", name, e.Version)
		}
		return one("Using previously-installed %s v%s", name, e.Version)
	case providers.Installing:
		where := ""
		if e.Shared {
			where = " to the shared cache directory"
		}
		return one("Installing %s v%s%s...", name, e.Version, where)
	case providers.Installed:
		return installedText(e)
	case providers.Linked:
		return one("Using %s v%s from the shared cache directory", name, e.Version)
	case providers.Builtin:
		return one("%s is built in to Millipede", e.Provider)
	case providers.Waiting:
		return one("Waiting for lock on the shared cache directory of %s v%s", name, e.Version)
	}
	return nil
}

// installedText says that a package is installed, and how it was authenticated.
func installedText(e providers.Event) []string {
	auth := e.Authentication
	if auth != nil && auth.SigningSkipped {
		return []string{fmt.Sprintf("Installed %s v%s. Signature validation was skipped due to the registry not "+
			"containing GPG keys for this provider", e.Provider.Display(), e.Version)}
	}
	out := []string{fmt.Sprintf("Installed %s v%s (%s)", e.Provider.Display(), e.Version, authenticated(auth))}
	if auth != nil && auth.KeyID != "" && auth.KeyExpired {
		out = append(out, fmt.Sprintf("The key that %s is signed with has expired", e.Provider.Display()))
	}
	return out
}

// authenticated describes how a package was authenticated.
func authenticated(auth *providers.Authentication) string {
	text := auth.String()
	if auth != nil && auth.KeyID != "" {
		text += ", key ID " + auth.KeyID
	}
	return text
}

// LockingText describes a package whose checksums are locked.
func LockingText(e providers.Event) []string {
	name := fmt.Sprintf("%s %s for %s", e.Provider.Display(), e.Version, e.Platform)
	switch e.Kind {
	case providers.Installing:
		return []string{"Fetching " + name + "..."}
	case providers.Installed:
		return []string{"Retrieved " + name + " (" + authenticated(e.Authentication) + ")"}
	}
	return nil
}

// MirroringText describes a package that is copied.
func MirroringText(e providers.Event) []string {
	name := fmt.Sprintf("%s v%s package for %s", e.Provider.Display(), e.Version, e.Platform)
	switch e.Kind {
	case providers.Installing:
		return []string{"Downloading " + name + "..."}
	case providers.Installed:
		return []string{"Mirrored " + name + " (" + e.Authentication.String() + ")"}
	}
	return nil
}
