// Package accounts has the people, teams and organizations of the service, with their tokens and sign-ins.
//
// It knows no workspace: it asks what it must know about those by an interface. It does not decide what an account may
// do: package rights does.
package accounts

import (
	"log/slog"
	"time"

	"github.com/millipede-iac/millipede/service/audit"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// Workspaces answers what accounts must know about workspaces, and changes them with their organization. All methods
// work in the transaction of the caller; organizations are named in lower case.
type Workspaces interface {
	// InOrganization reports whether an organization has workspaces.
	InOrganization(tx *store.Tx, organization string) bool
	// InProject reports whether a project, by its ID, has workspaces.
	InProject(tx *store.Tx, project string) bool
	// Inherit gives the default execution mode of an organization to the workspaces that have none of their own.
	Inherit(tx *store.Tx, o *record.Organization) error
	// DropVariableSets removes the variable sets of an organization.
	DropVariableSets(tx *store.Tx, organization string) error
}

// Accounts are the parts of the service that know people, organizations and tokens.
type Accounts struct {
	Users         *Users
	Logins        *Logins
	Tokens        *Tokens
	Organizations *Organizations
	Memberships   *Memberships
	Teams         *Teams
	TeamAccess    *TeamAccess
	Projects      *Projects
}

// shared is what all parts use.
type shared struct {
	store *store.Store
	now   func() time.Time
	log   *slog.Logger
	audit *audit.Log
}

// New returns the accounts in a store.
func New(st *store.Store, now func() time.Time, log *slog.Logger, l *audit.Log, w Workspaces) *Accounts {
	c := &shared{store: st, now: now, log: log, audit: l}
	a := &Accounts{Tokens: &Tokens{shared: c}, Memberships: &Memberships{shared: c},
		TeamAccess: &TeamAccess{c}, Projects: &Projects{shared: c, workspaces: w}}
	a.Teams = &Teams{shared: c, memberships: a.Memberships}
	a.Organizations = &Organizations{shared: c, memberships: a.Memberships, teams: a.Teams, workspaces: w}
	a.Users = &Users{shared: c, memberships: a.Memberships, organizations: a.Organizations}
	a.Logins = &Logins{shared: c, memberships: a.Memberships, tokens: a.Tokens}
	return a
}
