package fault

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/disk"
	"github.com/millipede-iac/millipede/test/stage/site"
)

// The test simulates a power failure while a single process with all parts (the store, the worker's journal, JetStream)
// creates machines, and continues with the content of the disk: data that was written but not synced is lost.
func TestAPowerFailureLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	all, _, err := cutOff(newTrial(t, few, 50), disk.Cut{})
	if errors.Is(err, disk.ErrUnsupported) {
		t.Skip(err)
	}
	must(t, err)
	if all.Code != 0 || all.Syncs < 4*few {
		t.Fatalf("without a power failure, the apply has exit status %d, and %d syncs", all.Code, all.Syncs)
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
		s.Must("init") // lost packages of providers can be installed again, so they do not matter here
		s.goOn(apply)
		s.complete(few)
		t.Logf("%+v of %d: the process ran %v; %d files were lost or shorter; %d creations in doubt", cut, all.Syncs,
			!out.WasCut, lost, s.doubts)
		if t.Failed() {
			return
		}
	}
}

// The test simulates a power failure of a separate nats-server and restarts it with the content of its disk. Meanwhile
// the coordinator and the worker run, and rely on its acknowledgements.
func TestAPowerFailureOfASeparateServerLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	cuts := 2
	if *kills > fewKills {
		cuts = *kills / 10
	}
	chance := rand.New(rand.NewPCG(*seed, 2))
	for i := range cuts {
		// The power fails at one of the first 160 syncs (an apply has more; most of them belong to the creation of streams),
		// or at a random moment.
		cut, begun := disk.Cut{Sync: 1 + chance.IntN(160), After: chance.IntN(2) == 0}, few+1
		if i%2 == 1 {
			cut, begun = disk.Cut{}, 1+chance.IntN(few)
		}
		s := newTrial(t, few, 100)
		server := s.Server()
		must(t, server.Stop(site.Waiting(t)))
		ctx, stop := context.WithCancel(t.Context())
		power := make(chan error, 1)
		var out disk.Outcome
		go func() { // awaited below
			var err error
			out, err = disk.Run(exec.CommandContext(ctx, server.Command().Path, server.Command().Args[1:]...), s.Store,
				cut)
			power <- err
		}()
		site.Eventually(t, "the server accepts connections, or has ended", func() bool {
			c, err := net.Dial("tcp", strings.TrimPrefix(s.NATS, "nats://"))
			return err == nil && c.Close() == nil || len(power) > 0
		})
		if len(power) > 0 { // the server does not sync before a stream exists
			stop()
			if err := <-power; errors.Is(err, disk.ErrUnsupported) {
				t.Skip(err)
			}
			t.Fatalf("the server has ended immediately: %+v", out)
		}
		s.Worker("default")
		s.Must("init")
		running := s.Start(apply...)
		site.Eventually(t, "it is time for the power failure, or the apply has ended", func() bool {
			select {
			case <-running.Done():
				return true
			default:
				return len(power) > 0 || s.Begun("create") >= begun
			}
		})
		stop()
		must(t, <-power)
		lost := lostFrom(s.Store, out)
		must(t, out.Restore(s.Store))
		must(t, server.Restart(site.Waiting(t)))
		site.Exit(t, running)
		s.goOn(apply)
		s.complete(few)
		for _, alarm := range []string{"The message store lost data", "The protocol between coordinator and workers " +
			"was violated"} {
			if strings.Contains(running.Output(), alarm) {
				t.Errorf("the output of the apply contains %q", alarm)
			}
		}
		t.Logf("%+v, or %d creations begun, and %d syncs; %d files were lost or shorter; %d creations in doubt", cut,
			begun, out.Syncs, lost, s.doubts)
		if t.Failed() {
			return
		}
	}
}

// lostFrom returns the number of files in a directory whose content is not completely on the disk.
func lostFrom(dir string, out disk.Outcome) (lost int) {
	for name, content := range out.Image {
		if now, err := os.ReadFile(filepath.Join(dir, name)); err == nil && string(now) != string(content) {
			lost++
		}
	}
	return lost
}

// cutOff runs an apply until the power failure, and then replaces the site's files with the content of the disk. lost
// is the number of files that have lost content.
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
	s.awaitProviders()
	return out, lostFrom(s.Dir, out), out.Restore(s.Dir)
}
