package sim

import (
	"context"
	"time"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// teamConnector connects the phases of a service, which share its connection.
type teamConnector struct{ *service }

func (c teamConnector) Connect(context.Context, estate.ConnectOptions) (estate.Connection, diag.List) {
	return teamConnection(c), nil
}

func (teamConnector) Elsewhere(*placement.Rules) bool { return true }

type teamConnection struct{ *service }

func (c teamConnection) Transport() wire.Transport { return c.conn }
func (teamConnection) Embedded() bool              { return false }
func (c teamConnection) Common() *estate.Common {
	return &estate.Common{Hub: c.hub, Pair: keyPair(c.s.name)}
}
func (teamConnection) Warnings(context.Context) []string { return nil }
func (teamConnection) Close() diag.List                  { return nil }

// teamStores opens the store of the team.
type teamStores struct{ *service }

func (t teamStores) Open(string, journal.LockInfo, time.Duration, estate.StoreOptions) (estate.Store, error) {
	return &teamStore{handle: &handle{site: t.s, p: t.p}, team: t.team}, nil
}

func (teamStores) Copy(string, string) error { panic("sim: not called") }
