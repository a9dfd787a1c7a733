package tfe

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/millipede-iac/millipede/service/record"
)

func notificationResource(n *record.Notification) resource {
	return resource{ID: n.ID, Type: "notification-configurations", Attributes: map[string]any{
		"name": n.Name, "destination-type": n.Destination, "url": orNull(n.URL), "token": nil, "enabled": n.Enabled,
		"triggers":   orEmpty(n.Triggers),
		"created-at": moment(n.CreatedAt), "updated-at": moment(n.UpdatedAt), "delivery-responses": deliveryResponses(n),
		"email-addresses": orEmpty(n.Emails),
	}, Relationships: map[string]any{"subscribable": to("workspaces", n.Workspace), "users": toAll("users", n.Users)}}
}

// deliveryResponses returns the latest response of the receiver in the form that clients expect: the success is
// a text.
func deliveryResponses(n *record.Notification) []any {
	if n.Last == nil {
		return []any{}
	}
	return []any{map[string]any{
		"url": n.URL, "body": n.Last.Body, "code": strconv.Itoa(n.Last.Code), "headers": n.Last.Headers,
		"sent-at": n.Last.SentAt.UTC().Format(time.RFC3339), "successful": strconv.FormatBool(n.Last.Successful()),
	}}
}

func (c *call) notifications() error {
	all, err := c.Notifications(c.actor, c.arg("ws"))
	if err != nil {
		return err
	}
	return list(c, all, notificationResource, nil)
}

func (c *call) notification() error {
	n, err := c.Notification(c.actor, c.arg("nc"))
	if err != nil {
		return err
	}
	return c.ok(notificationResource(n))
}

func (c *call) createNotification() error {
	return c.putNotification(record.Notification{Workspace: c.arg("ws")}, http.StatusCreated)
}

func (c *call) changeNotification() error {
	n, err := c.Notification(c.actor, c.arg("nc"))
	if err != nil {
		return err
	}
	return c.putNotification(*n, http.StatusOK)
}

func (c *call) putNotification(n record.Notification, status int) error {
	var a struct {
		Name        *string  `json:"name"`
		Destination *string  `json:"destination-type"`
		URL         *string  `json:"url"`
		Token       *string  `json:"token"`
		Enabled     *bool    `json:"enabled"`
		Triggers    []string `json:"triggers"`
		Emails      []string `json:"email-addresses"`
	}
	q, err := c.body(&a)
	if err != nil {
		return err
	}
	people, err := q.relatedAll("users")
	if err != nil {
		return err
	}
	was := n
	set(&n.Name, a.Name)
	set(&n.Destination, a.Destination)
	set(&n.URL, a.URL)
	set(&n.Token, a.Token)
	set(&n.Enabled, a.Enabled)
	if a.Triggers != nil {
		n.Triggers = a.Triggers
	}
	if a.Emails != nil {
		n.Emails = a.Emails
	}
	if people != nil {
		n.Users = nil
		for _, user := range people {
			n.Users = append(n.Users, user.ID)
		}
	}
	verified := was.Enabled && was.URL == n.URL && slices.Equal(was.Users, n.Users) && slices.Equal(was.Emails, n.Emails)
	if c.o.Verify == nil || !n.Enabled || verified {
		kept, err := c.PutNotification(c.actor, n)
		if err != nil {
			return err
		}
		return c.answer(status, notificationResource(kept), nil)
	}
	// The configuration is stored disabled, and is enabled when its receiver has accepted the verification.
	n.Enabled = false
	kept, err := c.PutNotification(c.actor, n)
	if err == nil {
		err = c.verify(kept.ID)
	}
	if err != nil {
		return err
	}
	kept.Enabled = true
	if kept, err = c.PutNotification(c.actor, *kept); err != nil {
		return err
	}
	return c.answer(status, notificationResource(kept), nil)
}

// verify sends an empty notification, as the API defines it.
func (c *call) verify(id string) error {
	r, err := c.o.Verify(c.r.Context(), c.actor, id)
	if err != nil {
		return err
	}
	if !r.Successful() {
		return &failure{http.StatusUnprocessableEntity, "unprocessable entity", fmt.Sprintf("the receiver did not "+
			"accept the verification (%d %s), so the notification configuration is not enabled", r.Code, r.Body)}
	}
	return nil
}

func (c *call) verifyNotification() error {
	if c.o.Verify == nil {
		return notThere
	}
	if _, err := c.o.Verify(c.r.Context(), c.actor, c.arg("nc")); err != nil {
		return err
	}
	return c.notification()
}

func (c *call) deleteNotification() error {
	if err := c.DeleteNotification(c.actor, c.arg("nc")); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}
