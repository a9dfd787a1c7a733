package service

import (
	"errors"
	"net/mail"
	"net/url"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// DestinationEmail is the destination type of notifications by mail.
const DestinationEmail = "email"

// The destination types of notifications.
var destinations = []string{"generic", "slack", "microsoft-teams", DestinationEmail}

// maxRecipients is how many users and addresses a notification by mail may list.
const maxRecipients = 50

// Notifications returns the notification configurations of a workspace. Their tokens are empty.
func (s *Service) Notifications(a *Actor, workspace string) (out []*record.Notification, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if _, err := a.allowed(tx, workspace, needSee); err != nil {
			return err
		}
		out, err = notifications.Select(tx, "workspace", workspace)
		for _, n := range out {
			n.Token = ""
		}
		return err
	})
	return out, told(err)
}

// Notification returns a notification configuration without its token.
func (s *Service) Notification(a *Actor, id string) (n *record.Notification, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if n, err = notifications.Get(tx, id); err == nil {
			_, err = a.allowed(tx, n.Workspace, needSee)
		}
		if err != nil {
			return notFound("there is no notification configuration %q, or you have no access to it", id)
		}
		n.Token = ""
		return nil
	})
	return n, told(err)
}

// PutNotification creates a notification configuration (if its ID is empty) or changes one. When changing, an
// empty token keeps the present token.
func (s *Service) PutNotification(a *Actor, n record.Notification) (*record.Notification, error) {
	err := s.audited(a, "notification.put", n.Name, func(tx *store.Tx) error {
		if n.ID != "" {
			kept, err := notifications.Get(tx, n.ID)
			if err != nil {
				return notFound("there is no notification configuration %q, or you have no access to it", n.ID)
			}
			n.Workspace, n.CreatedAt, n.Last = kept.Workspace, kept.CreatedAt, kept.Last
			if n.Token == "" {
				n.Token = kept.Token
			}
		}
		if _, err := a.allowed(tx, n.Workspace, needAdmin); err != nil {
			return err
		}
		switch {
		case n.Name == "":
			return invalid("Name can't be blank")
		case !slices.Contains(destinations, n.Destination):
			return invalid("Destination type must be generic, slack, microsoft-teams or email")
		}
		if err := s.checkReceivers(tx, &n); err != nil {
			return err
		}
		now := s.now().UTC()
		for _, trigger := range n.Triggers {
			if !slices.Contains(triggers, trigger) {
				return invalid("Triggers must be of %s", strings.Join(triggers, ", "))
			}
		}
		if n.UpdatedAt = now; n.ID == "" {
			n.ID, n.CreatedAt = newID("nc"), now
		}
		return notifications.Put(tx, &n)
	})
	out := n
	out.Token = ""
	return &out, err
}

// checkReceivers refuses a configuration whose notifications could not reach anybody.
func (s *Service) checkReceivers(tx *store.Tx, n *record.Notification) error {
	if n.Destination != DestinationEmail {
		u, err := url.Parse(n.URL)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return invalid("Url must be an address that begins with http or https")
		}
		n.Users, n.Emails = nil, nil
		return nil
	}
	n.URL, n.Token = "", ""
	switch {
	case n.Enabled && !s.opts.Mail:
		return invalid("This service has no mail server: set one with serve -smtp, or use another destination type")
	case len(n.Users)+len(n.Emails) > maxRecipients:
		return invalid("Users and email addresses must be at most %d", maxRecipients)
	}
	for _, id := range n.Users {
		_, err := users.Look(tx, id)
		if errors.Is(err, store.ErrNotFound) {
			return invalid("There is no user %q", id)
		}
		if err != nil {
			return err
		}
	}
	for _, address := range n.Emails {
		if at, err := mail.ParseAddress(address); err != nil || at.Address != address || len(address) > 320 {
			return invalid("%q is no email address", address)
		}
	}
	return nil
}

// DeleteNotification removes a notification configuration.
func (s *Service) DeleteNotification(a *Actor, id string) error {
	return s.audited(a, "notification.delete", id, func(tx *store.Tx) error {
		n, err := notifications.Get(tx, id)
		if err == nil {
			_, err = a.allowed(tx, n.Workspace, needAdmin)
		}
		if err != nil {
			return notFound("there is no notification configuration %q, or you have no access to it", id)
		}
		return notifications.Delete(tx, id)
	})
}
