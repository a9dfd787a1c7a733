package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/state/features"
)

// Group is the group whose leader this process is.
type Group interface {
	// Members returns the members that answer, this one first.
	Members() []Member
	// HandOver has another member lead; an empty name means any. It returns when the log has it: this process then has no
	// service any more.
	HandOver(ctx context.Context, to string) error
	// Forget forgets a member that does not answer.
	Forget(name string)
}

// Member is a member of a group, for operators.
type Member struct {
	Name    string          `json:"name"`
	Address string          `json:"address"`
	Program string          `json:"program"` // its version of Millipede; empty if it does not answer
	Levels  features.Levels `json:"-"`
	Leads   bool            `json:"leads"`
	// Since is when the leader began to lead, or when another member was heard last; zero if it never was.
	Since time.Time `json:"since,omitzero"`
	// Answers says that the member was heard within a few seconds. Behind is then how many entries of the log its copy of
	// the records lacked.
	Answers bool `json:"answers"`
	Behind  int  `json:"behind"`
}

// Members are the members of the group that the service is of.
type Members struct {
	*shared
	group Group // nil without a group
}

// errNoGroup is what a single service answers.
func errNoGroup() error {
	return tables.Conflict("this service is a single one: only one that was started with serve -group has members")
}

// List returns the members, the leader first, and then by their names. Only administrators of the service may ask.
func (s *Members) List(a *rights.Actor) ([]Member, error) {
	if !a.Admin() {
		return nil, tables.Forbidden("only administrators of the service may ask for the members of the group")
	}
	if s.group == nil {
		return nil, errNoGroup()
	}
	return s.All()
}

// All is List for the service itself. The service has a group.
func (s *Members) All() ([]Member, error) {
	all := s.group.Members()
	err := s.store.View(func(tx *store.Tx) error {
		for r, err := range tables.Members.All(tx) {
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(all, func(m Member) bool { return m.Name == r.Name }) {
				all = append(all, Member{Name: r.Name, Address: r.Address})
			}
		}
		return nil
	})
	slices.SortFunc(all[1:], func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// HandOver has another member lead; an empty name means the one whose copy is nearest to the end of the log. Only
// administrators of the service may ask.
func (s *Members) HandOver(ctx context.Context, a *rights.Actor, to string) error {
	if !a.Admin() {
		return tables.Forbidden("only administrators of the service may hand the lead of the group over")
	}
	if s.group == nil {
		return errNoGroup()
	}
	if err := s.audit.Change(a, "group.handover", to, func(*store.Tx) error { return nil }); err != nil {
		return err
	}
	if err := s.group.HandOver(ctx, to); err != nil {
		return tables.Conflict("the lead is not handed over: %v", err)
	}
	return nil
}

// Remove removes a member that does not answer from the records: the others do not wait for it any more before one of
// them leads. Only administrators of the service may ask.
func (s *Members) Remove(a *rights.Actor, name string) error {
	if !a.Admin() {
		return tables.Forbidden("only administrators of the service may remove a member of the group")
	}
	if s.group == nil {
		return errNoGroup()
	}
	for _, m := range s.group.Members() {
		if m.Name == name && m.Answers {
			return tables.Conflict("the member %q answers: end its process first", name)
		}
	}
	err := s.audit.Change(a, "group.remove", name, func(tx *store.Tx) error { return tables.Members.Delete(tx, name) })
	if err == nil {
		s.group.Forget(name)
	}
	return err
}

// older returns the members that do not know a level of features, and those that do not answer.
func (s *Members) older(level int) (older []string, err error) {
	if s.group == nil {
		return nil, nil
	}
	all, err := s.All()
	for _, m := range all {
		switch {
		case !m.Answers:
			older = append(older, fmt.Sprintf("%s (does not answer; coordinator group remove %s, if it is gone)", m.Name,
				m.Name))
		case m.Levels.Newest < level:
			older = append(older, fmt.Sprintf("%s (Millipede %s)", m.Name, m.Program))
		}
	}
	return older, err
}
