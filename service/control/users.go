package control

import (
	"net/http"
	"time"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
)

// user is the JSON form of a user.
type user struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Email     string    `json:"email,omitempty"`
	Admin     bool      `json:"admin,omitempty"`
	Issuer    string    `json:"issuer,omitempty"`
	CreatedAt time.Time `json:"created-at"`
	// Token is the first token of a new user.
	Token string `json:"token,omitempty"`
}

func formOf(u *record.User) user {
	return user{ID: u.ID, Name: u.Name, Email: u.Email, Admin: u.Admin, Issuer: u.Issuer, CreatedAt: u.CreatedAt}
}

func (s *server) users(_ *http.Request, a *service.Actor) (any, error) {
	all, err := s.Users(a)
	out := []user{}
	for _, u := range all {
		out = append(out, formOf(u))
	}
	return map[string]any{"users": out}, err
}

// createUser creates a user with a token, which is also a password and is not shown again.
func (s *server) createUser(r *http.Request, a *service.Actor) (any, error) {
	var q struct {
		Name  string `json:"name"`
		Email string `json:"email"`
		Admin bool   `json:"admin"`
	}
	if err := decode(r, &q); err != nil {
		return nil, err
	}
	u, err := s.CreateUser(a, q.Name, q.Email, q.Admin)
	if err != nil {
		return nil, err
	}
	out := formOf(u)
	out.Token, _, err = s.CreateToken(a, record.TokenUser, u.ID, "first login", time.Time{})
	return out, err
}

func (s *server) deleteUser(r *http.Request, a *service.Actor) (any, error) {
	return nil, s.DeleteUser(a, r.PathValue("user"))
}

func (s *server) setPassword(r *http.Request, a *service.Actor) (any, error) {
	var q struct {
		Password string `json:"password"`
	}
	if err := decode(r, &q); err != nil {
		return nil, err
	}
	return nil, s.SetPassword(a, r.PathValue("user"), q.Password)
}
