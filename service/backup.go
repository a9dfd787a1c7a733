package service

import (
	"context"
	"io"

	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// Backup writes a consistent copy of all data of the service to out, while runs continue. The copy has every
// change that was confirmed before the call. Only administrators of the service may make one. If Backup returns
// an error, the output is incomplete and must be discarded.
func (s *Service) Backup(ctx context.Context, a *rights.Actor, out io.Writer) error {
	err := s.audit.Change(a, "backup", "", func(*store.Tx) error {
		if !a.Admin() {
			return tables.Forbidden("only administrators of the service may make a backup")
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.store.Backup(ctx, out, s.opts.Version, s.now().UTC(), s.opts.Homes)
}

// noHomes stands in for an engine that keeps no files of its own.
type noHomes struct{}

func (noHomes) Freeze(_ context.Context, _ string, cut func() error, _ func(name, file string) error) error {
	return cut()
}

func (noHomes) Remove(string) (bool, error) { return true, nil }
