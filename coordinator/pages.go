package coordinator

import (
	"crypto/rand"

	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/wire"
)

// takePages prepares a call whose result comes in pages, which it passes to the program. It returns nil for other
// tasks. The caller stops the pages.
func (x *executor) takePages(a loop.Call) (*wire.Pages, error) {
	if a.Task.List == nil {
		return nil, nil
	}
	p := &wire.Pages{
		Pool: a.Pool, Address: x.NewID(), Budget: x.Hub.Budget,
		Packer: wire.Packer{Run: x.RunID, Blobs: x.Hub, Incoming: x.Hub.PoolBlobs(a.Pool), Rand: rand.Reader},
		Take: func(page *wire.ListPage) error {
			x.guard(func() { x.Program.(program.Pager).Page(a.Vertex, page) })
			return nil
		},
	}
	return p, p.Start(x.ctx, x.Hub)
}
