package rights

import (
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// MayHalt checks that the actor administers the workspace, or the whole service if workspace is empty.
func (a *Actor) MayHalt(tx *store.Tx, workspace string) error {
	if workspace != "" {
		_, err := a.Allowed(tx, workspace, Administer)
		return err
	}
	if !a.Admin() {
		return tables.Forbidden("only administrators of the service may halt the whole service")
	}
	return nil
}

// MayDrainPools checks that the actor may drain pools.
func (a *Actor) MayDrainPools() error {
	if !a.Admin() {
		return tables.Forbidden("only administrators of the service may drain pools: pools serve all organizations")
	}
	return nil
}
