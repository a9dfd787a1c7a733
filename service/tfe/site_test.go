package tfe_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tfe"
)

// site is a service whose API is served over HTTP.
type site struct {
	*servicetest.Harness
	t      *testing.T
	server *httptest.Server
	client *client.Client // with the token of the administrator
	ctx    context.Context
}

func newSite(t *testing.T, change ...func(*service.Options)) *site {
	t.Helper()
	h := servicetest.New(t, change...)
	s := &site{Harness: h, t: t, ctx: t.Context()}
	s.server = httptest.NewServer(tfe.Handler(tfe.Options{Service: h.Service, Poll: 50 * time.Millisecond}))
	t.Cleanup(s.server.Close)
	s.client = s.as(h.Token)
	return s
}

// as returns a client with a token.
func (s *site) as(token string) *client.Client {
	s.t.Helper()
	c, err := client.NewClient(&client.Config{Address: s.server.URL, Token: token, HTTPClient: s.server.Client()})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// teamToken creates a team with a role on a workspace or a project, and returns a token of the team.
func (s *site) teamToken(on, role string) string {
	s.t.Helper()
	team := must(s.t, of(s.Teams.Create(s.Admin, record.Team{Organization: "acme", Name: "devs"})))
	must(s.t, of(s.TeamAccess.Create(s.Admin, record.Access{Team: team.ID, On: on, Role: role})))
	token, _, err := s.Tokens.Create(s.Admin, record.TokenTeam, team.ID, "", time.Time{})
	if err != nil {
		s.t.Fatal(err)
	}
	return token
}

// answer is the result of a call.
type answer[T any] struct {
	v   T
	err error
}

func of[T any](v T, err error) answer[T] { return answer[T]{v, err} }

// must returns the value of a call that had no error.
func must[T any](t *testing.T, a answer[T]) T {
	t.Helper()
	if a.err != nil {
		t.Fatal(a.err)
	}
	return a.v
}

// send sends a request without go-tfe, and returns the response with its body. authorization may be empty.
func (s *site) send(method, address, authorization, body string) (*http.Response, string) {
	s.t.Helper()
	r := must(s.t, of(http.NewRequestWithContext(s.ctx, method, address, strings.NewReader(body))))
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	reply := must(s.t, of(s.server.Client().Do(r)))
	return reply, readAll(s.t, reply)
}

// bearer returns the header for a token; empty without one.
func bearer(token string) string {
	if token == "" {
		return ""
	}
	return "Bearer " + token
}

// get requests a path, and returns the status, the headers and the body of the response.
func (s *site) get(path, token string) (int, http.Header, string) {
	s.t.Helper()
	reply, text := s.send(http.MethodGet, s.server.URL+path, bearer(token), "")
	return reply.StatusCode, reply.Header, text
}

// do sends a request without a body to a path, and returns the status and the body of the response.
func (s *site) do(method, path, token string) (int, string) {
	s.t.Helper()
	reply, text := s.send(method, s.server.URL+path, bearer(token), "")
	return reply.StatusCode, text
}

// ask sends a document to a path of the API as the administrator, and returns the status and the body of the response.
func (s *site) ask(method, path, body string) (int, string) {
	s.t.Helper()
	// The case of the scheme does not matter.
	reply, text := s.send(method, s.server.URL+"/api/v2/"+path, "bearer "+s.Token, body)
	return reply.StatusCode, text
}

// put uploads data to an address that the API has returned.
func (s *site) put(address string, data []byte) int {
	s.t.Helper()
	reply, _ := s.send(http.MethodPut, address, "", string(data))
	return reply.StatusCode
}

// readAll returns the body of a response.
func readAll(t *testing.T, reply *http.Response) string {
	t.Helper()
	defer reply.Body.Close()
	return string(must(t, of(io.ReadAll(reply.Body))))
}

// attributes returns the attributes and the relationships of the document in a response.
func attributes(t *testing.T, body string) (attributes, relationships map[string]any) {
	t.Helper()
	var d struct {
		Data struct{ Attributes, Relationships map[string]any }
	}
	if err := json.Unmarshal([]byte(body), &d); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return d.Data.Attributes, d.Data.Relationships
}
