package group_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/service/group"
	"github.com/millipede-iac/millipede/state/log"
)

// inGroup runs a test with a group in which alice leads, and all others follow.
func inGroup(t *testing.T, f func(t *testing.T, c *cluster, alice, bob, carol *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "alice", "bob", "carol")
		defer c.end()
		c.nodes[0].start()
		c.lead("alice", time.Second)
		for _, n := range c.nodes[1:] {
			n.start()
		}
		time.Sleep(time.Second)
		c.stored(c.nodes[0])
		f(t, c, c.nodes[0], c.nodes[1], c.nodes[2])
		for _, wrong := range c.wrong {
			t.Error(wrong)
		}
	})
}

// end ends all processes.
func (c *cluster) end() {
	for _, p := range c.started {
		p.n.resume()
		p.cancel()
		<-p.done
	}
}

// lead waits until a member leads, and nobody else; an empty name means any one. It returns for how long.
func (c *cluster) lead(name string, most time.Duration) time.Duration {
	c.t.Helper()
	began := time.Now()
	for {
		who, _ := c.leaders()
		if who == name && who != "" || name == "" && who != "" && !strings.Contains(who, " ") {
			return time.Since(began)
		}
		if time.Since(began) > most {
			c.t.Fatalf("after %s %q leads, and should be %q", most, who, name)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// stored has a member store a change.
func (c *cluster) stored(n *node) {
	c.t.Helper()
	id := n.p.change()
	time.Sleep(50 * time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.acked[id]; !ok {
		c.t.Errorf("%s has not stored a change", n.name)
	}
}

// ends waits until the process ends by itself.
func (n *node) ends(most time.Duration) error {
	n.c.t.Helper()
	select {
	case <-n.p.done:
		return n.p.err
	case <-time.After(most):
		n.c.t.Fatalf("%s has not ended after %s", n.name, most)
		return nil
	}
}

func TestOneMemberLeadsAndTheOthersKnowIt(t *testing.T) {
	inGroup(t, func(t *testing.T, c *cluster, alice, bob, carol *node) {
		_, epoch := c.leaders()
		for range 100 {
			time.Sleep(term / 10)
			if who, now := c.leaders(); who != "alice" || now != epoch {
				t.Fatalf("%q leads in epoch %d", who, now)
			}
		}
		for _, n := range []*node{bob, carol} {
			if got := strings.Join(n.p.leaders, " "); got != "alice" {
				t.Errorf("%s has followed %q", n.name, got)
			}
			if i := n.p.member.Info(); i.Leads || i.Epoch != epoch || i.Sequence == 0 {
				t.Errorf("%s says %+v", n.name, i)
			}
		}
		if others := alice.p.member.Others(); len(others) != 2 || others[0].Name != "bob" || others[1].Name != "carol" {
			t.Errorf("alice has seen %+v", others)
		}
		alice.p.member.Forget("bob")
		if others := alice.p.member.Others(); len(others) != 1 {
			t.Errorf("a member that was forgotten is there: %+v", others)
		}
	})
}

func TestAnotherMemberLeadsATermAfterTheLeaderHasGone(t *testing.T) {
	for what, gone := range map[string]func(n *node){
		"killed":       func(n *node) { n.kill() },
		"cut off":      func(n *node) { n.conn.Cut(); n.part(true, false) },
		"offline":      func(n *node) { n.part(false, true) },
		"paused":       func(n *node) { n.pause(false) },
		"standing":     func(n *node) { n.pause(true) },
		"a stale read": func(n *node) { n.conn.Cut() },
	} {
		t.Run(what, func(t *testing.T) {
			inGroup(t, func(t *testing.T, c *cluster, alice, bob, carol *node) {
				_, epoch := c.leaders()
				began := time.Now()
				gone(alice)
				for {
					_, b := bob.p.leads()
					_, d := carol.p.leads()
					if b || d {
						break
					}
					if time.Sleep(5 * time.Millisecond); time.Since(began) > 2*term {
						t.Fatal("nobody leads after two terms")
					}
				}
				if took := time.Since(began); took < term*3/4 || took > term*3/2 {
					t.Errorf("another member leads after %s", took)
				}
				alice.conn.Heal()
				alice.part(false, false)
				alice.resume()
				if !alice.p.running() {
					alice.start()
				}
				time.Sleep(2 * term)
				who, now := c.leaders()
				if who == "alice" || strings.Contains(who, " ") || who == "" || now != epoch+1 {
					t.Errorf("%q leads in epoch %d after %d", who, now, epoch)
				}
				if got := alice.p.leaders; len(got) == 0 || got[len(got)-1] != who {
					t.Errorf("alice, which is back, follows %q", got)
				}
			})
		})
	}
}

func TestALeaderThatAnswersIsNotReplacedWhenTheLogSeemsSilent(t *testing.T) {
	inGroup(t, func(t *testing.T, c *cluster, alice, bob, carol *node) {
		_, epoch := c.leaders()
		before := bob.p.appends.Load()
		bob.conn.Cut() // its server shows it nothing new
		time.Sleep(7 * term)
		if n := bob.p.appends.Load() - before; n != 0 {
			t.Errorf("bob has claimed the lead: %d entries", n)
		}
		bob.conn.Heal()
		time.Sleep(term)
		if who, now := c.leaders(); who != "alice" || now != epoch {
			t.Errorf("%q leads in epoch %d", who, now)
		}
	})
}

func TestTheLeadIsHandedOverWithinATerm(t *testing.T) {
	inGroup(t, func(t *testing.T, c *cluster, alice, bob, carol *node) {
		_, epoch := c.leaders()
		alice.p.handOver("carol")
		if took := c.lead("carol", term); took > 100*time.Millisecond {
			t.Errorf("it took %s", took)
		}
		if _, now := c.leaders(); now != epoch+1 {
			t.Errorf("carol leads in epoch %d after %d", now, epoch)
		}
		c.stored(carol)
		if carol.p.lead.Before != "alice" {
			t.Errorf("before carol, %q has led", carol.p.lead.Before)
		}
		time.Sleep(2 * term)
		if who, now := c.leaders(); who != "carol" || now != epoch+1 {
			t.Errorf("%q leads in epoch %d", who, now)
		}
		if got := alice.p.leaders; len(got) == 0 || got[len(got)-1] != "carol" {
			t.Errorf("alice follows %q", got)
		}
	})
}

func TestWhoeverWasGivenTheLeadAndIsGoneIsReplaced(t *testing.T) {
	inGroup(t, func(t *testing.T, c *cluster, alice, bob, carol *node) {
		carol.kill()
		alice.p.handOver("carol")
		time.Sleep(10 * time.Millisecond)
		if who, _ := c.leaders(); who != "" {
			t.Errorf("%q leads", who)
		}
		c.lead("", 2*term)
		if who, _ := c.leaders(); who != "alice" && who != "bob" {
			t.Errorf("%q leads", who)
		}
		carol.start()
	})
}

func TestTheLastLeaderLeadsAtOnceAfterItsRestart(t *testing.T) {
	inGroup(t, func(t *testing.T, c *cluster, alice, bob, carol *node) {
		alice.kill()
		time.Sleep(100 * time.Millisecond)
		alice.start()
		if took := c.lead("alice", term/2); took > 200*time.Millisecond {
			t.Errorf("it took %s", took)
		}
		if alice.p.lead.Before != "alice" {
			t.Errorf("before it, %q has led", alice.p.lead.Before)
		}
		c.stored(alice)
	})
}

func TestTheSecondProcessOfAMemberEnds(t *testing.T) {
	inGroup(t, func(t *testing.T, c *cluster, alice, bob, carol *node) {
		second := c.join("alice")
		second.start()
		if err := second.ends(term); !errors.Is(err, group.ErrTwice) || !strings.Contains(err.Error(), "-member") {
			t.Errorf("it ended with %v", err)
		}
		if _, leads := alice.p.leads(); !leads {
			t.Error("alice leads no more")
		}
	})
}

func TestOneOfTwoProcessesThatAreGivenTheLeadHasIt(t *testing.T) {
	inGroup(t, func(t *testing.T, c *cluster, alice, bob, carol *node) {
		second := c.join("bob")
		second.start()
		time.Sleep(term)
		alice.p.handOver("bob")
		time.Sleep(2 * term)
		one, other := bob, second
		if !one.p.running() {
			one, other = second, bob
		}
		if err := other.ends(term); !errors.Is(err, group.ErrTwice) {
			t.Errorf("one ended with %v", err)
		}
		if _, leads := one.p.leads(); !leads {
			t.Error("the other one does not lead")
		}
		c.stored(one)
	})
}

// A restored snapshot of the log lacks what the leader has acknowledged.
func TestNobodyLeadsWhenTheLogHasLostWhatAMemberHas(t *testing.T) {
	inGroup(t, func(t *testing.T, c *cluster, alice, bob, carol *node) {
		carol.kill()
		carol.part(true, false)
		bob.kill() // it has not what comes now
		c.stored(alice)
		c.stored(alice)
		c.log.Lose(int(c.log.Last() - bob.p.member.Info().Sequence)) //nolint:gosec // a few
		bob.start()
		if err := alice.ends(time.Minute); !errors.Is(err, log.ErrLost) {
			t.Errorf("alice ended with %v", err)
		}
		if err := bob.ends(time.Minute); !errors.Is(err, group.ErrAhead) ||
			!strings.Contains(err.Error(), "group recover") {
			t.Errorf("bob ended with %v", err)
		}
	})
}

func TestNobodyLeadsWhenAMemberHasAnotherEntry(t *testing.T) {
	inGroup(t, func(t *testing.T, c *cluster, alice, bob, carol *node) {
		alice.kill()
		carol.kill()
		bob.kill()
		at := bob.p.member.Info()
		c.log.Lose(1)
		before := c.log.Last()
		// Alice's copy ends at the entry that was lost; carol's is made anew, and gets another entry in its place.
		c.nodes[2].path += ".new"
		carol.start()
		c.lead("carol", 3*term)
		if c.log.Last() <= before || at.Sequence == 0 {
			t.Fatal("nothing was appended")
		}
		bob.start()
		if err := bob.ends(time.Minute); !errors.Is(err, log.ErrChain) {
			t.Errorf("bob ended with %v", err)
		}
	})
}

// Carol, to which the lead was handed over, was paused; then her server showed the entry, and not those that followed.
func TestWhoeverTakesTheLeadTooLateAnswersNothing(t *testing.T) {
	inGroup(t, func(t *testing.T, c *cluster, alice, bob, carol *node) {
		carol.pause(false)
		alice.p.handOver("carol")
		time.Sleep(10 * time.Millisecond)
		carol.conn.Cut()
		time.Sleep(2 * term)
		who, _ := c.leaders()
		for _, n := range []*node{alice, bob} {
			if n.name == who {
				c.stored(n)
			}
		}
		carol.resume()
		for range 100 {
			time.Sleep(term / 50)
			carol.p.read() // notes what is missing
		}
		if carol.p.lead.Writer == nil {
			t.Error("carol has never taken the lead")
		}
		carol.conn.Heal()
		time.Sleep(2 * term)
		if now, _ := c.leaders(); now != who || who == "" {
			t.Errorf("%q leads, and before it %q", now, who)
		}
	})
}
