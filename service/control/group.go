package control

import (
	"context"
	"net/http"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/rights"
)

// group returns the members of the group.
func (s *server) group(_ *http.Request, a *rights.Actor) (any, error) {
	all, err := s.svc.Members.List(a)
	return map[string]any{"members": all}, err
}

// handOver has another member lead.
func (s *server) handOver(r *http.Request, a *rights.Actor) (any, error) {
	var asked struct {
		Member string `json:"member"`
	}
	if err := decode(r, &asked); err != nil {
		return nil, err
	}
	return nil, s.svc.Members.HandOver(r.Context(), a, asked.Member)
}

// removeMember removes a member that is gone.
func (s *server) removeMember(r *http.Request, a *rights.Actor) (any, error) {
	return nil, s.svc.Members.Remove(a, r.PathValue("member"))
}

// Group returns the members of the group, the leader first.
func (c *Client) Group(ctx context.Context) ([]service.Member, error) {
	var list struct {
		Members []service.Member `json:"members"`
	}
	err := c.do(ctx, &list, http.MethodGet, nil, "group")
	return list.Members, err
}

// HandOver has another member lead the group; an empty name means any.
func (c *Client) HandOver(ctx context.Context, to string) error {
	return c.do(ctx, nil, http.MethodPost, map[string]string{"member": to}, "group", "handover")
}

// RemoveMember removes a member of the group that is gone.
func (c *Client) RemoveMember(ctx context.Context, name string) error {
	return c.do(ctx, nil, http.MethodDelete, nil, "group", "members", name)
}
