package worker

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/wire"
)

func TestACallIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		synctest.Wait()
		r := <-b.bus.call("eu", planTask("x"))
		if r.Plan == nil || r.Worker != "w1" || r.Pool != "eu" || r.Ended.Before(r.Started) {
			t.Errorf("the response is %+v", r)
		}
		if len(b.opts.Journal.Pending()) != 0 || len(b.bus.register) != 0 {
			t.Error("a call has left an entry in the journal or a register")
		}
	})
}

func TestACallCannotChangeTheWorld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		synctest.Wait()
		provision := &wire.Task{Run: "r", Provision: &wire.ProvisionTask{}}
		for _, task := range []*wire.Task{applyTask("x"), provision} {
			if r := <-b.bus.call("eu", task); r.Apply != nil || len(r.Diagnostics) != 1 ||
				r.Diagnostics[0].Summary != "Operation refused" {
				t.Errorf("the response is %+v", r)
			}
		}
		if b.cloud.applied != 0 {
			t.Error("a call has applied a change")
		}
		builtin := applyTask("x")
		builtin.Provider.Package.Source = "terraform.io/builtin/terraform"
		if r := <-b.bus.call("eu", builtin); r.Apply == nil {
			t.Errorf("an operation that changes only the state was refused: %+v", r)
		}
	})
}

func TestCallsDoNotWaitBehindLongChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) { o.Slots = 2 })
		b.cloud.onApply = slowApply(30 * time.Minute)
		b.start()
		b.bus.put(b.applies(2)...)
		synctest.Wait()

		begun := time.Now()
		if r := <-b.bus.call("eu", planTask("x")); r.Plan == nil || time.Since(begun) != slotTimeout {
			t.Errorf("answered %+v after %s", r, time.Since(begun))
		}
		begun = time.Now()
		ending := &wire.Task{Run: "r", Ephemeral: &wire.EphemeralTask{Op: "close", Type: "test_secret"}}
		if r := <-b.bus.call("eu", ending); r.Ephemeral == nil || time.Since(begun) != 0 {
			t.Errorf("answered %+v after %s", r, time.Since(begun))
		}
		b.kill()
	})
}

func TestACallOfACancelledRunIsNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		synctest.Wait()
		b.bus.tell("cancel", "r")
		if r := <-b.bus.call("eu", planTask("x")); !r.NotStarted {
			t.Errorf("the response is %+v", r)
		}
	})
}

func TestDrainingFinishesTheCallsThatRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.cloud.onPlan = func(ctx context.Context) { _ = sleep.For(ctx, time.Minute) }
		b.start()
		synctest.Wait()
		answer := b.bus.call("eu", planTask("x"))
		synctest.Wait()
		if err := b.stop(); err != nil {
			t.Fatal(err)
		}
		if r := <-answer; r.Plan == nil {
			t.Errorf("the response is %+v", r)
		}
	})
}

func TestAnUnreadableCallIsAnsweredWithAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		synctest.Wait()
		plain, err := wire.Packer{}.Unpack(t.Context(), wire.CallSubject("eu", wire.ProtocolVersion),
			b.bus.serving["eu"](t.Context(), []byte("rubbish")))
		if err != nil {
			t.Fatal(err)
		}
		r, err := wire.DecodeResult(plain)
		if err != nil || r.Diagnostics[0].Summary != "Unreadable task" {
			t.Errorf("answered %+v, %v", r, err)
		}
	})
}

func TestAProviderIsConfiguredWithTheTasksValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		synctest.Wait()
		want := cty.ObjectVal(map[string]cty.Value{"id": cty.NullVal(cty.String), "name": cty.StringVal("eu-west-1")})
		task := planTask("x")
		if r := <-b.bus.call("eu", task); r.Plan == nil || b.cloud.configured != cty.NilVal {
			t.Errorf("without a digest: answered %+v, configured with %#v", r, b.cloud.configured)
		}
		task.Provider.Digest, task.Provider.Config = "d", encode(want, block().ImpliedType())
		if r := <-b.bus.call("eu", task); r.Plan == nil || !b.cloud.configured.RawEquals(want) {
			t.Errorf("with a digest: answered %+v, configured with %#v", r, b.cloud.configured)
		}
		if got := b.cloud.engineVersion; got != b.opts.EngineVersion {
			t.Errorf("the provider was told version %q, want that of OpenTofu, %q", got, b.opts.EngineVersion)
		}
		task.Provider.Config = []byte{0xc1}
		if r := <-b.bus.call("eu", task); r.Plan != nil || !strings.Contains(r.Diagnostics[0].Summary,
			"Invalid provider configuration") {
			t.Errorf("with a value that does not fit: answered %+v", r)
		}
	})
}
