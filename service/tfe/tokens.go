package tfe

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service/record"
)

func tokenResource(t *record.Token, token string) resource {
	return resource{ID: t.ID, Type: "authentication-tokens", Attributes: map[string]any{
		"created-at": moment(t.CreatedAt), "last-used-at": moment(t.LastUsed), "description": orNull(t.Description),
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
	t, err := c.svc.Tokens.Find(c.actor, c.arg("token"))
	if err != nil {
		return err
	}
	return c.ok(tokenResource(t, ""), c.besideToken(t)...)
}

// oneToken returns the token of a team or an organization.
func oneToken(kind string) handler {
	return func(c *call) error {
		all, err := c.svc.Tokens.List(c.actor, kind, c.arg("owner"))
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return notThere
		}
		return c.ok(tokenResource(all[0], ""))
	}
}

// teamTokens returns the tokens of an organization's teams.
func (c *call) teamTokens() error {
	teams, err := c.svc.Teams.List(c.actor, c.arg("org"))
	if err != nil {
		return err
	}
	var all []*record.Token
	for _, t := range teams {
		if part := c.r.FormValue("q"); part != "" && !strings.Contains(t.Name, part) {
			continue
		}
		theirs, err := c.svc.Tokens.List(c.actor, record.TokenTeam, t.ID)
		if err == nil { // the actor does not manage other tokens
			all = append(all, theirs...)
		}
	}
	if err := c.sortTokens(all); err != nil {
		return err
	}
	return list(c, all, func(t *record.Token) resource { return tokenResource(t, "") }, c.besideToken)
}

// besideToken returns the documents that can be included with a token.
func (c *call) besideToken(t *record.Token) (more []resource) {
	if c.wants("created_by") {
		if u, err := c.svc.Users.Find(c.actor, t.CreatedBy); err == nil {
			more = append(more, userResource(u))
		}
	}
	return more
}

// sortTokens sorts tokens as requested. Tokens without expiry come last.
func (c *call) sortTokens(all []*record.Token) error {
	by, down := strings.CutPrefix(c.r.FormValue("sort"), "-")
	var when func(*record.Token) time.Time
	switch by {
	case "":
		return nil
	case "created-at":
		when = func(t *record.Token) time.Time { return t.CreatedAt }
	case "last-used-at":
		when = func(t *record.Token) time.Time { return t.LastUsed }
	case "expired-at":
		when = func(t *record.Token) time.Time {
			if t.Expires.IsZero() {
				return time.Unix(1<<40, 0)
			}
			return t.Expires
		}
	default:
		return &failure{http.StatusBadRequest, "invalid parameter",
			"tokens are sorted by created-at, last-used-at or expired-at"}
	}
	slices.SortStableFunc(all, func(x, y *record.Token) int {
		if down {
			x, y = y, x
		}
		return when(x).Compare(when(y))
	})
	return nil
}

func (c *call) userTokens() error {
	all, err := c.svc.Tokens.List(c.actor, record.TokenUser, c.arg("owner"))
	if err != nil {
		return err
	}
	return list(c, all, func(t *record.Token) resource { return tokenResource(t, "") }, nil)
}

// newToken creates a token of a kind for the owner in the path.
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
		token, kept, err := c.svc.Tokens.Create(c.actor, kind, c.arg(arg), a.Description, expires)
		if err != nil {
			return err
		}
		return c.created(tokenResource(kept, token))
	}
}

// dropToken revokes the token of a team or an organization.
func dropToken(kind string) handler {
	return func(c *call) error {
		all, err := c.svc.Tokens.List(c.actor, kind, c.arg("owner"))
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return notThere
		}
		for _, t := range all {
			if err := c.svc.Tokens.Delete(c.actor, t.ID); err != nil {
				return err
			}
		}
		return c.empty(http.StatusNoContent)
	}
}

func (c *call) deleteToken() error {
	if err := c.svc.Tokens.Delete(c.actor, c.arg("token")); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}
