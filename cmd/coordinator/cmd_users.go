package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"

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

// serviceUser is a user as the service describes it.
type serviceUser struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Email    string   `json:"email"`
	Admin    bool     `json:"admin"`
	Disabled bool     `json:"disabled"`
	Issuer   string   `json:"issuer"`
	Teams    []string `json:"teams"`
	Token    string   `json:"token"`
}

// operator is a connection to the operators' functions of a service.
type operator struct {
	base  *url.URL
	token string
}

// operator connects to the service at an address, with the token of its host.
func (a *app) operator(ctx context.Context, address string) (*operator, error) {
	at, err := url.Parse(address)
	if err != nil || at.Scheme != "https" || at.Host == "" {
		return nil, errors.New("name the service with -address=https://HOST")
	}
	token, err := a.Services.Token(ctx, at.Host)
	return &operator{at, token}, err
}

// request sends a request with a JSON document, if body is not nil. The caller closes the body of the response, whose
// status is a success.
func (o *operator) request(ctx context.Context, method string, body any, path ...string) (*http.Response, error) {
	var document io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		document = bytes.NewReader(text)
	}
	for i := range path {
		path[i] = url.PathEscape(path[i])
	}
	r, err := http.NewRequestWithContext(ctx, method,
		o.base.JoinPath(control.Prefix, strings.Join(path, "/")).String(), document)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+o.token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil || answer.StatusCode < http.StatusBadRequest {
		return answer, err
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10)) // as much as can be read
	return nil, errors.Join(fmt.Errorf("the service responded %s: %s", answer.Status, reasonIn(text)), answer.Body.Close())
}

// reasonIn returns the reason in a response: its error, or the whole text.
func reasonIn(text []byte) string {
	var d struct{ Error string }
	if json.Unmarshal(text, &d) == nil && d.Error != "" {
		return d.Error
	}
	return strings.TrimSpace(string(text))
}

// do sends a request, and decodes the document of the response into v; nil for a response without one.
func (o *operator) do(ctx context.Context, v any, method string, body any, path ...string) (err error) {
	answer, err := o.request(ctx, method, body, path...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if v == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(v)
}

// users returns all users.
func (o *operator) users(ctx context.Context) ([]serviceUser, error) {
	var all struct{ Users []serviceUser }
	err := o.do(ctx, &all, http.MethodGet, nil, "users")
	return all.Users, err
}

// find returns the user with a name.
func (o *operator) find(ctx context.Context, name string) (*serviceUser, error) {
	all, err := o.users(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}
	}
	return nil, fmt.Errorf("the service has no user %q", name)
}

// teams changes the teams of a user.
func (o *operator) teams(ctx context.Context, user, method string, teams []string) error {
	for _, team := range teams {
		organization, name, _ := strings.Cut(team, "/") // withUser has checked it
		if err := o.do(ctx, nil, method, nil, "users", user, "teams", organization, name); err != nil {
			return err
		}
	}
	return nil
}

// userOptions are the options that describe a user; set has the names of those that were given.
type userOptions struct {
	email       string
	admin       bool
	join, leave []string
	set         map[string]bool
}

// withUser runs a command about one user. options registers its options; nil for none.
func (a *app) withUser(ctx context.Context, usage, problem string, args []string, options []string,
	fn func(o *operator, name string, u userOptions) error) int {
	f := a.NewFlags()
	address := f.String("address", "", "")
	u := userOptions{set: map[string]bool{}}
	for _, name := range options {
		switch name {
		case "email":
			f.StringVar(&u.email, name, "", "")
		case "admin":
			f.BoolVar(&u.admin, name, false, "")
		case "join":
			listFlag(f, name, &u.join)
		case "leave":
			listFlag(f, name, &u.leave)
		}
	}
	if code, done := a.Parse(f, usage, args); done {
		return code
	}
	f.Visit(func(given *flag.Flag) { u.set[given.Name] = true })
	if f.NArg() != 1 {
		return a.operated(problem, errors.New("the command takes the name of one user"))
	}
	for _, team := range slices.Concat(u.join, u.leave) {
		if !strings.Contains(team, "/") {
			return a.operated(problem, fmt.Errorf("%q is no team: write ORGANIZATION/TEAM", team))
		}
	}
	o, err := a.operator(ctx, *address)
	if err == nil {
		err = fn(o, f.Arg(0), u)
	}
	return a.operated(problem, err)
}

func runUsersList(ctx context.Context, a *app, args []string) int {
	f := a.NewFlags()
	address := f.String("address", "", "")
	if code, done := a.Parse(f, usersListUsage, args); done {
		return code
	}
	o, err := a.operator(ctx, *address)
	var all []serviceUser
	if err == nil {
		all, err = o.users(ctx)
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
		func(o *operator, name string, u userOptions) error {
			var made serviceUser
			asked := map[string]any{"name": name, "email": u.email, "admin": u.admin}
			if err := o.do(ctx, &made, http.MethodPost, asked, "users"); err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "The user %s was created. The token, which is shown only once, is also a password to log in "+
				"with:\n  %s\n", name, made.Token)
			return o.teams(ctx, made.ID, http.MethodPut, u.join)
		})
}

