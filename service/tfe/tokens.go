package tfe

import (
	"net/http"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service/record"
)

func tokenResource(t *record.Token, token string) resource {
	return resource{ID: t.ID, Type: "authentication-tokens", Attributes: map[string]any{
		"created-at": moment(t.CreatedAt), "last-used-at": moment(t.LastUsed), "description": t.Description,
		"expired-at": moment(t.Expires),
		"token":      orNull(token),
	}, Relationships: map[string]any{"created-by": to("users", t.CreatedBy), "team": to("teams", teamOf(t))}}
}

func teamOf(t *record.Token) string {
	if t.Kind == record.TokenTeam {
		return t.Owner
	}
	return ""
}

func (c *call) token() error {
	t, err := c.Token(c.actor, c.arg("token"))
	if err != nil {
		return err
	}
	return c.ok(tokenResource(t, ""))
}

// oneToken answers with the one token of a team or an organization.
func oneToken(kind string) handler {
	return func(c *call) error {
		all, err := c.Tokens(c.actor, kind, c.arg("owner"))
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return notThere
		}
		return c.ok(tokenResource(all[0], ""))
	}
}

// teamTokens are the tokens of the teams of an organization.
func (c *call) teamTokens() error {
	teams, err := c.Teams(c.actor, c.arg("org"))
	if err != nil {
		return err
	}
	var all []*record.Token
	for _, t := range teams {
		if part := c.r.FormValue("q"); part != "" && !strings.Contains(t.Name, part) {
			continue
		}
		theirs, err := c.Tokens(c.actor, record.TokenTeam, t.ID)
		if err == nil { // otherwise it is not for the actor to manage
			all = append(all, theirs...)
		}
	}
	return list(c, all, func(t *record.Token) resource { return tokenResource(t, "") }, nil)
}

func (c *call) userTokens() error {
	all, err := c.Tokens(c.actor, record.TokenUser, c.arg("owner"))
	if err != nil {
		return err
	}
	return list(c, all, func(t *record.Token) resource { return tokenResource(t, "") }, nil)
}

// newToken makes a token of a kind for the owner in the path.
func newToken(kind, arg string) handler {
	return func(c *call) error {
		var a struct {
			Description string     `json:"description"`
			Expires     *time.Time `json:"expired-at"`
		}
		if _, err := c.body(&a); err != nil {
			return err
		}
		var expires time.Time
		set(&expires, a.Expires)
		token, kept, err := c.CreateToken(c.actor, kind, c.arg(arg), a.Description, expires)
		if err != nil {
			return err
		}
		return c.created(tokenResource(kept, token))
	}
}

// dropToken revokes the one token of a team or an organization.
func dropToken(kind string) handler {
	return func(c *call) error {
		all, err := c.Tokens(c.actor, kind, c.arg("owner"))
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return notThere
		}
		for _, t := range all {
			if err := c.DeleteToken(c.actor, t.ID); err != nil {
				return err
			}
		}
		return c.empty(http.StatusNoContent)
	}
}

func (c *call) deleteToken() error {
	if err := c.DeleteToken(c.actor, c.arg("token")); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}
