package tfe

import (
	"net/http"

	"github.com/millipede-iac/millipede/service/record"
)

func notificationResource(n *record.Notification) resource {
	return resource{ID: n.ID, Type: "notification-configurations", Attributes: map[string]any{
		"name": n.Name, "destination-type": n.Destination, "url": orNull(n.URL), "token": nil, "enabled": n.Enabled,
		"triggers":   orEmpty(n.Triggers),
		"created-at": moment(n.CreatedAt), "updated-at": moment(n.UpdatedAt), "delivery-responses": []any{},
		"email-addresses": []string{},
	}, Relationships: map[string]any{"subscribable": to("workspaces", n.Workspace), "users": toAll("users", nil)}}
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
	}
	if _, err := c.body(&a); err != nil {
		return err
	}
	set(&n.Name, a.Name)
	set(&n.Destination, a.Destination)
	set(&n.URL, a.URL)
	set(&n.Token, a.Token)
	set(&n.Enabled, a.Enabled)
	if a.Triggers != nil {
		n.Triggers = a.Triggers
	}
	kept, err := c.PutNotification(c.actor, n)
	if err != nil {
		return err
	}
	return c.answer(status, notificationResource(kept), nil)
}

func (c *call) deleteNotification() error {
	if err := c.DeleteNotification(c.actor, c.arg("nc")); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}
