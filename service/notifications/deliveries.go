package notifications

import (
	"errors"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/service/accounts"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// triggerDoubt is a trigger of our own: a run has left operations in doubt. The API that we follow has no
// trigger for this.
const triggerDoubt = "run:in_doubt"

// triggers are the events that a notification can be about: those of the API, and one of our own.
var triggers = []string{
	"run:created", "run:planning", "run:needs_attention", "run:applying", "run:completed", "run:errored", triggerDoubt,
	record.TriggerDrift, record.TriggerUnread,
}

// triggerOf returns the trigger that belongs to the status of a run, and the message of its notification; both
// are empty if the status has no notification.
func triggerOf(r *record.Run) (trigger, message string) {
	switch r.Status {
	case record.Planning:
		return "run:planning", "Run Planning"
	case record.Planned:
		if !r.AutoApply {
			return "run:needs_attention", "Run Needs Attention"
		}
	case record.PlannedAndSaved:
		return "run:needs_attention", "Run Planned And Saved"
	case record.Applying:
		return "run:applying", "Run Applying"
	case record.Applied, record.PlannedAndFinished:
		return "run:completed", "Run Completed"
	case record.Errored:
		return "run:errored", "Run Errored"
	case record.Canceled, record.ForceCanceled:
		return "run:errored", "Run Canceled"
	}
	return "", ""
}

// maxWaiting is how many notifications may wait for one receiver; further ones are dropped.
const maxWaiting = 200

// RunCreated records the notifications that a run was created, in the transaction that creates it.
func (s *Notifications) RunCreated(tx *store.Tx, r *record.Run) error {
	return s.notify(tx, r, "run:created", "Run Created", r.CreatedBy)
}

// RunChanged records the notifications of the status of a run, in the transaction that changes it. by is the ID of the
// user or team that has changed it; empty for the service itself.
func (s *Notifications) RunChanged(tx *store.Tx, r *record.Run, by string) error {
	if trigger, message := triggerOf(r); trigger != "" {
		return s.notify(tx, r, trigger, message, by)
	}
	return nil
}

// RunInDoubt records the notifications that a run has left operations in doubt.
func (s *Notifications) RunInDoubt(tx *store.Tx, r *record.Run) error {
	return s.notify(tx, r, triggerDoubt, "Operations In Doubt", "")
}

// notify records the notifications of a run's event. It is called in the transaction that records the event
// itself, so that a crash loses none.
func (s *Notifications) notify(tx *store.Tx, r *record.Run, trigger, message, by string) error {
	return s.Deliver(tx, r.Workspace, record.Delivery{Run: r.ID, Trigger: trigger, Message: message, Status: r.Status,
		By: by})
}

// Deliver records the deliveries of one notification to the receivers of a workspace.
func (s *Notifications) Deliver(tx *store.Tx, workspace string, d record.Delivery) error {
	all, err := tables.Notifications.Select(tx, "workspace", workspace)
	if err != nil {
		return err
	}
	for _, n := range all {
		if !n.Enabled || !slices.Contains(n.Triggers, d.Trigger) {
			continue
		}
		if len(tables.Deliveries.List(tx, "configuration", n.ID)) >= maxWaiting {
			s.log.Warn("notification dropped: too many are waiting for its receiver", "configuration", n.ID, "run", d.Run,
				"trigger", d.Trigger)
			continue
		}
		now := s.now().UTC()
		d.ID, d.Configuration, d.At, d.Due = tables.NewID("nd"), n.ID, now, now
		if err := tables.Deliveries.Put(tx, &d); err != nil {
			return err
		}
		tx.After(func() {
			select {
			case s.outgoing <- struct{}{}:
			default:
			}
		})
	}
	return nil
}

// Outgoing is a notification to send, with all of its content. Delivery is empty for one that only verifies a
// receiver.
type Outgoing struct {
	Delivery      record.Delivery
	Configuration record.Notification // with its token
	Workspace     record.Workspace
	Run           record.Run // empty if the notification is not about a run
	Recipients    []string   // the addresses, if it is sent by mail
}

// Outgoing returns a channel that receives a value whenever there may be notifications to send.
func (s *Notifications) Outgoing() <-chan struct{} { return s.outgoing }

// Due returns the first due notification of each receiver, except those for which busy returns
// true. next is when the next one is due; zero if none is waiting.
func (s *Notifications) Due(busy func(configuration string) bool) (due []Outgoing, next time.Time, err error) {
	now := s.now()
	err = s.store.View(func(tx *store.Tx) error {
		seen := map[string]bool{}
		for d, err := range tables.Deliveries.All(tx) {
			if err != nil {
				return err
			}
			first := tables.Deliveries.List(tx, "configuration", d.Configuration)
			if seen[d.Configuration] || len(first) == 0 || first[0] != d.ID || busy(d.Configuration) {
				continue
			}
			seen[d.Configuration] = true
			if d.Due.After(now) {
				if next.IsZero() || d.Due.Before(next) {
					next = d.Due
				}
				continue
			}
			o, err := s.due(tx, *d)
			if errors.Is(err, store.ErrNotFound) {
				o.Configuration.ID = d.Configuration // it was removed meanwhile: Delivered drops it
			} else if err != nil {
				return err
			}
			due = append(due, o)
		}
		return nil
	})
	return due, next, err
}

// due returns a delivery with all of its content.
func (s *Notifications) due(tx *store.Tx, d record.Delivery) (o Outgoing, err error) {
	o.Delivery = d
	n, err := tables.Notifications.Get(tx, d.Configuration)
	if err == nil {
		err = s.address(tx, &o, n)
	}
	if err != nil || d.Run == "" {
		return o, err
	}
	r, err := tables.Runs.Get(tx, d.Run)
	if err != nil {
		return o, err
	}
	o.Run = *r
	return o, nil
}

// address fills in the receiver of a notification.
func (s *Notifications) address(tx *store.Tx, o *Outgoing, n *record.Notification) error {
	w, err := tables.Workspaces.Get(tx, n.Workspace)
	if err != nil {
		return err
	}
	o.Configuration, o.Workspace = *n, *w
	if n.Destination == DestinationEmail {
		o.Recipients, err = s.recipients(tx, n)
	}
	return err
}

// recipients returns the addresses that a notification is mailed to: the addresses that it lists, and those of
// the users that it lists and who may still see the workspace.
func (s *Notifications) recipients(tx *store.Tx, n *record.Notification) ([]string, error) {
	out := slices.Clone(n.Emails)
	for _, id := range n.Users {
		if m, err := accounts.Invitation(tx, id); err == nil {
			id = m.User // empty, and so nobody, until the invitation is accepted
		}
		a := &rights.Actor{Token: &record.Token{Kind: record.TokenUser, Owner: id}}
		err := a.Identify(tx)
		if err == nil {
			_, err = a.Allowed(tx, n.Workspace, rights.See)
		}
		switch {
		case errors.Is(err, store.ErrNotFound), errors.Is(err, tables.ErrNotFound), errors.Is(err, tables.ErrForbidden):
		case err != nil:
			return nil, err
		case a.User.Email != "":
			out = append(out, a.User.Email)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Verification returns the message that verifies a notification configuration.
func (s *Notifications) Verification(a *rights.Actor, configuration string) (o Outgoing, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		n, err := tables.Notifications.Get(tx, configuration)
		if err == nil {
			_, err = a.Allowed(tx, n.Workspace, rights.Administer)
		}
		if err != nil {
			return tables.NotFound("there is no notification configuration %q, or you have no access to it", configuration)
		}
		return s.address(tx, &o, n)
	})
	return o, tables.Translated(err)
}

// Delivered records the response of a receiver. again is the time of the next attempt; zero if there is none.
func (s *Notifications) Delivered(o Outgoing, r record.Response, again time.Time) error {
	return s.store.Update(func(tx *store.Tx) error {
		if n, err := tables.Notifications.Get(tx, o.Configuration.ID); err == nil {
			n.Last = &r
			if err := tables.Notifications.Put(tx, n); err != nil {
				return err
			}
		}
		d, err := tables.Deliveries.Get(tx, o.Delivery.ID)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil
		case err != nil:
			return err
		case again.IsZero():
			return tables.Deliveries.Delete(tx, d.ID)
		}
		d.Attempts, d.Due = d.Attempts+1, again.UTC()
		return tables.Deliveries.Put(tx, d)
	})
}

// Undelivered returns the notifications of a configuration that wait to be sent, or to be sent again, in the order in
// which they are sent.
func (s *Notifications) Undelivered(a *rights.Actor, configuration string) (out []*record.Delivery, err error) {
	if _, err := s.Find(a, configuration); err != nil {
		return nil, err
	}
	err = s.store.View(func(tx *store.Tx) error {
		out, err = tables.Deliveries.Select(tx, "configuration", configuration)
		return err
	})
	return out, tables.Translated(err)
}
