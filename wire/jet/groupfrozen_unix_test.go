//go:build unix

package jet_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/state/log"
	"github.com/millipede-iac/millipede/state/recorded"
	"github.com/millipede-iac/millipede/wire/jet"
)

// serverVariable has the settings of a server in a process of its own; see TestIsAServerInAProcessOfItsOwn.
const serverVariable = "MILLIPEDE_TEST_SERVER"

// serverSettings are what such a server is told.
type serverSettings struct {
	Name, Dir     string
	Port, Cluster int
	Routes        []int
}

// TestIsAServerInAProcessOfItsOwn is no test: another test starts this program with it, for a server that can be
// stopped by a signal.
func TestIsAServerInAProcessOfItsOwn(t *testing.T) {
	text := os.Getenv(serverVariable)
	if text == "" {
		t.Skip("another test starts it")
	}
	var o serverSettings
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	var routes []*url.URL
	for _, port := range o.Routes {
		routes = append(routes, &url.URL{Scheme: "nats-route", Host: fmt.Sprint("127.0.0.1:", port)})
	}
	startServer(t, server.Options{ServerName: o.Name, Host: "127.0.0.1", Port: o.Port, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: o.Dir, SyncAlways: true, Routes: routes,
		Cluster: server.ClusterOpts{Name: "three", Host: "127.0.0.1", Port: o.Cluster}})
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the other test ends
}

// processRack is three servers in processes.
type processRack struct {
	t        *testing.T
	settings [3]serverSettings
	running  [3]*exec.Cmd
}

func newProcessRack(t *testing.T) *processRack {
	t.Helper()
	r := &processRack{t: t}
	port := func() int {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		return listener.Addr().(*net.TCPAddr).Port
	}
	var routes []int
	for i := range r.settings {
		r.settings[i] = serverSettings{Name: fmt.Sprint("n", i), Dir: t.TempDir(), Port: port(), Cluster: port()}
		routes = append(routes, r.settings[i].Cluster)
	}
	for i := range r.settings {
		r.settings[i].Routes = routes
		r.start(i)
	}
	t.Cleanup(func() {
		for i := range r.running {
			r.kill(i)
		}
	})
	return r
}

func (r *processRack) urls() string {
	var all []string
	for _, s := range r.settings {
		all = append(all, fmt.Sprint("nats://127.0.0.1:", s.Port))
	}
	return strings.Join(all, ",")
}

func (r *processRack) start(i int) {
	r.t.Helper()
	text, err := json.Marshal(r.settings[i])
	if err != nil {
		r.t.Fatal(err)
	}
	c := exec.Command(os.Args[0], "-test.run=^TestIsAServerInAProcessOfItsOwn$", "-test.v")
	c.Env = append(os.Environ(), serverVariable+"="+string(text))
	if _, err := c.StdinPipe(); err != nil { // it ends when this process does
		r.t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.running[i] = c
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == "ready" {
			return
		}
	}
	r.t.Fatal("the server has not become ready")
}

func (r *processRack) kill(i int) {
	if r.running[i] != nil {
		_ = r.running[i].Process.Kill()
		_ = r.running[i].Wait()
	}
	r.running[i] = nil
}

func (r *processRack) signal(i int, s syscall.Signal) {
	if err := r.running[i].Process.Signal(s); err != nil {
		r.t.Error(err)
	}
}

// faults breaks some servers for a while: it stops one or two of them, or kills one.
func (r *processRack) faults(ctx context.Context, random *rand.Rand) {
	first := random.IntN(3)
	second := (first + 1 + random.IntN(2)) % 3
	wait := func() {
		select {
		case <-time.After(time.Duration(500+random.IntN(3500)) * time.Millisecond):
		case <-ctx.Done():
		}
	}
	switch random.IntN(3) {
	case 0:
		r.signal(first, syscall.SIGSTOP)
		wait()
		r.signal(first, syscall.SIGCONT)
	case 1: // two of three: an append that is under way is stored late, or never
		r.signal(first, syscall.SIGSTOP)
		r.signal(second, syscall.SIGSTOP)
		wait()
		r.signal(second, syscall.SIGCONT)
		r.signal(first, syscall.SIGCONT)
	case 2:
		r.kill(first)
		wait()
		r.start(first)
	}
}

// history is what members of a group were told about their changes.
type history struct {
	acknowledged, failed []string
	opened               int
}

