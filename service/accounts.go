package service

import (
	"log/slog"
	"time"

	"github.com/millipede-iac/millipede/service/audit"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// OrganizationWorkspaces answers what accounts must know about workspaces, and changes them with their organization. All
// methods work in the transaction of the caller; organizations are named in lower case.
type OrganizationWorkspaces interface {
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

// accountsShared is what all parts use.
type accountsShared struct {
	store *store.Store
	now   func() time.Time
	log   *slog.Logger
	audit *audit.Log
}

// newAccounts returns the accounts in a store.
func newAccounts(st *store.Store, now func() time.Time, log *slog.Logger, l *audit.Log,
	w OrganizationWorkspaces) *Accounts {
	c := &accountsShared{store: st, now: now, log: log, audit: l}
	a := &Accounts{Tokens: &Tokens{accountsShared: c}, Memberships: &Memberships{accountsShared: c},
		TeamAccess: &TeamAccess{c}, Projects: &Projects{accountsShared: c, workspaces: w}}
	a.Teams = &Teams{accountsShared: c, memberships: a.Memberships}
	a.Organizations = &Organizations{accountsShared: c, memberships: a.Memberships, teams: a.Teams, workspaces: w}
	a.Users = &Users{accountsShared: c, memberships: a.Memberships, organizations: a.Organizations}
	a.Logins = &Logins{accountsShared: c, memberships: a.Memberships, tokens: a.Tokens}
	return a
}
