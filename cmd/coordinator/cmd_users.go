package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/millipede-iac/millipede/service/control"
)

const usersUsage = `
Usage: coordinator [global options] users <subcommand> -address=URL [options]

  Manages the users of a service. The person who runs the command must be an administrator of the service, and have
  logged in there or have the token in TF_TOKEN_host.

Subcommands:
  list       List the users, with their teams
  create     Create a user, and show the first token
  change     Change a user's address, teams and rights
  disable    Refuse logins and tokens of a user
  enable     Accept logins and tokens of a disabled user again
  reset      Revoke all tokens of a user and the password, and show a new token
  password   Set the password of a user, or one's own
  delete     Delete a user
`

const usersAddress = `
Options:
  -address=URL          The address of the service: https://HOST.
`

const usersListUsage = `
Usage: coordinator [global options] users list -address=URL

  Lists the users of a service, with their teams.
` + usersAddress

const usersCreateUsage = `
Usage: coordinator [global options] users create -address=URL [options] NAME

  Creates a user, and shows the first token. It is shown only once, and is also a password to log in with. Invitations
  for the address become memberships.
` + usersAddress + `  -email=ADDRESS        The address of the user.
  -admin                The user is an administrator of the service.
  -join=ORG/TEAM        A team that the user becomes a member of. May be given several times.
`

const usersChangeUsage = `
Usage: coordinator [global options] users change -address=URL [options] NAME

  Changes the properties that are given as options.
` + usersAddress + `  -email=ADDRESS        The address of the user.
  -admin, -admin=false  Whether the user is an administrator of the service.
  -join=ORG/TEAM        A team that the user becomes a member of. May be given several times.
  -leave=ORG/TEAM       A team that the user leaves. May be given several times.
`

const usersDisableUsage = `
Usage: coordinator [global options] users disable -address=URL NAME

  Refuses logins and all tokens of a user, until the user is enabled again. Memberships stay, and what the user has
  begun continues. The last administrator of the service cannot be disabled.
` + usersAddress

const usersEnableUsage = `
Usage: coordinator [global options] users enable -address=URL NAME

  Accepts logins and tokens of a disabled user again.
` + usersAddress

const usersResetUsage = `
Usage: coordinator [global options] users reset -address=URL NAME

  Revokes all tokens and sessions of a user, removes the password, and shows a new token. It is shown only once, and is
  also a password to log in with.
` + usersAddress

const usersPasswordUsage = `
Usage: coordinator [global options] users password -address=URL NAME

  Sets a password of 12 to 72 bytes, which is read from standard input. Users may set their own.
` + usersAddress

const usersDeleteUsage = `
Usage: coordinator [global options] users delete -address=URL NAME

  Deletes a user with all tokens and memberships. The last administrator of the service, and the last owner of an
  organization, cannot be deleted.
` + usersAddress

// userOptions are the options that describe a user; set has the names of those that were given.
type userOptions struct {
	email       string
	admin       bool
	join, leave []string
	set         map[string]bool
}

// withUser runs a command about one user. options are the names of its options; nil for none.
func (a *app) withUser(ctx context.Context, usage, problem string, args []string, options []string,
	fn func(c *control.Client, name string, o userOptions) error) int {
	f := a.NewFlags()
	address := f.String("address", "", "")
	o := userOptions{set: map[string]bool{}}
	for _, name := range options {
		switch name {
		case "email":
			f.StringVar(&o.email, name, "", "")
		case "admin":
			f.BoolVar(&o.admin, name, false, "")
		case "join":
			listFlag(f, name, &o.join)
		case "leave":
			listFlag(f, name, &o.leave)
		}
	}
	if code, done := a.Parse(f, usage, args); done {
		return code
	}
	f.Visit(func(given *flag.Flag) { o.set[given.Name] = true })
	if f.NArg() != 1 {
		return a.operated(problem, errors.New("the command takes the name of one user"))
	}
	for _, team := range slices.Concat(o.join, o.leave) { // before anything is changed
		if !strings.Contains(team, "/") {
			return a.operated(problem, fmt.Errorf("%q is no team: write ORGANIZATION/TEAM", team))
		}
	}
	c, err := a.controls(ctx, *address)
	if err == nil {
		err = fn(c, f.Arg(0), o)
	}
	return a.operated(problem, err)
}

// withNamed is withUser for a command about an existing user, without further options. It prints a text with the name
// if fn succeeds.
func (a *app) withNamed(ctx context.Context, usage, problem, text string, args []string,
	fn func(c *control.Client, id string) error) int {
	return a.withUser(ctx, usage, problem, args, nil, func(c *control.Client, name string, _ userOptions) error {
		u, err := c.UserNamed(ctx, name)
		if err == nil {
			err = fn(c, u.ID)
		}
		if err == nil {
			fmt.Fprintf(a.Stdout, text, name)
		}
		return err
	})
}

