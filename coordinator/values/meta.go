package values

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/provider"
)

// metaKey identifies the provider_meta block of a module for one of its providers.
type metaKey struct {
	module   addr.Module
	provider addr.Provider
}

type metaValue struct {
	coded []byte
	diags diag.List
}

// constants is the data for bodies without references.
type constants struct{ eval.Data }

// Meta returns the encoded provider_meta of a resource's module for the provider. It is nil if the module has
// no such block, or the resource no longer has a block. Ephemeral resources do not get it.
func (c *Code) Meta(r addr.ConfigResource, p addr.Provider) ([]byte, diag.List) {
	node := c.Tree.Modules[r.Module]
	if node == nil || node.Module.Resources[r.Resource] == nil || r.Resource.Mode == addr.Ephemeral {
		return nil, nil
	}
	block := node.Module.Meta[p]
	schemas := c.Schemas.Provider(p)
	if block == nil || schemas == nil {
		return nil, nil
	}
	if schemas.ProviderMeta.Block == nil {
		return nil, diag.Errors(fmt.Sprintf("Provider %s doesn't support provider_meta", p),
			fmt.Sprintf("The module of %s has a provider_meta block for this provider, which takes none. Remove the "+
				"block, or use a version of the provider that takes it.", r), block.NameRange.Ptr())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := metaKey{r.Module, p}
	v, ok := c.metas[key]
	if !ok {
		v = evaluateMeta(block, schemas)
		c.metas[key] = v
	}
	return v.coded, v.diags
}

func evaluateMeta(block *config.ProviderMeta, schemas *provider.Schemas) metaValue {
	scope := eval.New(eval.Options{Data: constants{}}) // the loader allows only constants
	value, _, diags := scope.Body(block.Config, schemas.ProviderMeta.Block, eval.Once, cty.NilVal)
	if diags.HasErrors() {
		return metaValue{nil, diags}
	}
	bare, _ := value.UnmarkDeep()
	coded, err := coding.EncodeValue(bare, schemas.ProviderMeta.Block.ImpliedType())
	if err != nil {
		diags = diags.Append(diag.New(diag.Error, "Invalid provider_meta block",
			fmt.Sprintf("The block cannot be encoded for the provider: %s.", err), block.Range.Ptr()))
	}
	return metaValue{coded, diags}
}
