package worker

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
)

// ValidateActionConfig implements provider.Invoker.
func (c *cloud) ValidateActionConfig(context.Context, string, cty.Value) diag.List { return nil }

// PlanAction implements provider.Invoker.
func (c *cloud) PlanAction(context.Context, string, cty.Value) diag.List { return nil }

// InvokeAction implements provider.Invoker.
func (c *cloud) InvokeAction(ctx context.Context, _ string, _ cty.Value, progress func(string)) diag.List {
	c.mu.Lock()
	c.applied++
	c.mu.Unlock()
	return c.onInvoke(ctx, progress)
}

func actionTask(sensitive bool) *wire.Task {
	ty := block().ImpliedType()
	config := cty.ObjectVal(map[string]cty.Value{"id": cty.NullVal(cty.String), "name": cty.StringVal("n")})
	return &wire.Task{
		Run: "r", Address: "action.test_send.a",
		Provider: wire.Provider{Package: wire.Package{Source: "example.com/acme/test"}},
		Action: &wire.ActionTask{Type: "test_send", Config: encode(config, ty), Invoke: true,
			Sensitive: sensitive},
	}
}

// progress returns the texts of the live events about progress.
func (b *bench) progress() (out []string) {
	b.bus.mu.Lock()
	defer b.bus.mu.Unlock()
	for _, e := range b.bus.events {
		if e.Kind == "progress" {
			out = append(out, e.Text)
		}
	}
	return out
}

func TestTheProgressOfAnActionIsSentAndItsDoubtHasTheLast(t *testing.T) {
	lost := func(_ context.Context, progress func(string)) diag.List {
		progress("one")
		progress(strings.Repeat("x", 5000))
		progress("three")
		return diag.List{{Severity: diag.Error, Summary: "Plugin did not respond",
			Extra: &provider.Lost{Reason: "the plugin ended"}}}
	}
	for _, sensitive := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.cloud.onInvoke = lost
			b.bus.put(b.task(0, actionTask(sensitive)))
			b.start()
			synctest.Wait()
			want := "three"
			if sensitive {
				want = "(progress suppressed due to sensitive value in config)"
			}
			if r := b.one(); r.Doubt != "the plugin ended. Its last progress was: "+want {
				t.Errorf("the doubt is %q", r.Doubt)
			}
			got := b.progress()
			if len(got) != 3 || got[2] != want || len(got[1]) > maxProgress+len("…") {
				t.Errorf("the progress is %q", got)
			}
		})
	}
}

// A worker ended in the middle of an action. Nobody knew how far it had come.
func TestTheJournalHasTheLastProgressOfAnAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		goOn := make(chan struct{})
		b.cloud.onInvoke = func(_ context.Context, progress func(string)) diag.List {
			progress("one")
			progress("two") // so soon after the first that it is not noted
			elapse(time.Second)
			progress("three")
			<-goOn
			return nil
		}
		b.bus.put(b.task(0, actionTask(false)))
		b.start()
		elapse(2 * time.Second)
		synctest.Wait()
		list := b.opts.Journal.Pending()
		if len(list) != 1 {
			t.Fatalf("the journal has %d attempts", len(list))
		}
		plain, err := wire.Packer{Run: "r", Sealer: b.sealer, Rand: rand.Reader}.Unpack(t.Context(),
			wire.ResultSubject(list[0].Ref), list[0].Message)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := wire.DecodeResult(plain); err != nil || !strings.HasSuffix(r.Doubt, "Its last progress was: three") {
			t.Errorf("the message for the case that the worker ends is %+v, %v", r, err)
		}
		close(goOn)
		synctest.Wait()
		if r := b.one(); r.Doubt != "" || b.cloud.applied != 1 {
			t.Errorf("the result is %+v after %d invocations", r, b.cloud.applied)
		}
	})
}
