package jet_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/state/log"
	"github.com/millipede-iac/millipede/state/log/logtest"
	"github.com/millipede-iac/millipede/wire/jet"
)

var incarnation = log.ID{1, 2, 3}

// groups gives each test a group of its own.
var groups atomic.Int64

// logsOf returns the suite's way to open the log of a new group.
func logsOf(member func(t *testing.T) *jet.Conn) func(t *testing.T) func(t *testing.T) log.Transport {
	return func(t *testing.T) func(t *testing.T) log.Transport {
		group := fmt.Sprint("group ", groups.Add(1))
		must(member(t).GroupLogs().Create(t.Context(), group, incarnation, 0))(t)
		return func(t *testing.T) log.Transport { return must(member(t).GroupLogs().Open(t.Context(), group))(t) }
	}
}

func TestAnEmbeddedServerKeepsTheContractOfTheLog(t *testing.T) {
	e := embed(t, t.TempDir())
	defer closeAll(t, e)
	c := connect(t, e)
	defer closeAll(t, c)
	logtest.Run(t, logsOf(func(*testing.T) *jet.Conn { return c }))
}

func TestThreeServersKeepTheContractOfTheLog(t *testing.T) {
	servers := cluster(t)
	alice := member(t, urlsOf(servers))
	bob := member(t, servers[1].ClientURL())
	turn := 0
	logtest.Run(t, logsOf(func(*testing.T) *jet.Conn {
		turn++
		return []*jet.Conn{alice, bob}[turn%2]
	}))
}

func TestTheStreamsOfALogCanLoseNothing(t *testing.T) {
	servers := cluster(t)
	c := member(t, urlsOf(servers))
	l := must(c.GroupLogs().Create(t.Context(), "prod", incarnation, 64<<20))(t)
	if l.Incarnation() != incarnation {
		t.Errorf("the incarnation is %s", l.Incarnation())
	}
	entries, parts := configOf(t, c, "LOG-prod"), configOf(t, c, "LOGPARTS-prod")
	for _, cfg := range []jetstream.StreamConfig{entries, parts} {
		if cfg.Replicas != 3 || cfg.Storage != jetstream.FileStorage || cfg.Retention != jetstream.LimitsPolicy ||
			cfg.Discard != jetstream.DiscardNew || cfg.MaxAge != 0 || cfg.AllowDirect || cfg.MaxBytes != 64<<20 {
			t.Errorf("%+v", cfg)
		}
	}
	if !entries.DenyDelete {
		t.Error("single entries can be deleted")
	}
	if _, err := c.GroupLogs().Create(t.Context(), "prod", log.ID{9}, 0); !errors.Is(err, jet.ErrGroupExists) {
		t.Errorf("a second group with the name: %v", err)
	}
	if again := must(c.GroupLogs().Create(t.Context(), "prod", incarnation, 0))(t); again.Incarnation() != incarnation {
		t.Errorf("the incarnation became %s", again.Incarnation())
	}
	if _, err := c.GroupLogs().Open(t.Context(), "none"); !errors.Is(err, jet.ErrNoGroup) {
		t.Errorf("a group that is not there: %v", err)
	}
}

func TestAStreamThatWouldLoseEntriesIsNoLog(t *testing.T) {
	e := embed(t, t.TempDir())
	defer closeAll(t, e)
	c := connect(t, e)
	defer closeAll(t, c)
	for fault, change := range map[string]func(cfg *jetstream.StreamConfig){
		"an age":          func(cfg *jetstream.StreamConfig) { cfg.MaxAge = time.Hour },
		"direct gets":     func(cfg *jetstream.StreamConfig) { cfg.AllowDirect = true },
		"discarding old":  func(cfg *jetstream.StreamConfig) { cfg.Discard = jetstream.DiscardOld },
		"a message limit": func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs = 1000 },
		"one per subject": func(cfg *jetstream.StreamConfig) { cfg.MaxMsgsPerSubject = 1 },
		"no incarnation":  func(cfg *jetstream.StreamConfig) { cfg.Metadata = nil },
	} {
		t.Run(fault, func(t *testing.T) {
			group := fmt.Sprint("g", groups.Add(1))
			must(c.GroupLogs().Create(t.Context(), group, incarnation, 0))(t)
			cfg := configOf(t, c, "LOG-"+group)
			change(&cfg)
			must(js(c).UpdateStream(t.Context(), cfg))(t)
			if _, err := c.GroupLogs().Open(t.Context(), group); err == nil {
				t.Error("it is taken for a log")
			}
		})
	}
}

// A message that is published and not stored, as after a failed election, wakes a reader that finds nothing; it has to
// go on waiting.
func TestAnAnnouncedEntryThatIsNotStoredDoesNotEndTheWaiting(t *testing.T) {
	e := embed(t, t.TempDir())
	defer closeAll(t, e)
	c := connect(t, e)
	defer closeAll(t, c)
	l := must(c.GroupLogs().Create(t.Context(), "prod", incarnation, 0))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	type answer struct {
		sequence uint64
		err      error
	}
	read := make(chan answer, 1)
	go func() {
		sequence, _, err := l.Next(ctx, "one", 0, 20*time.Second)
		read <- answer{sequence, err}
	}()
	for range 3 {
		var refused *log.Refused
		if _, err := l.Append(ctx, "one", 7, []byte("refused")); !errors.As(err, &refused) {
			t.Fatal(err)
		}
	}
	last := must(logtest.Append(ctx, l, "one", 0, "stored"))(t)
	if got := <-read; got.err != nil || got.sequence != last {
		t.Errorf("%+v", got)
	}
}

func TestAFullLogAnswersThatItIsFull(t *testing.T) {
	url := listen(t)
	c := must(jet.Connect(t.Context(), jet.Options{URL: url, User: "coordinator", Password: "c", Provision: true,
		Timeout: 2 * time.Second, Log: logTo(t)}))(t)
	defer closeAll(t, c)
	l := must(c.GroupLogs().Create(t.Context(), "prod", incarnation, 8<<20))(t)
	last, big := uint64(0), make([]byte, log.MaxInline)
	for {
		sequence, err := l.Append(t.Context(), "one", last, big)
		if err == nil {
			last = sequence
			continue
		}
		if !errors.Is(err, log.ErrUnanswered) || last < 8 {
			t.Errorf("after %d entries: %v", last, err)
		}
		t.Log(err)
		break
	}
}
