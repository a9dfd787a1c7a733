package renewal

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

// provider requests a renewal every five seconds and takes a second for it. Its private data counts the renewals.
type provider struct {
	renewed int
	fails   int // the renewal that fails; 0 for none
	warns   diag.List
	pools   map[string]bool
}

func (p *provider) call(ctx context.Context, pool string, task *wire.Task) (*wire.Result, diag.List) {
	if want := fmt.Sprint(p.renewed); string(task.Ephemeral.Private) != want || task.Ephemeral.Op != "renew" {
		return nil, diag.Errors("Wrong request", fmt.Sprintf("%s with %q, not %q.", task.Ephemeral.Op,
			task.Ephemeral.Private, want), nil)
	}
	select {
	case <-ctx.Done():
		return nil, diag.Errors("Cut off", "", nil)
	case <-time.After(time.Second):
	}
	p.renewed++
	p.pools[pool] = true
	if p.renewed == p.fails {
		return nil, diag.Errors("Failed to renew", "", nil)
	}
	return &wire.Result{Ephemeral: &wire.EphemeralResult{Private: fmt.Append(nil, p.renewed),
		RenewAt: time.Now().Add(5 * time.Second)}}, p.warns
}

func open() Open {
	return Open{Address: "ephemeral.t.a", Type: "t", Pool: "eu", Private: []byte("0"),
		RenewAt: time.Now().Add(5 * time.Second)}
}

func TestAnObjectIsRenewedUntilItIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{pools: map[string]bool{}}
		k := NewRenewer(p.call)
		defer k.Stop()
		k.Add(open())
		time.Sleep(20 * time.Second)
		private, diags := k.Release("ephemeral.t.a", []byte("0"))
		if string(private) != "3" || len(diags) > 0 || !p.pools["eu"] || len(p.pools) != 1 {
			t.Errorf("after 20 s the object was closed with %q, and %v, in %v", private, diags, p.pools)
		}
		time.Sleep(time.Minute)
		if p.renewed != 3 {
			t.Errorf("the object was renewed after its release")
		}
	})
}

// An object that was renewed a hundred times had the same warning a hundred times.
func TestAWarningOfRenewalsIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{pools: map[string]bool{}, warns: diag.List{diag.New(diag.Warning, "Expires soon", "", nil)}}
		k := NewRenewer(p.call)
		defer k.Stop()
		k.Add(open())
		time.Sleep(20 * time.Second)
		if _, diags := k.Release("ephemeral.t.a", nil); len(diags) != 1 || p.renewed != 3 {
			t.Errorf("after %d renewals: %v", p.renewed, diags)
		}
	})
}

func TestTheReleaseWaitsForARenewalThatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{pools: map[string]bool{}}
		k := NewRenewer(p.call)
		defer k.Stop()
		k.Add(open())
		time.Sleep(5*time.Second + time.Millisecond)
		if private, diags := k.Release("ephemeral.t.a", nil); string(private) != "1" || len(diags) > 0 {
			t.Errorf("the object was closed with %q, and %v", private, diags)
		}
	})
}

func TestAFailedRenewalIsToldAtTheReleaseAndIsTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{pools: map[string]bool{}, fails: 2}
		k := NewRenewer(p.call)
		defer k.Stop()
		k.Add(open())
		time.Sleep(time.Minute)
		private, diags := k.Release("ephemeral.t.a", nil)
		if string(private) != "1" || p.renewed != 2 || len(diags) != 1 || diags[0].Address != "ephemeral.t.a" {
			t.Errorf("renewed %d times; closed with %q, and %v", p.renewed, private, diags)
		}
	})
}

func TestWhatNeedsNoRenewalIsClosedAsItWasOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{pools: map[string]bool{}}
		k := NewRenewer(p.call)
		defer k.Stop()
		o := open()
		o.RenewAt = time.Time{}
		k.Add(o)
		time.Sleep(time.Minute)
		if private, diags := k.Release("ephemeral.t.a", []byte("0")); string(private) != "0" || len(diags) > 0 ||
			p.renewed != 0 {
			t.Errorf("renewed %d times; closed with %q, and %v", p.renewed, private, diags)
		}
	})
}

func TestStopEndsWhatIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{pools: map[string]bool{}}
		k := NewRenewer(p.call)
		k.Add(open())
		time.Sleep(5*time.Second + time.Millisecond)
		k.Stop() // while a renewal is in progress; synctest fails when a goroutine is left
		time.Sleep(time.Minute)
		if p.renewed != 0 {
			t.Errorf("the object was renewed %d times", p.renewed)
		}
	})
}
