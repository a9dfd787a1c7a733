package worker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
)

// ValidateListConfig implements provider.Lister.
func (c *cloud) ValidateListConfig(context.Context, provider.ListRequest) diag.List { return nil }

// ListResource implements provider.Lister.
func (c *cloud) ListResource(ctx context.Context, r provider.ListRequest, found func(provider.Listed) error) diag.List {
	for i := range r.Limit {
		if c.onList != nil {
			if err := c.onList(ctx, int(i)); err != nil {
				return diag.Errors(err.Error(), "", nil)
			}
		}
		name := cty.StringVal(fmt.Sprintf("%s-%d", strings.Repeat("x", c.listedSize), i))
		if found(provider.Listed{Identity: cty.ObjectVal(map[string]cty.Value{"name": name}), Object: cty.NilVal}) != nil {
			return nil
		}
	}
	return nil
}

func listTask(limit int64) *wire.Task {
	return &wire.Task{
		Run: "r", Address: "list.test_listed.a",
		Provider: wire.Provider{Package: wire.Package{Source: "example.com/acme/test"}},
		List: &wire.ListTask{Type: "test_listed", Limit: limit, Address: "here",
			Config: encode(cty.EmptyObjectVal, cty.EmptyObject)},
	}
}

// pagesOf collects the pages that the worker sends.
type pagesOf struct {
	mu    sync.Mutex
	sizes []int // objects of each page
	bytes []int
	err   error // returned for each part, if it is not nil
}

func (p *pagesOf) take(data []byte) error {
	if p.err != nil {
		return p.err
	}
	packer := wire.Packer{}
	plain, err := packer.Unpack(context.Background(), "", data)
	if err != nil {
		return err
	}
	page, err := wire.DecodePage(plain)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if page.Number != len(p.sizes) {
		return fmt.Errorf("page %d came after %d others", page.Number, len(p.sizes))
	}
	p.sizes, p.bytes = append(p.sizes, len(page.Objects)), append(p.bytes, len(plain))
	return nil
}

func TestAPageHasNoMoreThanItsBounds(t *testing.T) {
	for what, c := range map[string]struct {
		size, objects int
		most, pages   int
	}{
		"many small objects": {10, 1200, wire.MaxPageObjects, 3},
		"large objects":      {50 << 10, 10, 4, 3},
		"objects beyond it":  {300 << 10, 3, 1, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			pages := &pagesOf{}
			b.bus.parts, b.cloud.listedSize = pages.take, c.size
			b.start()
			synctest.Wait()
			r := <-b.bus.call("eu", listTask(int64(c.objects)))
			if r.List == nil || r.List.Objects != int64(c.objects) || r.List.Pages != len(pages.sizes) {
				t.Fatalf("%s: the answer is %+v, %v", what, r.List, r.Diagnostics)
			}
			if len(pages.sizes) != c.pages || pages.sizes[0] > c.most {
				t.Errorf("%s: pages of %v objects", what, pages.sizes)
			}
		})
	}
}

// A page was sent only when it was full, so that people saw nothing while a slow provider looked for more.
func TestObjectsOfASlowProviderAreSentWhileItLooksForMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		pages := &pagesOf{}
		b.bus.parts = pages.take
		b.cloud.onList = func(_ context.Context, i int) error {
			if i == 2 {
				elapse(time.Minute)
				pages.mu.Lock()
				defer pages.mu.Unlock()
				if len(pages.sizes) != 1 || pages.sizes[0] != 2 {
					t.Errorf("after a minute there are pages of %v objects", pages.sizes)
				}
			}
			return nil
		}
		b.start()
		synctest.Wait()
		if r := <-b.bus.call("eu", listTask(3)); r.List == nil || r.List.Objects != 3 {
			t.Errorf("the answer is %+v, %v", r.List, r.Diagnostics)
		}
	})
}

func TestAListEndsWhenNobodyTakesItsPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.bus.parts = (&pagesOf{err: wire.ErrNotFound}).take
		listed := 0
		b.cloud.onList = func(context.Context, int) error { listed++; return nil }
		b.start()
		synctest.Wait()
		r := <-b.bus.call("eu", listTask(100_000))
		if r.List != nil || len(r.Diagnostics) != 1 || r.Diagnostics[0].Summary != "Failed to send listed objects" {
			t.Errorf("the answer is %+v, %v", r.List, r.Diagnostics)
		}
		if listed > 5000 {
			t.Errorf("%d objects were listed", listed)
		}
	})
}

func TestAListIsStoppedWithItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.bus.parts = (&pagesOf{}).take
		b.cloud.onList = func(ctx context.Context, i int) error {
			if i == 1 {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		}
		b.start()
		synctest.Wait()
		answer := b.bus.call("eu", listTask(3))
		synctest.Wait()
		b.bus.tell("stop", "r")
		if r := <-answer; r.List != nil || len(r.Diagnostics) != 1 ||
			r.Diagnostics[0].Summary != "Operation interrupted" {
			t.Errorf("the answer is %+v, %v", r.List, r.Diagnostics)
		}
	})
}
