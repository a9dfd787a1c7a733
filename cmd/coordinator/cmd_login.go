package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/lang/diag"
)

const loginUsage = `
Usage: coordinator [global options] login [options] HOST

  Gets a token from a host, such as a registry, and stores it for later commands: in the credentials helper that the
  CLI configuration names, or in credentials.tfrc.json in the directory of the CLI configuration. The host's page is
  opened in the browser that the environment variable BROWSER names, or else in the system's browser.

Options:
  -input=false          Never ask for anything: the command then fails.
` + jsonHelp

func runLogin(ctx context.Context, a *app, args []string) int {
	input := true
	return a.withHost(args, loginUsage, &input, func(s *screen, host string) diag.List {
		if !a.InputAllowed(input) || !s.ForPeople() {
			return diag.Errors("Login is an interactive command", "Input is disabled. "+
				"Write the token into a credentials block of the CLI configuration, or into an environment variable "+
				"whose name begins with TF_TOKEN_.", nil)
		}
		login, err := a.Services.Login(ctx, host, rand.Text())
		if err != nil {
			return notLoggedIn(host, err)
		}
		token, diags := s.token(ctx, host, login)
		if err := login.Close(); err != nil {
			diags = diags.Append(diag.New(diag.Warning, "Failed to end the login server", err.Error()+".", nil))
		}
		if diags.HasErrors() {
			return diags
		}
		if err := a.Services.Store(ctx, host, token); err != nil {
			return diags.Append(diag.New(diag.Error, "Failed to save API token", fmt.Sprintf("The host has issued a "+
				"token, but it cannot be stored: %s.", err), nil))
		}
		s.Say(a.Ink(s.Flags).Success("Success!") + fmt.Sprintf(" Millipede has obtained and saved an API "+
			"token.\n\nIt will be sent with every request to %s.", host))
		return diags
	})
}

// notLoggedIn explains why a host issues no token.
func notLoggedIn(host string, err error) diag.List {
	var missing *services.NoServiceError
	var unreachable *services.UnreachableError
	switch {
	case errors.As(err, &missing):
		return diag.Errors("Host does not support OpenTofu tokens API",
			fmt.Sprintf("%s has no function for creating tokens.", host), nil)
	case errors.As(err, &unreachable):
		return diag.Errors("Service discovery failed for "+host, unreachable.Err.Error()+".", nil)
	default:
		return diag.Errors("Host does not support OpenTofu login",
			fmt.Sprintf("Logging in to %s is not possible: %s.", host, err), nil)
	}
}

// token asks the user for permission to request a token from a host, and requests it.
func (s *screen) token(ctx context.Context, host string, login *services.Login) (string, diag.List) {
	where := "in plain text in the following file:\n    " + s.App.CLI.CredentialsFile
	if h := s.App.CLI.Helper; h != nil {
		where = fmt.Sprintf("with the credentials helper %q", h.Name)
	}
	yes, diags := s.Confirm(fmt.Sprintf("Millipede will request an API token for %s.", host),
		fmt.Sprintf("The token will be stored %s\n\n  Do you want to proceed? Only 'yes' will be accepted to confirm.",
			where),
		true)
	if diags.HasErrors() {
		return "", diags
	}
	if !yes {
		return "", diag.Errors("Login cancelled", "The login was not confirmed.", nil)
	}
	if err := s.App.OpenBrowser(ctx, login.URL); err == nil {
		s.Say(fmt.Sprintf("A browser was opened. If it does not show this address, open it yourself:\n    %s\n",
			login.URL))
	} else {
		s.Say(fmt.Sprintf("Open this address in a browser:\n    %s\n", login.URL))
	}
	if login.ByHand {
		token, err := s.EnterSecret("Token for " + host)
		if token == "" {
			return "", diag.Errors("Failed to retrieve token", fmt.Sprintf("No token was entered (%v).", err), nil)
		}
		if err := login.Check(ctx, token); err != nil {
			return "", diag.Errors("Token is invalid", fmt.Sprintf("The host %s does not accept the token: %s.",
				host, err), nil)
		}
		return token, nil
	}
	s.Say("Waiting for the host to answer...")
	waiting, cancel := context.WithTimeout(ctx, loginTimeout)
	defer cancel()
	token, err := login.Token(waiting)
	switch {
	case ctx.Err() != nil:
		return "", diag.Errors("Action aborted", "The login was interrupted.", nil)
	case waiting.Err() != nil:
		return "", diag.Errors("Failed to obtain auth token", fmt.Sprintf("The host %s has not responded within %s, so "+
			"the login was canceled. Run the command again.", host, loginTimeout), nil)
	}
	if err != nil {
		return "", diag.Errors("Failed to obtain auth token", fmt.Sprintf("The host %s has not issued a token: %s.",
			host, err), nil)
	}
	return token, nil
}

// loginTimeout is how long a login waits until the user has allowed it on a page of the host.
const loginTimeout = 15 * time.Minute

const logoutUsage = `
Usage: coordinator [global options] logout [options] HOST

  Removes the token that login has stored for a host. The token stays valid until it is revoked at the host.

Options:
` + jsonHelp

func runLogout(ctx context.Context, a *app, args []string) int {
	return a.withHost(args, logoutUsage, nil, func(s *screen, host string) diag.List {
		storage, err := a.Services.Stored(host)
		switch {
		case err != nil:
			return diag.Errors("Failed to remove API token", err.Error()+".", nil)
		case storage == services.Nowhere:
			s.Say(fmt.Sprintf("No credentials for %s are stored.", host))
			return nil
		case storage == services.ByHelper:
			s.Say(fmt.Sprintf("Removing the stored credentials for %s from the credentials helper %q.", host,
				a.CLI.Helper.Name))
		default:
			s.Say(fmt.Sprintf("Removing the stored credentials for %s from this file:\n    %s", host,
				a.CLI.CredentialsFile))
		}
		if err := a.Services.Forget(ctx, host); err != nil {
			return diag.Errors("Failed to remove API token", err.Error()+".", nil)
		}
		s.Say("\n" + a.Ink(s.Flags).Success("Success!") + fmt.Sprintf(" Millipede has removed the stored "+
			"API token for %s.", host))
		return nil
	})
}

// withHost parses the arguments of a command about the credentials for one host, and calls fn. input is the
// flag -input; nil for none.
func (a *app) withHost(args []string, usage string, input *bool, fn func(s *screen, host string) diag.List) int {
	var sf viewFlags
	f := a.NewFlags()
	sf.RegisterJSON(f)
	if input != nil {
		f.BoolVar(input, "input", true, "")
	}
	s, code, ok := a.begin(f, usage, args, &sf)
	if !ok {
		return code
	}
	if f.NArg() != 1 {
		return s.WrongUsage("Unexpected argument", "The command takes one argument: the name of a host.")
	}
	a.LoadCLIConfig()
	host := f.Arg(0)
	storage, err := a.Services.Stored(host)
	if err != nil {
		return s.End(diag.Errors("Invalid hostname", fmt.Sprintf("%q cannot be used: %s.", host, err), nil))
	}
	if storage == services.ByHand {
		return s.End(diag.Errors(fmt.Sprintf("Credentials for %s are manually configured", host),
			"They are in a file of the CLI configuration that Millipede does not change. Revoke them, and remove that "+
				"block out.", nil))
	}
	return s.End(fn(s, host))
}
