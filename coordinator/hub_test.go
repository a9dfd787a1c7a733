package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/program"
	statemem "github.com/millipede-iac/millipede/state/mem"
	"github.com/millipede-iac/millipede/test/stage/numbers"
	"github.com/millipede-iac/millipede/wire/mem"
)

// Each run fetched the results of its coordinator by itself. If two runs shared a connection, each also received
// results of the other one and kept them until the stream delivered them again.
func TestTwentyRunsOverOneHubDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := mem.New(mem.Options{})
		w, stop := serveTasks(t, system, "default", 1000, time.Second)
		defer stop()
		conn := system.Connect("coordinator")
		defer func() { _ = conn.Close() }()
		shared := hub.New(conn, "c1")
		began := time.Now()
		var group sync.WaitGroup
		for i := range 20 {
			store := statemem.New(statemem.Options{})
			p := numbers.Random(t, 20, uint64(i))
			p.Lane, p.Stored = program.Safe, true
			o := applyOptions(conn, store, p, fmt.Sprintf("a%d-", i))
			o.Hub, o.RunID, o.Parallelism = shared, fmt.Sprintf("run%d", i), 1000
			beginNamed(t, store, o.RunID, 20)
			group.Go(func() {
				out, err := New(o).Run(context.Background())
				if err != nil || out.Status != "done" {
					t.Errorf("run %d: %v, %s", i, err, out.Status)
				}
				storedNumbers(t, store, p)
			})
		}
		group.Wait()
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("the runs took %s; the longest path through a graph has at most 20 operations of a second", took)
		}
		for name, n := range w.began {
			if n != 20 {
				t.Errorf("the operation %s of 20 runs began %d times", name, n)
			}
		}
	})
}

func TestARunThatIsCarriedOutAlreadyIsNotCarriedOutTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system, store := mem.New(mem.Options{}), statemem.New(statemem.Options{})
		_, stop := serveTasks(t, system, "default", 10, time.Minute)
		defer stop()
		conn := system.Connect("coordinator")
		defer func() { _ = conn.Close() }()
		beginRun(t, store, 3)
		shared := hub.New(conn, "c1")
		run := func(ids string) error {
			p := numbers.New(t, 3)
			p.Lane, p.Stored = program.Safe, true
			o := applyOptions(conn, store, p, ids)
			o.Hub = shared
			_, err := New(o).Run(context.Background())
			return err
		}
		first := make(chan error, 1)
		go func() { first <- run("a") }()
		<-time.After(time.Second) // of the bubble: the first one has begun
		if err := run("b"); !errors.Is(err, hub.ErrTaken) {
			t.Errorf("the second one ends with %v", err)
		}
		if err := <-first; err != nil {
			t.Errorf("the first one ends with %v", err)
		}
	})
}