func runUsersChange(ctx context.Context, a *app, args []string) int {
	options := []string{"email", "admin", "join", "leave"}
	return a.withUser(ctx, usersChangeUsage, "Failed to change the user", args, options,
		func(o *operator, name string, u userOptions) error {
			found, err := o.find(ctx, name)
			if err != nil {
				return err
			}
			change := map[string]any{}
			if u.set["email"] {
				change["email"] = u.email
			}
			if u.set["admin"] {
				change["admin"] = u.admin
			}
			if len(change) > 0 {
				if err := o.do(ctx, nil, http.MethodPatch, change, "users", found.ID); err != nil {
					return err
				}
			}
			if err := o.teams(ctx, found.ID, http.MethodPut, u.join); err != nil {
				return err
			}
			if err := o.teams(ctx, found.ID, http.MethodDelete, u.leave); err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "The user %s was changed.\n", name)
			return nil
		})
}

// disabling disables a user, or enables the user again.
func disabling(disabled bool) func(context.Context, *app, []string) int {
	usage, done := usersEnableUsage, "enabled"
	if disabled {
		usage, done = usersDisableUsage, "disabled"
	}
	return func(ctx context.Context, a *app, args []string) int {
		return a.withUser(ctx, usage, "Failed to change the user", args, nil,
			func(o *operator, name string, _ userOptions) error {
				u, err := o.find(ctx, name)
				if err != nil {
					return err
				}
				err = o.do(ctx, nil, http.MethodPatch, map[string]bool{"disabled": disabled}, "users", u.ID)
				if err == nil {
					fmt.Fprintf(a.Stdout, "The user %s is %s.\n", name, done)
				}
				return err
			})
	}
}

func runUsersReset(ctx context.Context, a *app, args []string) int {
	return a.withUser(ctx, usersResetUsage, "Failed to reset the user", args, nil,
		func(o *operator, name string, _ userOptions) error {
			u, err := o.find(ctx, name)
			if err != nil {
				return err
			}
			var made serviceUser
			if err := o.do(ctx, &made, http.MethodPost, nil, "users", u.ID, "reset"); err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "All tokens of %s were revoked. The new one, which is shown only once, is also a password to "+
				"log in with:\n  %s\n", name, made.Token)
			return nil
		})
}

func runUsersPassword(ctx context.Context, a *app, args []string) int {
	return a.withUser(ctx, usersPasswordUsage, "Failed to set the password", args, nil,
		func(o *operator, name string, _ userOptions) error {
			id, err := o.passwordOf(ctx, name)
			if err != nil {
				return err
			}
			password, err := a.readPassword("New password for " + name + ": ")
			if err != nil {
				return err
			}
			err = o.do(ctx, nil, http.MethodPut, map[string]string{"password": password}, "users", id, "password")
			if err == nil {
				fmt.Fprintf(a.Stdout, "The password of %s was set.\n", name)
			}
			return err
		})
}

// passwordOf returns the ID of a user. People who are no administrators learn only their own.
func (o *operator) passwordOf(ctx context.Context, name string) (string, error) {
	var me serviceUser
	if err := o.do(ctx, &me, http.MethodGet, nil, "me"); err != nil {
		return "", err
	}
	if me.Name == name {
		return me.ID, nil
	}
	u, err := o.find(ctx, name)
	if err != nil {
		return "", err
	}
	return u.ID, nil
}

// readPassword reads a line without echo, if standard input is a terminal.
func (a *app) readPassword(prompt string) (string, error) {
	if file, ok := a.Stdin.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		fmt.Fprint(a.Stdout, prompt)
		text, err := term.ReadPassword(int(file.Fd()))
		fmt.Fprintln(a.Stdout)
		return string(text), err
	}
	line, err := a.ReadLine()
	if line = strings.TrimRight(line, "\r\n"); line != "" {
		return line, nil
	}
	return "", errors.Join(errors.New("no password was entered"), err)
}

func runUsersDelete(ctx context.Context, a *app, args []string) int {
	return a.withUser(ctx, usersDeleteUsage, "Failed to delete the user", args, nil,
		func(o *operator, name string, _ userOptions) error {
			u, err := o.find(ctx, name)
			if err == nil {
				err = o.do(ctx, nil, http.MethodDelete, nil, "users", u.ID)
			}
			if err == nil {
				fmt.Fprintf(a.Stdout, "The user %s was deleted.\n", name)
			}
			return err
		})
}
