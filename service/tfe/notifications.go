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
	all, err := c.svc.Notifications.List(c.actor, c.arg("ws"))
	if err != nil {
		return err
	}
	return list(c, all, notificationResource, nil)
}

func (c *call) notification() error {
	n, err := c.svc.Notifications.Find(c.actor, c.arg("nc"))
	if err != nil {
		return err
	}
	return c.ok(notificationResource(n))
}

func (c *call) createNotification() error {
	n := record.Notification{Workspace: c.arg("ws")}
	change, err := c.notificationChange()
	if err == nil {
		err = change(&n)
	}
	if err != nil {
		return err
	}
	// The configuration is stored disabled, and is enabled when its receiver has accepted the verification.
	enable := c.o.Verify != nil && n.Enabled
	n.Enabled = n.Enabled && !enable
	kept, err := c.svc.Notifications.Create(c.actor, n)
	return c.answerNotification(http.StatusCreated, kept, enable, err)
}

func (c *call) changeNotification() error {
	change, err := c.notificationChange()
	if err != nil {
		return err
	}
	enable := false
	kept, err := c.svc.Notifications.Change(c.actor, c.arg("nc"), func(n *record.Notification) error {
		was := *n
		err := change(n)
		verified := was.Enabled && was.URL == n.URL && slices.Equal(was.Users, n.Users) &&
			slices.Equal(was.Emails, n.Emails)
		enable = c.o.Verify != nil && n.Enabled && !verified
		n.Enabled = n.Enabled && !enable // as above
		return err
	})
	return c.answerNotification(http.StatusOK, kept, enable, err)
}

// answerNotification answers with a configuration. With enable, it first has the receiver verified.
func (c *call) answerNotification(status int, kept *record.Notification, enable bool, err error) error {
	if err == nil && enable {
		if err = c.verify(kept.ID); err == nil {
			kept, err = c.svc.Notifications.Change(c.actor, kept.ID, func(n *record.Notification) error {
				n.Enabled = true
				return nil
			})
		}
	}
	if err != nil {
		return err
	}
	return c.answer(status, notificationResource(kept), nil)
}

// notificationChange reads the change of a configuration from the request.
func (c *call) notificationChange() (func(*record.Notification) error, error) {
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
		return nil, err
	}
	people, err := q.relatedAll("users")
	return func(n *record.Notification) error {
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
		return nil
	}, err
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
	if err := c.svc.Notifications.Delete(c.actor, c.arg("nc")); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}
