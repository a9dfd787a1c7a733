package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/millipede-iac/millipede/service"
)

// Client sends requests to a service. Its user must be an administrator of the service, but for Me and SetPassword.
type Client struct {
	At    *url.URL // the address of the service
	Token string
	HTTP  *http.Client
}

// request sends a request with a JSON document, if body is not nil. The caller closes the body of the response, whose
// status is a success. A response of another status is an error with the service's reason.
func (c *Client) request(ctx context.Context, method string, body any, path ...string) (*http.Response, error) {
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
	r, err := http.NewRequestWithContext(ctx, method, c.At.JoinPath(Prefix, strings.Join(path, "/")).String(), document)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+c.Token)
	answer, err := c.HTTP.Do(r)
	if err != nil || answer.StatusCode < http.StatusBadRequest {
		return answer, err
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10)) // as much as can be read
	var d struct{ Error string }
	if json.Unmarshal(text, &d) != nil || d.Error == "" {
		d.Error = strings.TrimSpace(string(text))
	}
	return nil, errors.Join(fmt.Errorf("the service responded %s: %s", answer.Status, d.Error), answer.Body.Close())
}

// do sends a request, and decodes the document of the response into v; nil for a response without one.
func (c *Client) do(ctx context.Context, v any, method string, body any, path ...string) (err error) {
	answer, err := c.request(ctx, method, body, path...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if v == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(v)
}

// Backup requests a backup. The caller reads and closes it.
func (c *Client) Backup(ctx context.Context) (io.ReadCloser, error) {
	answer, err := c.request(ctx, http.MethodGet, nil, "backup")
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// Upgrade returns what an upgrade of the service depends on.
func (c *Client) Upgrade(ctx context.Context) (u service.Upgrade, err error) {
	return u, c.do(ctx, &u, http.MethodGet, nil, "upgrade")
}

// FinishUpgrade raises the stores of the service to the newest level of its version, and returns what it is then.
func (c *Client) FinishUpgrade(ctx context.Context) (u service.Upgrade, err error) {
	return u, c.do(ctx, &u, http.MethodPost, nil, "upgrade", "finish")
}

// Me returns the user of the token.
func (c *Client) Me(ctx context.Context) (u User, err error) {
	return u, c.do(ctx, &u, http.MethodGet, nil, "me")
}

// Users returns all users, with their teams.
func (c *Client) Users(ctx context.Context) ([]User, error) {
	var all struct{ Users []User }
	err := c.do(ctx, &all, http.MethodGet, nil, "users")
	return all.Users, err
}

// UserNamed returns the user with a name.
func (c *Client) UserNamed(ctx context.Context, name string) (User, error) {
	all, err := c.Users(ctx)
	if err != nil {
		return User{}, err
	}
	for _, u := range all {
		if u.Name == name {
			return u, nil
		}
	}
	return User{}, fmt.Errorf("the service has no user %q", name)
}

// CreateUser creates a user with the name, address and rights of u. The returned one has a token, which cannot be
// retrieved later.
func (c *Client) CreateUser(ctx context.Context, u User) (made User, err error) {
	return made, c.do(ctx, &made, http.MethodPost, newUser{u.Name, u.Email, u.Admin}, "users")
}

// ChangeUser changes a user.
func (c *Client) ChangeUser(ctx context.Context, id string, change UserChange) error {
	return c.do(ctx, nil, http.MethodPatch, change, "users", id)
}

// ResetUser revokes all tokens of a user and the password, and returns a new token, which cannot be retrieved later.
func (c *Client) ResetUser(ctx context.Context, id string) (token string, err error) {
	var made User
	err = c.do(ctx, &made, http.MethodPost, nil, "users", id, "reset")
	return made.Token, err
}

// SetPassword sets the password of a user. Everybody may set their own.
func (c *Client) SetPassword(ctx context.Context, id, password string) error {
	return c.do(ctx, nil, http.MethodPut, newPassword{password}, "users", id, "password")
}

// Join makes a user a member of a team, which is written ORGANIZATION/TEAM.
func (c *Client) Join(ctx context.Context, id, team string) error {
	return c.team(ctx, http.MethodPut, id, team)
}

// Leave ends the membership of a user in a team, which is written ORGANIZATION/TEAM.
func (c *Client) Leave(ctx context.Context, id, team string) error {
	return c.team(ctx, http.MethodDelete, id, team)
}

func (c *Client) team(ctx context.Context, method, id, team string) error {
	organization, name, ok := strings.Cut(team, "/")
	if !ok {
		return fmt.Errorf("%q is no team: write ORGANIZATION/TEAM", team)
	}
	return c.do(ctx, nil, method, nil, "users", id, "teams", organization, name)
}

// DeleteUser deletes a user with all tokens and memberships.
func (c *Client) DeleteUser(ctx context.Context, id string) error {
	return c.do(ctx, nil, http.MethodDelete, nil, "users", id)
}
