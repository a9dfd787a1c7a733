package tfe

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/service/accounts"
	"github.com/millipede-iac/millipede/service/record"
)

func membershipResource(m *accounts.MembershipView) resource {
	status := "active"
	if m.Person == nil {
		status = "invited"
	}
	u := userOf(m)
	return resource{ID: m.ID, Type: "organization-memberships", Attributes: map[string]any{
		"status": status, "email": u.Email, "created-at": moment(m.CreatedAt),
	}, Relationships: map[string]any{
		"organization": to("organizations", m.Organization), "user": to("users", u.ID), "teams": toAll("teams", m.Teams),
	}}
}

// userOf returns the user of a membership. Clients crash without one: an invitation gets one that does not exist yet,
// with the address that was invited.
func userOf(m *accounts.MembershipView) *record.User {
	if m.Person == nil {
		return &record.User{ID: accounts.InvitedUser(m.ID), Email: m.Email}
	}
	u := *m.Person
	u.Email = cmp.Or(u.Email, m.Email)
	return &u
}

// besideMembership returns the documents that can be included with a membership.
func (c *call) besideMembership(m *accounts.MembershipView) (out []resource) {
	if c.wants("user") {
		out = append(out, userResource(userOf(m)))
	}
	if c.wants("teams") {
		for _, id := range m.Teams {
			if t, err := c.svc.Teams.Find(c.actor, id); err == nil {
				out = append(out, teamResource(t))
			}
		}
	}
	if c.wants("organization") {
		if o, err := c.svc.Organizations.Find(c.actor, m.Organization); err == nil {
			out = append(out, c.organizationResource(o))
		}
	}
	return out
}

func (c *call) memberships() error {
	all, err := c.svc.Memberships.List(c.actor, c.arg("org"))
	if err != nil {
		return err
	}
	q := c.r.URL.Query()
	part, status := strings.ToLower(q.Get("q")), q.Get("filter[status]")
	emails := words(strings.ToLower(q.Get("filter[email]")))
	names := words(strings.ToLower(q.Get("filter[user][username]")))
	all = slices.DeleteFunc(all, func(m *accounts.MembershipView) bool {
		name, state := "", "invited"
		if m.Person != nil {
			name, state = strings.ToLower(m.Person.Name), "active"
		}
		email := strings.ToLower(userOf(m).Email)
		return part != "" && !strings.Contains(name, part) && !strings.Contains(email, part) ||
			status != "" && status != state || len(emails) > 0 && !slices.Contains(emails, email) ||
			len(names) > 0 && !slices.Contains(names, name)
	})
	return list(c, all, membershipResource, c.besideMembership)
}

func (c *call) answerMembership(status int, m *accounts.MembershipView, err error) error {
	if err != nil {
		return err
	}
	return c.answer(status, membershipResource(m), c.besideMembership(m))
}

func (c *call) membership() error {
	m, err := c.svc.Memberships.Find(c.actor, c.arg("membership"))
	return c.answerMembership(http.StatusOK, m, err)
}

func (c *call) invite() error {
	var a struct{ Email string }
	q, err := c.body(&a)
	if err != nil {
		return err
	}
	refs, err := q.relatedAll("teams")
	if err != nil {
		return err
	}
	var teams []string
	for _, r := range refs {
		teams = append(teams, r.ID)
	}
	m, err := c.svc.Memberships.Invite(c.actor, c.arg("org"), a.Email, teams)
	c.asked["user"] = true // clients compare the response with a later read that includes the user
	return c.answerMembership(http.StatusCreated, m, err)
}

func (c *call) expel() error {
	if err := c.svc.Memberships.Expel(c.actor, c.arg("membership")); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}
