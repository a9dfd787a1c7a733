package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/millipede-iac/millipede/cmd/internal/build"
	"github.com/millipede-iac/millipede/cmd/internal/hosting"
	"github.com/millipede-iac/millipede/install/lock"
)

const versionUsage = `
Usage: coordinator [global options] version [options]

  Shows the version of OpenTofu with the same behaviour, on the first line and in OpenTofu's form, because other
  programs read it there; then the version of Millipede, and the selected providers of the configuration in this
  directory.

Options:
  -json                 Show the versions as JSON.
` + textHelp

// versionForm is the JSON form. Drivers read terraform_version, so it is OpenTofu's.
type versionForm struct {
	Version    string            `json:"terraform_version"`
	Platform   string            `json:"platform"`
	Selections map[string]string `json:"provider_selections"`
	Millipede  string            `json:"millipede_version"`
}

func runVersion(_ context.Context, a *app, args []string) int {
	var sf viewFlags
	f := a.NewFlags()
	sf.RegisterText(f)
	f.BoolVar(&sf.JSON, "json", false, "")
	if code, done := a.Parse(f, versionUsage, args); done {
		return code
	}
	s, diags := a.newScreen(sf, nil) // whatever else the command line holds, as in "plan -version", does not matter
	// An invalid lock file is reported by the commands that need it.
	locks, _ := lock.Read(a.Estate.LockFile())
	form := versionForm{Version: engineVersion, Platform: hosting.Platform, Selections: map[string]string{},
		Millipede: build.Version()}
	for p, l := range locks.Providers {
		form.Selections[p.String()] = l.Version.String()
	}
	text, err := json.MarshalIndent(form, "", "  ")
	diags = diags.Append(s.WriteDocument(append(text, '\n'), err))
	s.Print(fmt.Sprintf("OpenTofu v%s\nMillipede v%s\non %s\n", engineVersion, build.Version(), hosting.Platform))
	for _, p := range locks.Sorted() {
		s.Print(fmt.Sprintf("+ provider %s v%s\n", p, locks.Providers[p].Version))
	}
	return s.End(diags)
}
