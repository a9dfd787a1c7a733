package estate

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/mem"
)

// outrun is a store in which somebody else makes each workspace right after it was looked for.
type outrun struct{ Store }

func (o outrun) Workspaces(ctx context.Context) ([]string, error) {
	names, err := o.Store.Workspaces(ctx)
	return names, errors.Join(err, o.CreateWorkspace(ctx, "one"))
}

// The first two runs of a workspace began at once: one of them failed because the other one had made it.
func TestTwoMakeAWorkspaceAtOnce(t *testing.T) {
	store := mem.New(mem.Options{Now: time.Now, NewID: rand.Text, EngineVersion: "1.12.6"})
	s := &Opened{store: &openedStore{Store: outrun{&stored{Store: store}}}, Workspace: "one"}
	if err := s.ensureWorkspace(t.Context()); err != nil {
		t.Error(err)
	}
	if err := store.CreateWorkspace(t.Context(), "one"); !errors.Is(err, journal.ErrWorkspaceExists) {
		t.Errorf("it is not there: %v", err)
	}
}
