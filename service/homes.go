package service

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// homes removes the directories of deleted workspaces: the engine keeps the state there. A directory whose store is
// still open, or that was left by a process that died after the deletion, is removed later.
type homes struct {
	*shared
	kept store.Homes
}

// homesEvery is the interval at which directories without a workspace are looked for.
const homesEvery = time.Hour

// remove removes the directory of a workspace whose deletion is committed.
func (h *homes) remove(workspace string) {
	if _, err := h.kept.Remove(workspace); err != nil {
		h.log.Warn("cannot remove the directory of a deleted workspace; will retry", "workspace", workspace, "error", err)
	}
}

// sweep removes the directories of all workspaces that are not there any more. The directories are listed first: one
// that is made meanwhile is of a workspace that has a record already.
func (h *homes) sweep(ctx context.Context) error {
	entries, err := os.ReadDir(filepath.Join(h.store.Dir(), "workspaces"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var gone []string
	err = h.store.View(func(tx *store.Tx) error {
		for _, e := range entries {
			id := strings.TrimPrefix(e.Name(), store.RemovedHome)
			if !e.IsDir() || !strings.HasPrefix(id, "ws-") {
				continue // not ours
			}
			switch _, err := tables.Workspaces.Get(tx, id); {
			case errors.Is(err, store.ErrNotFound):
				gone = append(gone, id)
			case err != nil:
				return err
			}
		}
		return nil
	})
	for _, id := range gone {
		if err == nil && ctx.Err() == nil {
			_, err = h.kept.Remove(id)
		}
	}
	return err
}

// sweepAlways sweeps at intervals, until ctx ends.
func (h *homes) sweepAlways(ctx context.Context) {
	again := time.NewTicker(homesEvery)
	defer again.Stop()
	for {
		if err := h.sweep(ctx); err != nil && ctx.Err() == nil {
			h.log.Warn("cannot remove the directories of deleted workspaces; will retry", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}
