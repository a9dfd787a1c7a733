package coordinator

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
)

// Who looked at a limit saw that a run held its permits, and neither in which pool nor that nothing was known of what
// they were held for.
func TestOthersAreToldWhatThePermitsOfARunAreHeldFor(t *testing.T) {
	conn := mem.New(mem.Options{}).Connect("c1")
	defer conn.Close()
	now := time.Unix(1_700_000_000, 0)
	x := newExecutor(Options{Hub: hub.New(conn, "c1"), RunID: "r", Who: "ann", Now: func() time.Time { return now },
		NewID: func() string { return "n" }}, newInbox())
	x.ctx = context.Background()
	one, two := loop.PermitKey{Limit: "default", ID: "r-0"}, loop.PermitKey{Limit: "default", ID: "r-1"}
	if _, err := conn.DeclareLimit(t.Context(), wire.Limit{Name: "default", Slots: 2}); err != nil {
		t.Fatal(err)
	}
	for _, k := range []loop.PermitKey{one, two} {
		p, err := x.Hub.Acquire(t.Context(), k.Limit, wire.PermitRequest{ID: k.ID, Run: "r"})
		if err != nil {
			t.Fatal(err)
		}
		x.permits[k] = p
	}
	defer x.Hub.OnPermitUses(x.permitUses)()
	told := func() (list []wire.PermitUse) {
		limits, err := conn.Limits(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"r-0", "r-1"} {
			if u, ok := limits[0].Uses[id]; ok {
				list = append(list, u)
			}
		}
		return list
	}
	record := func(k loop.RecordKind, e journal.Event) {
		x.useRecorded([]loop.Record{{Kind: k, Events: []journal.Event{e}}})
	}
	x.use([]loop.PermitKey{one}, permitUse{pool: "eu", address: "a.b", since: now, attempt: "a1"})
	first := wire.PermitUse{Limit: "default", ID: "r-0", By: "ann", Pool: "eu", Address: "a.b", Since: now}
	idle := wire.PermitUse{Limit: "default", ID: "r-1", By: "ann"}
	if got := told(); !slices.Equal(got, []wire.PermitUse{first, idle}) {
		t.Errorf("an operation and an idle permit: %+v", got)
	}
	record(loop.Suspected, journal.Event{Kind: journal.Suspect, Attempt: "a1"})
	doubt := first
	doubt.InDoubt = true
	if got := told(); !slices.Equal(got, []wire.PermitUse{doubt, idle}) {
		t.Errorf("an operation in doubt: %+v", got)
	}
	record(loop.Concluded, journal.Event{Kind: journal.Finish, Attempt: "a1"})
	if got := told(); !slices.Equal(got, []wire.PermitUse{first, idle}) {
		t.Errorf("an operation whose result came late: %+v", got)
	}
	past, err := loop.PastOf(1, []journal.Event{{Kind: journal.Want}, {Kind: journal.Dispatch, Attempt: "a0", Pool: "us",
		Address: "c.d", At: now, Permits: []string{journal.PermitName("default", "r-1")}}, {Kind: journal.Suspect,
		Attempt: "a0"}})
	if err != nil {
		t.Fatal(err)
	}
	x.useFormer(past)
	former := wire.PermitUse{Limit: "default", ID: "r-1", By: "ann", Pool: "us", Address: "c.d", Since: now, InDoubt: true}
	if got := told(); !slices.Equal(got, []wire.PermitUse{first, former}) {
		t.Errorf("a doubt of an earlier process: %+v", got)
	}
}
