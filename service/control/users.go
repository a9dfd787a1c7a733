package control

import (
	"net/http"
	"time"

	"github.com/millipede-iac/millipede/service/accounts"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
)

// User is the JSON form of a user.
type User struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Email     string    `json:"email,omitempty"`
	Admin     bool      `json:"admin,omitempty"`
	Disabled  bool      `json:"disabled,omitempty"`
	Teams     []string  `json:"teams,omitempty"` // as ORGANIZATION/TEAM
	Issuer    string    `json:"issuer,omitempty"`
	CreatedAt time.Time `json:"created-at"`
	// Token is the token of a new user, or of one that was reset.
	Token string `json:"token,omitempty"`
}

// newUser is the body of a request to create a user.
type newUser struct {
	Name  string `json:"name"`
	Email string `json:"email"`
	Admin bool   `json:"admin"`
}

// UserChange has the properties of a user to change; nil leaves one unchanged.
type UserChange struct {
	Email    *string `json:"email,omitempty"`
	Admin    *bool   `json:"admin,omitempty"`
	Disabled *bool   `json:"disabled,omitempty"`
}

// newPassword is the body of a request to set a password.
type newPassword struct {
	Password string `json:"password"`
}

func formOf(u *record.User) User {
	return User{ID: u.ID, Name: u.Name, Email: u.Email, Admin: u.Admin, Disabled: u.Disabled, Issuer: u.Issuer,
		CreatedAt: u.CreatedAt}
}

// me returns the user of the request.
func (s *server) me(_ *http.Request, a *rights.Actor) (any, error) {
	u := s.svc.Users.Me(a)
	return formOf(&u), nil
}

func (s *server) users(_ *http.Request, a *rights.Actor) (any, error) {
	all, err := s.svc.Users.List(a)
	out := []User{}
	for _, u := range all {
		form := formOf(u)
		theirs, err := s.svc.Teams.OfUser(a, u.ID)
		if err != nil {
			return nil, err
		}
		for _, t := range theirs {
			form.Teams = append(form.Teams, t.Organization+"/"+t.Name)
		}
		out = append(out, form)
	}
	return map[string]any{"users": out}, err
}

// createUser creates a user with a token, which is also a password and is not shown again.
func (s *server) createUser(r *http.Request, a *rights.Actor) (any, error) {
	var q newUser
	if err := decode(r, &q); err != nil {
		return nil, err
	}
	u, err := s.svc.Users.Create(a, q.Name, q.Email, q.Admin)
	if err != nil {
		return nil, err
	}
	out := formOf(u)
	out.Token, _, err = s.svc.Tokens.Create(a, record.TokenUser, u.ID, "first login", time.Time{})
	return out, err
}

func (s *server) changeUser(r *http.Request, a *rights.Actor) (any, error) {
	var q UserChange
	if err := decode(r, &q); err != nil {
		return nil, err
	}
	u, err := s.svc.Users.Change(a, r.PathValue("user"), accounts.UserChange(q))
	if err != nil {
		return nil, err
	}
	return formOf(u), nil
}

// resetUser revokes all tokens of a user, and returns a new one.
func (s *server) resetUser(r *http.Request, a *rights.Actor) (any, error) {
	token, err := s.svc.Users.Reset(a, r.PathValue("user"))
	return map[string]string{"token": token}, err
}

// changeTeams adds a user to a team, or removes the user from it.
func (s *server) changeTeams(remove bool) handler {
	return func(r *http.Request, a *rights.Actor) (any, error) {
		t, err := s.svc.Teams.Named(a, r.PathValue("org"), r.PathValue("team"))
		if err != nil {
			return nil, err
		}
		return nil, s.svc.Teams.ChangeMembers(a, t.ID, []string{r.PathValue("user")}, remove)
	}
}

func (s *server) deleteUser(r *http.Request, a *rights.Actor) (any, error) {
	return nil, s.svc.Users.Delete(a, r.PathValue("user"))
}

func (s *server) setPassword(r *http.Request, a *rights.Actor) (any, error) {
	var q newPassword
	if err := decode(r, &q); err != nil {
		return nil, err
	}
	return nil, s.svc.Users.SetPassword(a, r.PathValue("user"), q.Password)
}
