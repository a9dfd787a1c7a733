package operation

import (
	"fmt"
	"maps"
	"slices"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
)

// removals finds the removed blocks that cover an instance, by their targets. If several cover it, the last one
// decides whether the object is destroyed, and the first one has the provisioners, as in OpenTofu. A module's blocks
// come before those of the modules in it, and the blocks of one module in the order of their source.
type removals struct {
	modules   map[addr.Module]removedRange
	resources map[addr.ConfigResource]removedRange
}

// removedRange is the first and the last removed block with the same target.
type removedRange struct{ first, last numberedRemoved }

// numberedRemoved is a removed block with its place among all of them, which counts from 1.
type numberedRemoved struct {
	number int
	block  *config.Removed
}

func removedBlocks(tree *config.Tree) *removals {
	r := &removals{modules: map[addr.Module]removedRange{}, resources: map[addr.ConfigResource]removedRange{}}
	number := 0
	for _, path := range slices.Sorted(maps.Keys(tree.Modules)) {
		for _, b := range tree.Modules[path].Module.Removed {
			number++
			n := numberedRemoved{number, b}
			if b.From.IsModule {
				at := b.From.ModuleFrom(path)
				r.modules[at] = r.modules[at].with(n)
			} else {
				at := b.From.Resource.In(b.From.ModuleFrom(path))
				r.resources[at] = r.resources[at].with(n)
			}
		}
	}
	return r
}

// with returns the range with one more block, which comes after all blocks in it.
func (r removedRange) with(n numberedRemoved) removedRange {
	if r.first.block == nil {
		r.first = n
	}
	r.last = n
	return r
}

// deciding returns the block that decides whether the object of an instance is destroyed; nil if none covers it.
func (r *removals) deciding(a addr.Instance) *config.Removed {
	last := numberedRemoved{}
	r.covering(a.Config(), func(of removedRange) {
		if of.last.number > last.number {
			last = of.last
		}
	})
	return last.block
}

// provisioning returns the block whose provisioners run when the object of an instance is destroyed; nil if none
// covers it.
func (r *removals) provisioning(a addr.Instance) *config.Removed {
	first := numberedRemoved{}
	r.covering(a.Config(), func(of removedRange) {
		if first.block == nil || of.first.number < first.number {
			first = of.first
		}
	})
	return first.block
}

// covering calls fn for each target that covers a resource.
func (r *removals) covering(c addr.ConfigResource, fn func(removedRange)) {
	if of, ok := r.resources[c]; ok {
		fn(of)
	}
	for m := c.Module; !m.IsRoot() && len(r.modules) > 0; m, _ = m.Parent() {
		if of, ok := r.modules[m]; ok {
			fn(of)
		}
	}
}

// stillThere reports a removed block whose target has a block.
func stillThere(tree *config.Tree, in addr.Module, b *config.Removed) diag.List {
	path := b.From.ModuleFrom(in)
	n := tree.Modules[path]
	switch {
	case n == nil:
		return nil
	case b.From.IsModule:
		return diag.Errors("Removed module block still exists",
			fmt.Sprintf("This statement says that %s was removed, but its module block is still there, at %s.",
				path, n.Call.Range), b.Range.Ptr())
	case n.Module.Resources[b.From.Resource] != nil:
		return diag.Errors("Removed resource block still exists",
			fmt.Sprintf("This statement says that %s was removed, but its block is still there, at %s.",
				b.From.Resource.In(path), n.Module.Resources[b.From.Resource].Range), b.Range.Ptr())
	}
	return nil
}