// takeTurns has a member write the store, each time until another member has deposed it, or the log has not decided.
func takeTurns(ctx context.Context, t *testing.T, l *jet.GroupLog, member, dir string,
	stop <-chan struct{}) (h history) {
	over := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	for turn := 0; !over(); turn++ {
		o := optionsOn(t, l, member, false)
		o.Patience = 5 * time.Second
		o.Log = nil
		path := filepath.Join(dir, member+".db")
		w, err := log.Open(ctx, path, o)
		if err != nil {
			if !errors.Is(err, log.ErrUnknown) && !errors.Is(err, log.ErrUnanswered) && !errors.Is(err, log.ErrDeposed) {
				t.Errorf("%s opens the store: %v", member, err)
				return h
			}
			continue
		}
		h.opened++
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true})
		if err != nil {
			t.Error(err)
			return h
		}
		for i := 0; w.Err() == nil && !over(); i++ {
			key := fmt.Sprintf("%s-%d-%d", member, turn, i)
			switch err := putThrough(db, w, key); {
			case err == nil || errors.Is(err, log.ErrCopy):
				h.acknowledged = append(h.acknowledged, key)
			case errors.Is(err, log.ErrDeposed):
				h.failed = append(h.failed, key)
			case !errors.Is(err, log.ErrUnknown):
				t.Errorf("%s: %v", member, err)
			}
			select {
			case <-time.After(3 * time.Millisecond): // so that the other one catches up with the end
			case <-stop:
			}
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if turn%3 > 0 { // else as a killed process
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}
		select {
		case <-time.After(200 * time.Millisecond): // the other one writes
		case <-stop:
		}
	}
	return h
}

func putThrough(db *bbolt.DB, w *log.Writer, key string) error {
	return recorded.Through(db, w, func(tx *recorded.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("values"))
		if err != nil {
			return err
		}
		return b.Put([]byte(key), []byte(key))
	})
}

// Two of three servers were stopped by a signal: an append was refused again and again, and was stored six seconds
// later, when they went on.
func TestWithServersThatAreStoppedAndKilledNothingAcknowledgedIsLostAndNothingRefusedComesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // positive
	t.Log("seed", seed)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	r := newProcessRack(t)
	var logs [3]*jet.GroupLog
	for i := range logs {
		c := must(jet.Connect(ctx, jet.Options{URL: r.urls(), Timeout: 2 * time.Second}))(t)
		t.Cleanup(func() { closeAll(t, c) })
		l, err := c.GroupLogs().Create(ctx, "prod", incarnation, 0)
		for err != nil && ctx.Err() == nil { // until they have elected a leader
			l, err = c.GroupLogs().Create(ctx, "prod", incarnation, 0)
		}
		logs[i] = must(l, err)(t)
	}
	first := must(log.Open(ctx, filepath.Join(t.TempDir(), "first.db"), optionsOn(t, logs[2], "carol", true)))(t)
	closeAll(t, first)
	stop, done, dir := make(chan struct{}), make(chan history, 2), t.TempDir()
	for i, member := range []string{"alice", "bob"} {
		go func() { done <- takeTurns(ctx, t, logs[i], member, dir, stop) }()
	}
	random := rand.New(rand.NewPCG(seed, 1))
	for range 8 {
		r.faults(ctx, random)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	close(stop)
	h := <-done
	other := <-done
	h.acknowledged, h.failed = append(h.acknowledged, other.acknowledged...), append(h.failed, other.failed...)
	h.opened += other.opened

	path := filepath.Join(t.TempDir(), "fresh.db")
	fresh := must(log.OpenCopy(path, optionsOn(t, logs[2], "fresh", false)))(t)
	for err := fresh.Follow(ctx); err != nil; err = fresh.Follow(ctx) {
		if !errors.Is(err, log.ErrUnanswered) {
			t.Fatal(err)
		}
	}
	if err := fresh.Close(); err != nil {
		t.Fatal(err)
	}
	db := must(bbolt.Open(path, 0o600, nil))(t)
	defer closeAll(t, db)
	if err := recorded.View(db, func(tx *recorded.Tx) error {
		values := tx.Bucket([]byte("values"))
		for _, key := range h.acknowledged {
			if values.Get([]byte(key)) == nil {
				t.Errorf("%s was acknowledged, and is gone", key)
			}
		}
		for _, key := range h.failed {
			if values.Get([]byte(key)) != nil {
				t.Errorf("%s was refused for good, and is there", key)
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	t.Logf("%d changes acknowledged, %d refused, in %d turns", len(h.acknowledged), len(h.failed), h.opened)
	if len(h.acknowledged) < 100 || len(h.failed) == 0 {
		t.Error("hardly anything was acknowledged")
	}
}
