package tfe

import (
	"github.com/millipede-iac/millipede/service/record"
)

func (c *call) runEvents() error {
	all, err := c.svc.Runs.History(c.actor, c.arg("run"))
	if err != nil {
		return err
	}
	return list(c, all, noteResource, c.besideNote)
}

// besideNote returns the documents that can be included with an entry of a run's history.
func (c *call) besideNote(n *record.RunNote) (more []resource) {
	if c.wants("actor") && n.Actor != "" {
		if u, err := c.svc.Users.Find(c.actor, n.Actor); err == nil {
			more = append(more, userResource(u))
		}
	}
	if c.wants("comment") && n.Comment != "" {
		if v, err := c.svc.Runs.FindComment(c.actor, n.Comment); err == nil {
			more = append(more, commentResource(v))
		}
	}
	return more
}

func noteResource(n *record.RunNote) resource {
	return resource{ID: n.ID, Type: "run-events", Attributes: map[string]any{
		"action": n.Action, "description": n.Description, "created-at": moment(n.CreatedAt),
	}, Relationships: map[string]any{"run": to("runs", n.Run), "actor": to("users", n.Actor),
		"comment": to("comments", n.Comment)}}
}

func commentResource(v *record.Comment) resource {
	return resource{ID: v.ID, Type: "comments", Attributes: map[string]any{"body": v.Body,
		"created-at": moment(v.CreatedAt)},
		Relationships: map[string]any{"run-event": to("run-events", v.Note), "created-by": to("users", v.Actor)}}
}

func (c *call) comments() error {
	all, err := c.svc.Runs.Comments(c.actor, c.arg("run"))
	if err != nil {
		return err
	}
	return list(c, all, commentResource, nil)
}

func (c *call) readComment() error {
	v, err := c.svc.Runs.FindComment(c.actor, c.arg("comment"))
	if err != nil {
		return err
	}
	return c.ok(commentResource(v))
}

func (c *call) runEvent() error {
	n, err := c.svc.Runs.FindNote(c.actor, c.arg("event"))
	if err != nil {
		return err
	}
	return c.ok(noteResource(n), c.besideNote(n)...)
}

func (c *call) comment() error {
	var a struct{ Body string }
	if _, err := c.body(&a); err != nil {
		return err
	}
	v, err := c.svc.Runs.Comment(c.actor, c.arg("run"), a.Body)
	if err != nil {
		return err
	}
	return c.created(commentResource(v))
}
