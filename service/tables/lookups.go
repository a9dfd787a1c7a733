package tables

import (
	"errors"
	"fmt"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// HaltOf returns the halt that prevents runs of a workspace from starting; nil if there is none. An emergency
// takes precedence over a drain, and a halt of the service over one of the workspace.
func HaltOf(tx *store.Tx, workspace string) (found *record.Halt, err error) {
	for _, on := range []string{record.HaltOn(""), record.HaltOn(workspace)} {
		h, err := Halts.Get(tx, on)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return nil, err
		case found == nil || h.Emergency && !found.Emergency:
			found = h
		}
	}
	return found, nil
}

// LockedBy names the holder of a workspace's lock, in the wording that clients search for.
func LockedBy(tx *store.Tx, w *record.Workspace) string {
	l := w.Lock
	name := l.ID
	switch l.Kind {
	case "run":
		return "the workspace is locked by Run " + l.ID
	case "team":
		if t, err := Teams.Get(tx, l.ID); err == nil {
			name = t.Name
		}
		return "the workspace is locked by Team " + name
	}
	if u, err := Users.Get(tx, l.ID); err == nil {
		name = u.Name
	}
	text := "the workspace is locked by User " + name
	if l.Reason != "" {
		text += fmt.Sprintf(" (%s)", l.Reason)
	}
	return text
}
