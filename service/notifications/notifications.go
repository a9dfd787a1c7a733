// Package notifications keeps the notification configurations of workspaces, and the notifications that wait to be
// sent.
//
// It sends nothing: package notify does.
package notifications

import (
	"errors"
	"log/slog"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service/accounts"
	"github.com/millipede-iac/millipede/service/audit"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// DestinationEmail is the destination type of notifications by mail.
const DestinationEmail = "email"

// The destination types of notifications.
var destinations = []string{"generic", "slack", "microsoft-teams", DestinationEmail}

// maxRecipients is how many users and addresses a notification by mail may list.
const maxRecipients = 50

// Notifications are the notification configurations of workspaces, and the notifications that wait to be sent.
type Notifications struct {
	store    *store.Store
	now      func() time.Time
	log      *slog.Logger
	audit    *audit.Log
	mail     bool
	outgoing chan struct{} // contains a value when there are notifications to send
}

// New returns the notifications in a store. mail says whether notifications can be sent by mail.
func New(st *store.Store, now func() time.Time, log *slog.Logger, l *audit.Log, mail bool) *Notifications {
	return &Notifications{store: st, now: now, log: log, audit: l, mail: mail, outgoing: make(chan struct{}, 1)}
}

// List returns the notification configurations of a workspace. Their tokens are empty.
func (s *Notifications) List(a *rights.Actor, workspace string) (out []*record.Notification, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if _, err := a.Allowed(tx, workspace, rights.See); err != nil {
			return err
		}
		out, err = tables.Notifications.Select(tx, "workspace", workspace)
		for _, n := range out {
			n.Token = ""
		}
		return err
	})
	return out, tables.Translated(err)
}

// Find returns a notification configuration without its token.
func (s *Notifications) Find(a *rights.Actor, id string) (n *record.Notification, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		if n, err = tables.Notifications.Get(tx, id); err == nil {
			_, err = a.Allowed(tx, n.Workspace, rights.See)
		}
		if err != nil {
			return tables.NotFound("there is no notification configuration %q, or you have no access to it", id)
		}
		n.Token = ""
		return nil
	})
	return n, tables.Translated(err)
}

// Create creates a notification configuration.
func (s *Notifications) Create(a *rights.Actor, n record.Notification) (*record.Notification, error) {
	return s.put(a, n.Name, func(*store.Tx) (*record.Notification, error) {
		n.ID, n.CreatedAt = tables.NewID("nc"), s.now().UTC()
		return &n, nil
	})
}

// Change changes a notification configuration. change gets the stored one, within the transaction, so that
// two changes at the same time do not undo each other; it does not see the token, and the present one is kept if it
// leaves it empty.
func (s *Notifications) Change(a *rights.Actor, id string, change func(*record.Notification) error) (
	*record.Notification, error) {
	return s.put(a, id, func(tx *store.Tx) (*record.Notification, error) {
		n, err := tables.Notifications.Get(tx, id)
		if err != nil {
			return nil, tables.NotFound("there is no notification configuration %q, or you have no access to it", id)
		}
		token := n.Token
		n.Token = ""
		err = change(n)
		if n.Token == "" {
			n.Token = token
		}
		return n, err
	})
}

// put stores the configuration that make returns, if the actor may change it.
func (s *Notifications) put(a *rights.Actor, object string,
	make func(*store.Tx) (*record.Notification, error)) (*record.Notification, error) {
	var out record.Notification
	err := s.audit.Change(a, "notification.put", object, func(tx *store.Tx) error {
		n, err := make(tx)
		if err != nil {
			return err
		}
		if _, err := a.Allowed(tx, n.Workspace, rights.Administer); err != nil {
			return err
		}
		switch {
		case n.Name == "":
			return tables.Invalid("Name can't be blank")
		case !slices.Contains(destinations, n.Destination):
			return tables.Invalid("Destination type must be generic, slack, microsoft-teams or email")
		}
		if err := s.checkReceivers(tx, n); err != nil {
			return err
		}
		for _, trigger := range n.Triggers {
			if !slices.Contains(triggers, trigger) {
				return tables.Invalid("Triggers must be of %s", strings.Join(triggers, ", "))
			}
		}
		n.UpdatedAt = s.now().UTC()
		if err := tables.Notifications.Put(tx, n); err != nil {
			return err
		}
		out = *n
		out.Token = ""
		return nil
	})
	return &out, err
}

// checkReceivers refuses a configuration whose notifications could not reach anybody.
func (s *Notifications) checkReceivers(tx *store.Tx, n *record.Notification) error {
	if n.Destination != DestinationEmail {
		u, err := url.Parse(n.URL)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return tables.Invalid("Url must be an address that begins with http or https")
		}
		n.Users, n.Emails = nil, nil
		return nil
	}
	n.URL, n.Token = "", ""
	switch {
	case n.Enabled && !s.mail:
		return tables.Invalid("This service has no mail server: set one with serve -smtp, or use another destination type")
	case len(n.Users)+len(n.Emails) > maxRecipients:
		return tables.Invalid("Users and email addresses must be at most %d", maxRecipients)
	}
	for _, id := range n.Users {
		_, err := tables.Users.Look(tx, id)
		if errors.Is(err, store.ErrNotFound) {
			var m *record.Membership
			var w *record.Workspace
			if m, err = accounts.Invitation(tx, id); err == nil {
				w, err = tables.Workspaces.Get(tx, n.Workspace)
			}
			if errors.Is(err, store.ErrNotFound) || err == nil && !strings.EqualFold(m.Organization, w.Organization) {
				return tables.Invalid("There is no user %q", id)
			}
		}
		if err != nil {
			return err
		}
	}
	for _, address := range n.Emails {
		if at, err := mail.ParseAddress(address); err != nil || at.Address != address || len(address) > 320 {
			return tables.Invalid("%q is no email address", address)
		}
	}
	return nil
}

// Delete removes a notification configuration.
func (s *Notifications) Delete(a *rights.Actor, id string) error {
	return s.audit.Change(a, "notification.delete", id, func(tx *store.Tx) error {
		n, err := tables.Notifications.Get(tx, id)
		if err == nil {
			_, err = a.Allowed(tx, n.Workspace, rights.Administer)
		}
		if err != nil {
			return tables.NotFound("there is no notification configuration %q, or you have no access to it", id)
		}
		return tables.Notifications.Delete(tx, id)
	})
}
