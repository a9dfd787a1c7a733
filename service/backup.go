package service

import (
	"context"
	"io"

	"github.com/millipede-iac/millipede/service/store"
)

// Backup writes everything that the service keeps, as it is at one moment, while runs go
// on. All that was answered before is in it. Only administrators of the service make one. With an error, what was
// written is no backup.
func (s *Service) Backup(ctx context.Context, a *Actor, out io.Writer) error {
	err := s.audited(a, "backup", "", func(*store.Tx) error {
		if !a.admin() {
			return forbidden("only administrators of the service make a backup")
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.store.Backup(ctx, out, s.opts.Version, s.now().UTC(), s.opts.Homes)
}

// noHomes are those of an engine that keeps nothing.
type noHomes struct{}

func (noHomes) Freeze(_ context.Context, _ string, cut func() error, _ func(name, file string) error) error {
	return cut()
}
