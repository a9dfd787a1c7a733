package store

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/state/seal"
)

// Each of a thousand readers of one log was sent each line separately, which took more CPU time than there was: they
// fell behind by seconds.
func TestManyReadersOfALogGetSeveralLinesAtOnceAndASingleOneEachLine(t *testing.T) {
	for claim, c := range map[string]struct{ readers, answers int }{
		"a single one gets each line":   {1, 10},
		"many get those of a moment":    {1000, 3},
		"a few hardly wait for a bunch": {5, 10},
	} {
		t.Run(claim, func(t *testing.T) {
			key, err := seal.NewKey(seal.NewSecret())
			if err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.TempDir(), key)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			synctest.Test(t, func(t *testing.T) {
				log, err := s.OpenLog("logs/one")
				if err != nil {
					t.Fatal(err)
				}
				want := strings.Repeat("a line\n", 10)
				var all sync.WaitGroup
				for range c.readers {
					all.Go(func() {
						got, answers := "", 0
						for got != want {
							part, err := log.ReadAt(context.Background(), int64(len(got)), 1<<20)
							if err != nil || len(part) == 0 {
								t.Errorf("%q, %v", part, err)
								return
							}
							got += string(part)
							answers++
						}
						if answers > c.answers {
							t.Errorf("%d answers", answers)
						}
					})
				}
				synctest.Wait()
				for range 10 {
					time.Sleep(100 * time.Millisecond)
					if _, err := log.Write([]byte("a line\n")); err != nil {
						t.Error(err)
					}
				}
				began := time.Now()
				all.Wait()
				if late := time.Since(began); late > gatherMost {
					t.Errorf("the last line was read after %s", late)
				}
				if err := log.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
