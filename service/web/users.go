package web

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service/accounts"
	"github.com/millipede-iac/millipede/service/record"
)

// usersPage shows the users of the service to its administrators.
type usersPage struct {
	Rows []userRow
	// Teams are all teams, for joining one.
	Teams []*record.Team
	// Made is a token that was just created for the user NewName: it is shown only once.
	Made, NewName string
}

type userRow struct {
	*record.User
	Teams []*record.Team
	Me    bool
}

func (c *call) users() error { return c.showUsers("", "") }

func (c *call) showUsers(name, token string) error {
	all, err := c.svc.Users.List(c.actor)
	if err != nil {
		return err
	}
	p := usersPage{NewName: name, Made: token}
	for _, u := range all {
		row := userRow{User: u, Me: u.ID == c.actor.User.ID}
		if row.Teams, err = c.svc.Teams.OfUser(c.actor, u.ID); err != nil {
			return err
		}
		p.Rows = append(p.Rows, row)
	}
	organizations, err := c.svc.Organizations.List(c.actor)
	if err != nil {
		return err
	}
	for _, o := range organizations {
		theirs, err := c.svc.Teams.List(c.actor, o.Name)
		if err != nil {
			return err
		}
		p.Teams = append(p.Teams, theirs...)
	}
	return c.render(http.StatusOK, "users", page{Title: "Users", Section: "users"}, p)
}

// changeUsers creates a user, or performs the action of a form on one. A new token is shown only in this response.
func (c *call) changeUsers() error {
	f := c.r.PostForm
	id, name := f.Get("id"), strings.TrimSpace(f.Get("name"))
	yes, no := true, false
	change := func(u accounts.UserChange) error { _, err := c.svc.Users.Change(c.actor, id, u); return err }
	var err error
	var done string
	switch f.Get("action") {
	case "create":
		u, err := c.svc.Users.Create(c.actor, name, strings.TrimSpace(f.Get("email")), f.Get("admin") != "")
		if err != nil {
			return err
		}
		token, _, err := c.svc.Tokens.Create(c.actor, record.TokenUser, u.ID, "first login", time.Time{})
		if err != nil {
			return err
		}
		return c.showUsers(u.Name, token)
	case "reset":
		token, err := c.svc.Users.Reset(c.actor, id)
		if err != nil {
			return err
		}
		return c.showUsers(name, token)
	case "disable":
		err, done = change(accounts.UserChange{Disabled: &yes}), fmt.Sprintf("%s cannot log in any more.", name)
	case "enable":
		err, done = change(accounts.UserChange{Disabled: &no}), fmt.Sprintf("%s can log in again.", name)
	case "promote":
		err, done = change(accounts.UserChange{Admin: &yes}), fmt.Sprintf("%s is an administrator of the service.", name)
	case "demote":
		err, done = change(accounts.UserChange{Admin: &no}), fmt.Sprintf("%s is no administrator any more.", name)
	case "delete":
		err, done = c.svc.Users.Delete(c.actor, id), fmt.Sprintf("%s was deleted.", name)
	case "join":
		err = c.svc.Teams.ChangeMembers(c.actor, f.Get("team"), []string{id}, false)
		done = fmt.Sprintf("%s has joined the team.", name)
	case "leave":
		err = c.svc.Teams.ChangeMembers(c.actor, f.Get("team"), []string{id}, true)
		done = fmt.Sprintf("%s has left the team.", name)
	default:
		return &failure{http.StatusBadRequest, "The form has no valid action for users."}
	}
	if err != nil {
		return err
	}
	return c.back("/app/settings/users", done)
}
