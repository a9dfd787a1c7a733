package values

import (
	"fmt"
	"slices"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/state"
)

// FillKept returns a plan in which the changes that keep an object as it is stored have its value and identity, which
// readers of the whole plan need. It does not modify p.
func FillKept(p *plan.Plan, schemas *Schemas) (*plan.Plan, error) {
	if !slices.ContainsFunc(p.Changes, func(c *plan.Change) bool { return c.Kept }) {
		return p, nil
	}
	out := *p
	out.Changes = slices.Clone(p.Changes)
	for i, c := range p.Changes {
		if !c.Kept {
			continue
		}
		filled := *c
		if err := fillKept(&filled, p.Prior.Object(c.Addr, state.CurrentObject), schemas); err != nil {
			return nil, fmt.Errorf("the unchanged object %s: %w", c.Addr, err)
		}
		out.Changes[i] = &filled
	}
	return &out, nil
}

func fillKept(c *plan.Change, o *state.Object, schemas *Schemas) (err error) {
	s := schemas.Resource(c.Provider.Provider, c.Addr.Resource.Mode, c.Addr.Resource.Type)
	switch {
	case o == nil:
		return fmt.Errorf("it is not in the state of the plan")
	case s == nil:
		return fmt.Errorf("its type has no schema")
	}
	if c.Before, err = DecodeStored(o, s); err != nil {
		return err
	}
	if id := schemas.Identity(c.Provider.Provider, c.Addr.Resource.Type); o.Identity != nil && id != nil {
		if c.BeforeIdentity, err = coding.UnmarshalJSON(o.Identity, id.Body.ImpliedType()); err != nil {
			return err
		}
		c.IdentityVersion = o.IdentityVersion
	}
	c.Kept, c.After, c.AfterIdentity, c.PriorPrivate = false, c.Before, c.BeforeIdentity, o.Private
	return nil
}
