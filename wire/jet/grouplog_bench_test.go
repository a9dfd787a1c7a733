package jet_test

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/state/groupcommit"
	"github.com/millipede-iac/millipede/state/log"
	"github.com/millipede-iac/millipede/state/recorded"
	"github.com/millipede-iac/millipede/wire/jet"
)

// loggedStore is a store whose commits go through a log, with the queue of real ones.
type loggedStore struct {
	db    *bbolt.DB
	log   *log.Writer
	queue *groupcommit.Queue
}

func openLogged(tb testing.TB, l *jet.GroupLog, path string, first bool) *loggedStore {
	tb.Helper()
	key, err := log.Key([]byte("secret"), l.Incarnation(), "bench")
	if err != nil {
		tb.Fatal(err)
	}
	w, err := log.Open(tb.Context(), path, log.Options{Transport: l, Incarnation: l.Incarnation(), Store: "bench",
		Member: "alice", Key: key, First: first, Boot: "boot"})
	if err != nil {
		tb.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		tb.Fatal(err)
	}
	s := &loggedStore{db: db, log: w}
	s.queue = groupcommit.New(func(ops []groupcommit.Op) (failed int, err error) {
		failed = -1
		err = recorded.Through(db, w, func(tx *recorded.Tx) error { return groupcommit.Run(tx, ops, &failed) })
		return failed, err
	})
	return s
}

func (s *loggedStore) put(key string, value []byte) error {
	return s.queue.Do(func(tx *recorded.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("values"))
		if err != nil {
			return err
		}
		return b.Put([]byte(key), value)
	})
}

func (s *loggedStore) close(tb testing.TB) {
	tb.Helper()
	s.queue.Close()
	if err := s.db.Close(); err != nil {
		tb.Error(err)
	}
	if err := s.log.Close(); err != nil {
		tb.Error(err)
	}
}

// BenchmarkCommitsThroughTheLog measures commits of one store: one at a time, and of sixteen writers that share
// entries.
func BenchmarkCommitsThroughTheLog(b *testing.B) {
	for _, servers := range []int{1, 3} {
		for _, writers := range []int{1, 16} {
			b.Run(fmt.Sprintf("servers=%d/writers=%d", servers, writers), func(b *testing.B) {
				l := logOn(b, servers)
				s := openLogged(b, l, filepath.Join(b.TempDir(), "store.db"), true)
				defer s.close(b)
				value := make([]byte, 1<<10)
				var mu sync.Mutex // guards took
				took := make([]time.Duration, 0, b.N)
				var group sync.WaitGroup
				b.ResetTimer()
				for w := range writers {
					group.Go(func() {
						for i := w; i < b.N; i += writers {
							began := time.Now()
							if err := s.put(fmt.Sprint(i%1000), value); err != nil {
								b.Error(err)
								return
							}
							mu.Lock()
							took = append(took, time.Since(began))
							mu.Unlock()
						}
					})
				}
				group.Wait()
				b.StopTimer()
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
			})
		}
	}
}

// logOn starts servers, and makes a log there.
func logOn(b *testing.B, servers int) *jet.GroupLog {
	b.Helper()
	address := ""
	for _, o := range clusterOptions(b, servers) {
		s, err := server.NewServer(o)
		if err != nil {
			b.Fatal(err)
		}
		s.Start()
		b.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		if !s.ReadyForConnections(10 * time.Second) {
			b.Fatal("the server does not become ready")
		}
		address = s.ClientURL()
	}
	c, err := jet.Connect(b.Context(), jet.Options{URL: address})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.Error(err)
		}
	})
	for {
		l, err := c.GroupLogs().Create(b.Context(), fmt.Sprint("bench", groups.Add(1)), incarnation, 0)
		if err == nil {
			return l
		}
		b.Log(err)
	}
}

// clusterOptions returns the options of so many servers, which find each other.
func clusterOptions(b *testing.B, servers int) (all []*server.Options) {
	b.Helper()
	var routes []*url.URL
	for i := range servers {
		o := &server.Options{ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: b.TempDir(), SyncAlways: true}
		if servers > 1 {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			port := listener.Addr().(*net.TCPAddr).Port
			if err := listener.Close(); err != nil {
				b.Fatal(err)
			}
			o.Cluster = server.ClusterOpts{Name: "three", Host: "127.0.0.1", Port: port}
			routes = append(routes, &url.URL{Scheme: "nats-route", Host: fmt.Sprint("127.0.0.1:", port)})
		}
		all = append(all, o)
	}
	for _, o := range all {
		o.Routes = routes
	}
	return all
}

// BenchmarkFollow measures how fast a member that was away applies the entries of a store.
func BenchmarkFollow(b *testing.B) {
	for _, servers := range []int{1, 3} {
		b.Run(fmt.Sprintf("servers=%d", servers), func(b *testing.B) {
			l := logOn(b, servers)
			s := openLogged(b, l, filepath.Join(b.TempDir(), "store.db"), true)
			value := make([]byte, 1<<10)
			for i := range b.N {
				if err := s.put(fmt.Sprint(i%1000), value); err != nil {
					b.Fatal(err)
				}
			}
			s.close(b)
			key, err := log.Key([]byte("secret"), l.Incarnation(), "bench")
			if err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			c, err := log.OpenCopy(filepath.Join(b.TempDir(), "copy.db"), log.Options{Transport: l,
				Incarnation: l.Incarnation(), Store: "bench", Member: "bob", Key: key})
			if err != nil {
				b.Fatal(err)
			}
			if err := c.Follow(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := c.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}
