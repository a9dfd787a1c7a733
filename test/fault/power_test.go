package fault

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/millipede-iac/millipede/test/disk"
)

// TestNothingAcknowledgedIsLostWithThePower cuts the power while one process with everything in it (the store, the worker's journal,
// JetStream) creates machines, and goes on with what the disk holds of its files: what was written and not synced is gone.
func TestNothingAcknowledgedIsLostWithThePower(t *testing.T) {
	t.Parallel()
	all, _, err := cutOff(newTrial(t, few, 50), disk.Cut{})
	if errors.Is(err, disk.ErrUnsupported) {
		t.Skip(err)
	}
	must(t, err)
	if all.Code != 0 || all.Syncs < 4*few {
		t.Fatalf("undisturbed it has exit status %d, and %d syncs", all.Code, all.Syncs)
	}
	cuts := 2
	if *kills > fewKills {
		cuts = *kills / 10
	}
	chance := rand.New(rand.NewPCG(*seed, 1))
	for range cuts {
		cut := disk.Cut{Sync: 1 + chance.IntN(all.Syncs), After: chance.IntN(2) == 0}
		s := newTrial(t, few, 50)
		out, lost, err := cutOff(s, cut)
		must(t, err)
		s.Must("init") // the packages of providers are not what this is about: they can be installed again
		s.goOn(apply)
		s.complete(few)
		t.Logf("%+v of %d: the process ran %v; %d files were lost or shorter; %d creations in doubt", cut, all.Syncs, !out.WasCut, lost, s.doubts)
		if t.Failed() {
			return
		}
	}
}

// cutOff runs an apply until the power is cut, and leaves in the site what its disk has. lost counts the files that had more in them.
func cutOff(s *trial, cut disk.Cut) (out disk.Outcome, lost int, err error) {
	s.T.Helper()
	s.Must("init")
	c := s.Command(apply...)
	log, err := os.Create(filepath.Join(s.T.TempDir(), "log"))
	if err != nil {
		return out, 0, err
	}
	defer log.Close()
	c.Stdout, c.Stderr = log, log
	if out, err = disk.Run(c, s.Dir, cut); err != nil || !out.WasCut {
		return out, 0, err
	}
	s.settled()
	for name, content := range out.Image {
		if now, err := os.ReadFile(filepath.Join(s.Dir, name)); err == nil && string(now) != string(content) {
			lost++
		}
	}
	return out, lost, out.Restore(s.Dir)
}
