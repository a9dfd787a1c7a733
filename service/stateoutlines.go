package service

import (
	"cmp"
	"errors"
	"strings"

	"github.com/millipede-iac/millipede/service/outline"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// Outline returns the objects of a version of a state, each with the version in which it last changed.
func (s *States) Outline(a *rights.Actor, id string) (*outline.State, *record.StateVersion, error) {
	var v *record.StateVersion
	err := s.store.View(func(tx *store.Tx) (err error) { v, err = a.StateVersion(tx, id, rights.ReadState); return err })
	if err != nil {
		return nil, nil, tables.Translated(err)
	}
	o, err := s.outlines.State(v)
	return o, v, tables.Translated(err)
}

// Object returns the attributes of an object of a version without sensitive values. known is false if no
// plan has provided the schema of the object's type, so that the service does not know which attributes are
// sensitive; then all of them are omitted.
func (s *States) Object(a *rights.Actor, version string, o *outline.Object) (attributes map[string]any, known bool,
	err error) {
	var v *record.StateVersion
	err = s.store.View(func(tx *store.Tx) (err error) {
		v, err = a.StateVersion(tx, version, rights.ReadState)
		return err
	})
	if err != nil {
		return nil, false, tables.Translated(err)
	}
	data, err := s.store.ReadPart(tables.StateFile(v.ID), o.Start, o.Size)
	if err != nil {
		return nil, false, tables.Translated(err)
	}
	masks, known := s.outlines.masks(v, o)
	attributes, err = outline.Attributes(data, masks, known)
	return attributes, known, err
}

// StateChange is an object that differs between two versions of a state. Before or After is nil if that version
// does not have the object.
type StateChange struct {
	Address       string
	Before, After *outline.Object
}

// Difference returns the objects that differ between two versions of the state of one workspace. They are
// in the order of the later version; objects that it no longer has come last.
func (s *States) Difference(a *rights.Actor, from, to string) (out []StateChange, err error) {
	x, fromVersion, err := s.Outline(a, from)
	if err != nil {
		return nil, err
	}
	y, toVersion, err := s.Outline(a, to)
	if err != nil {
		return nil, err
	}
	if fromVersion.Workspace != toVersion.Workspace {
		return nil, tables.Invalid("The versions %s and %s belong to different workspaces", from, to)
	}
	was := make(map[string]*outline.Object, len(x.Objects))
	for i := range x.Objects {
		was[x.Objects[i].Address] = &x.Objects[i]
	}
	for i := range y.Objects {
		o := &y.Objects[i]
		before := was[o.Address]
		delete(was, o.Address)
		if before == nil || before.Sum != o.Sum {
			out = append(out, StateChange{o.Address, before, o})
		}
	}
	for i := range x.Objects {
		if o := &x.Objects[i]; was[o.Address] != nil {
			out = append(out, StateChange{o.Address, o, nil})
		}
	}
	return out, nil
}

// LastChange describes the last change of an object of a state.
type LastChange struct {
	Version *record.StateVersion
	Run     *record.Run // nil if no run made the change
	Who     string
	// First says that this is the oldest version that is still kept: the object may have been the same before
	// it.
	First bool
}

// LastChangeOf returns the version, and the run, that last changed an object of the outline. It returns nil
// without an error if that version has been removed.
func (s *States) LastChangeOf(a *rights.Actor, of *outline.State, o *outline.Object) (c *LastChange, err error) {
	since := cmp.Or(o.Since, of.Before)
	if since == "" {
		return nil, nil //nolint:nilnil // see the comment of the function
	}
	err = s.store.View(func(tx *store.Tx) error {
		v, err := a.StateVersion(tx, since, rights.ReadState)
		if err != nil {
			return err
		}
		c = &LastChange{Version: v, First: o.Since == ""}
		if v.Run != "" {
			if r, err := runView(tx, a, v.Run); err == nil {
				c.Run = &r.Run
			}
		}
		return nil
	})
	if errors.Is(err, tables.ErrNotFound) {
		return nil, nil //nolint:nilnil // that version was removed meanwhile
	}
	if err != nil {
		return nil, tables.Translated(err)
	}
	c.Who = s.users.NameOf(a, strings.TrimSpace(c.Version.CreatedBy))
	return c, nil
}