func runUsersList(ctx context.Context, a *app, args []string) int {
	f := a.NewFlags()
	address := f.String("address", "", "")
	if code, done := a.Parse(f, usersListUsage, args); done {
		return code
	}
	c, err := a.controls(ctx, *address)
	var all []control.User
	if err == nil {
		all, err = c.Users(ctx)
	}
	if err != nil {
		return a.operated("Failed to list the users", err)
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tADDRESS\tSTATUS\tTEAMS")
	for _, u := range all {
		status := "user"
		if u.Admin {
			status = "administrator"
		}
		if u.Disabled {
			status += ", disabled"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", u.Name, u.Email, status, strings.Join(u.Teams, ", "))
	}
	return a.operated("Failed to list the users", w.Flush())
}

func runUsersCreate(ctx context.Context, a *app, args []string) int {
	return a.withUser(ctx, usersCreateUsage, "Failed to create the user", args, []string{"email", "admin", "join"},
		func(c *control.Client, name string, o userOptions) error {
			made, err := c.CreateUser(ctx, control.User{Name: name, Email: o.email, Admin: o.admin})
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "The user %s was created. The token, which is shown only once, is also a password to log in "+
				"with:\n  %s\n", name, made.Token)
			for _, team := range o.join {
				if err := c.Join(ctx, made.ID, team); err != nil {
					return err
				}
			}
			return nil
		})
}

func runUsersChange(ctx context.Context, a *app, args []string) int {
	options := []string{"email", "admin", "join", "leave"}
	return a.withUser(ctx, usersChangeUsage, "Failed to change the user", args, options,
		func(c *control.Client, name string, o userOptions) error {
			u, err := c.UserNamed(ctx, name)
			if err != nil {
				return err
			}
			var change control.UserChange
			if o.set["email"] {
				change.Email = &o.email
			}
			if o.set["admin"] {
				change.Admin = &o.admin
			}
			if change != (control.UserChange{}) {
				if err := c.ChangeUser(ctx, u.ID, change); err != nil {
					return err
				}
			}
			for _, team := range o.join {
				if err := c.Join(ctx, u.ID, team); err != nil {
					return err
				}
			}
			for _, team := range o.leave {
				if err := c.Leave(ctx, u.ID, team); err != nil {
					return err
				}
			}
			fmt.Fprintf(a.Stdout, "The user %s was changed.\n", name)
			return nil
		})
}

// disabling disables a user, or enables the user again.
func disabling(disabled bool) func(context.Context, *app, []string) int {
	usage, text := usersEnableUsage, "The user %s is enabled.\n"
	if disabled {
		usage, text = usersDisableUsage, "The user %s is disabled.\n"
	}
	return func(ctx context.Context, a *app, args []string) int {
		return a.withNamed(ctx, usage, "Failed to change the user", text, args, func(c *control.Client, id string) error {
			return c.ChangeUser(ctx, id, control.UserChange{Disabled: &disabled})
		})
	}
}

func runUsersReset(ctx context.Context, a *app, args []string) int {
	token := ""
	const text = "All tokens of %s were revoked. The new one, which is shown only once, is also a password to log in " +
		"with:\n"
	code := a.withNamed(ctx, usersResetUsage, "Failed to reset the user", text, args,
		func(c *control.Client, id string) (err error) {
			token, err = c.ResetUser(ctx, id)
			return err
		})
	if token != "" {
		fmt.Fprintf(a.Stdout, "  %s\n", token)
	}
	return code
}

func runUsersPassword(ctx context.Context, a *app, args []string) int {
	return a.withUser(ctx, usersPasswordUsage, "Failed to set the password", args, nil,
		func(c *control.Client, name string, _ userOptions) error {
			u, err := c.Me(ctx) // people who are no administrators learn only about themselves
			if err == nil && u.Name != name {
				u, err = c.UserNamed(ctx, name)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "New password for %s: ", name)
			password, err := a.ReadSecret()
			fmt.Fprintln(a.Stdout)
			if password == "" {
				return errors.Join(errors.New("no password was entered"), err)
			}
			if err := c.SetPassword(ctx, u.ID, password); err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "The password of %s was set.\n", name)
			return nil
		})
}

func runUsersDelete(ctx context.Context, a *app, args []string) int {
	return a.withNamed(ctx, usersDeleteUsage, "Failed to delete the user", "The user %s was deleted.\n", args,
		func(c *control.Client, id string) error { return c.DeleteUser(ctx, id) })
}
