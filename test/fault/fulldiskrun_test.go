package fault

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/test/stage/disk"
	"github.com/millipede-iac/millipede/test/stage/nats"
	"github.com/millipede-iac/millipede/test/stage/site"
)

// The sizes of the disks that a run needs. Only one of them gets full at a time.
const (
	estateSize  = 64 << 20
	journalSize = 4 << 20
	streamSize  = 64 << 20
)

// lasting is how long a disk is full in the tests in which it has space again before a process stops trying.
const lasting = 1500 * time.Millisecond

// volume mounts a new disk on a directory. It returns nil if this process has no permission to mount.
func volume(t *testing.T, dir string, size int) *disk.Volume {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o700))
	v, err := disk.Mount(dir, size)
	if errors.Is(err, disk.ErrUnsupported) {
		return nil
	}
	must(t, err)
	t.Cleanup(func() { must(t, v.Close()) })
	return v
}

// streams moves the empty store of the site's server to a new disk.
func streams(s *site.Site, server *nats.Server) *disk.Volume {
	s.T.Helper()
	must(s.T, server.Kill())
	v := volume(s.T, s.Store, streamSize)
	must(s.T, server.Restart(site.Waiting(s.T)))
	return v
}

// full is a trial on which one of the disks gets full.
type full struct {
	*trial
	disk *disk.Volume
	// again returns the actions of a user, in addition to freeing space, that a run needs before it can continue; nil for
	// none.
	again func()
}

// crowded has a function for each disk that may get full, which creates a trial.
var crowded = map[string]func(t *testing.T) full{
	"everything, in one process": func(t *testing.T) full {
		s := newTrial(t, crowd, 100)
		return full{trial: s, disk: volume(t, filepath.Join(s.Dir, ".millipede"), estateSize)}
	},
	"the coordinator's": func(t *testing.T) full {
		s := newTrial(t, crowd, 100)
		s.Server()
		s.Worker("default")
		return full{trial: s, disk: volume(t, filepath.Join(s.Dir, ".millipede"), estateSize)}
	},
	"the worker's": func(t *testing.T) full {
		s := newTrial(t, crowd, 100)
		s.Server()
		w := s.NewWorker("default")
		v := volume(t, filepath.Join(w.Dir, "journal"), journalSize)
		w.Start()
		return full{trial: s, disk: v}
	},
	"the server's": func(t *testing.T) full {
		s := newTrial(t, crowd, 100)
		server := s.Server()
		v := streams(s.Site, server)
		s.Worker("default")
		return full{s, v, func() {
			// After a failed write a server refuses all writes until it is restarted. Each command has to report that.
			if r := s.Run(resume...); r.Code != 1 || !strings.Contains(r.Text, "Error: ") {
				t.Errorf("before the server was restarted, a run has exit status %d\n%s", r.Code,
					site.Tail(r.Text))
			}
			must(t, server.Kill())
			must(t, server.Restart(site.Waiting(t)))
		}}
	},
}

// With a permanently full disk, runs hung: they wrote nothing to a store that would have reported the error, and the
// worker returned one task after the other. With a temporarily full disk they hung because NATS continues to refuse
// writes.
func TestAFullDiskEndsARunWithAnErrorAndTheRunContinuesWhenThereIsSpace(t *testing.T) {
	t.Parallel()
	for name, set := range crowded {
		for _, forGood := range []bool{true, false} {
			if *kills <= fewKills && forGood != (name == "the worker's") {
				continue // an ordinary test run has four of the eight cases, mostly the fast ones
			}
			t.Run(fmt.Sprintf("%s, permanently: %t", name, forGood), func(t *testing.T) {
				t.Parallel()
				s := set(t)
				if s.disk == nil {
					t.Skip("mounting a disk needs root")
				}
				s.Must("init")
				p := s.Start(apply...)
				site.Eventually(t, "four machines were created", func() bool { return s.Finished("create") >= 4 })
				must(t, s.disk.Fill())
				if !forGood {
					wait(lasting)
					must(t, s.disk.Free())
				}
				code := site.Exit(t, p)
				if code != 0 && (code != 1 || !strings.Contains(p.Output(), "Error: ")) || code == 0 && forGood {
					t.Errorf("exit status %d\n%s", code, site.Tail(p.Output()))
				}
				t.Logf("exit status %d, %d machines were created", code, s.Finished("create"))
				must(t, s.disk.Free())
				if s.again != nil && code != 0 {
					s.again()
				}
				s.goOn(apply)
				s.complete(crowd)
			})
		}
	}
}
