package tables

import (
	"errors"
	"fmt"
	"slices"
	"strings"

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

// TidyTags returns tags sorted by key; among tags with the same key it keeps the last one.
func TidyTags(tags []record.Tag) (out []record.Tag, err error) {
	for _, t := range tags {
		t.Key = strings.ToLower(t.Key)
		if !record.ValidTag(t.Key) {
			return nil, Invalid("The tag %q must be lower case letters, digits, :, - and _", t.Key)
		}
		out = slices.DeleteFunc(out, func(o record.Tag) bool { return o.Key == t.Key })
		out = append(out, t)
	}
	slices.SortFunc(out, func(x, y record.Tag) int { return strings.Compare(x.Key, y.Key) })
	return out, nil
}
