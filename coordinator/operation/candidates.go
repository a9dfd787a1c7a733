package operation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/querying"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// Candidate is an object that a creation in doubt may have made.
type Candidate struct {
	// ID is the object's attribute id; empty if it has none.
	ID       string
	Name     string // what people call it
	Identity cty.Value
	// Same are the attributes that are as they were sent, sorted. Different are those that are not.
	Same      []string
	Different []Difference
}

// Difference is an attribute whose value is not the one that was sent.
type Difference struct {
	Name        string
	Sent, Found cty.Value
}

// maxListedCandidates is how many objects of a type are looked through, and maxCandidates how many of them are
// returned.
const (
	maxListedCandidates = 100_000
	maxCandidates       = 20
)

// Candidates lists the objects that the creation in doubt of an instance may have made: those of its type that are not
// in the state and have something in common with what was sent. The most similar one is the first. The provider must be
// able to list the type. Nothing is changed.
func (s *Session) Candidates(ctx context.Context, prior *state.State, at addr.Instance) (out []Candidate,
	diags diag.List) {
	defer caught(&diags)
	_, o := doubtful(prior, at)
	switch {
	case o == nil:
		return nil, diag.Errors("Nothing is in doubt", fmt.Sprintf("No operation on %s is in doubt.", at), nil)
	case o.Doubt.Operation != "create":
		return nil, diag.Errors("Not a creation", fmt.Sprintf("An operation on %s is in doubt that created nothing, so "+
			"there is nothing to find.", at), nil)
	}
	pi := prior.ProviderOf(at)
	m, list, diags := s.listable(ctx, pi.Provider, at.Resource.Type)
	if diags.HasErrors() {
		return nil, diags
	}
	sent, err := coding.UnmarshalJSON(o.Doubt.Sent, m.Type)
	if err != nil || sent.IsNull() {
		return nil, diags.Append(diag.New(diag.Error, "Nothing to compare with", fmt.Sprintf("It is not known what was "+
			"sent to create %s, so objects cannot be compared with it. The query command lists them.", at), nil))
	}
	_, wp, place, more := s.providerOf(ctx, at, pi)
	place.Region = values.Region(sent)
	pools, missing := s.poolsFor(ctx, place, at.Config())
	if diags = diags.Append(more, missing); diags.HasErrors() {
		return nil, diags
	}
	config, err := coding.EncodeValue(listConfig(list, sent), list.ImpliedType())
	if err != nil {
		return nil, diags.Append(diag.New(diag.Error, "Failed to look for objects", err.Error()+".", nil))
	}
	stored, _ := m.Stored(prior, pi.Provider, at.Resource.Type)
	task := &wire.Task{Address: at.String(), Provider: wp, List: &wire.ListTask{Type: at.Resource.Type, Config: config,
		IncludeObject: true, Limit: maxListedCandidates}}
	diags = diags.Append(s.list(ctx, pools, place, task, func(from *wire.ListedObject) error {
		found, err := m.Decode(from)
		if err != nil || stored[m.Key(found.Identity)] || found.Value == cty.NilVal {
			return err
		}
		if c := compared(m.Block, sent, found); len(c.Same) > 0 {
			out = append(out, c)
		}
		if len(out) > 10*maxCandidates {
			out = best(out)
		}
		return nil
	}).WithAddress(at.String()))
	return best(out), diags
}

// listable returns the schemas of a managed type, and of its list.
func (s *Session) listable(ctx context.Context, p addr.Provider, typeName string) (*querying.Managed, *schema.Block,
	diag.List) {
	schemas, diags := s.ProviderSchemas(ctx, p, &wire.SchemaTask{Managed: []string{typeName}, Lists: []string{typeName}})
	if diags.HasErrors() {
		return nil, nil, diags
	}
	of, managed := schemas.Managed[typeName]
	list, can := schemas.Lists[typeName]
	identity, has := schemas.Identities[typeName]
	if !managed || !can || !has || identity.Body == nil {
		return nil, nil, diags.Append(diag.New(diag.Error, "Objects cannot be listed", fmt.Sprintf("The provider %s does "+
			"not list objects of type %q. Look for the object by other means.", p.Display(), typeName), nil))
	}
	return querying.NewManaged(&of, &identity), list.Block, diags
}

// listConfig returns the arguments for listing objects like the one that was sent: those in its region.
func listConfig(list *schema.Block, sent cty.Value) cty.Value {
	attrs := list.EmptyValue().AsValueMap()
	for _, name := range []string{"region", "location"} {
		if a := list.Attributes[name]; a != nil && a.Type == cty.String && sent.Type().HasAttribute(name) &&
			sent.Type().AttributeType(name) == cty.String {
			attrs[name] = sent.GetAttr(name)
		}
	}
	return cty.ObjectVal(attrs)
}

// compared compares an object with what was sent.
func compared(block *schema.Block, sent cty.Value, found *querying.Object) Candidate {
	c := Candidate{Name: found.Name, Identity: found.Identity}
	v, _ := found.Value.UnmarkDeep()
	if key, id := values.IDOf(found.Value); key == "id" {
		c.ID = id
	}
	for _, name := range slices.Sorted(maps.Keys(block.Attributes)) {
		was := sent.GetAttr(name)
		switch is := v.GetAttr(name); {
		case was.IsNull() || block.Attributes[name].Hides():
		case was.RawEquals(is):
			c.Same = append(c.Same, name)
		default:
			c.Different = append(c.Different, Difference{name, was, is})
		}
	}
	return c
}

// best returns the most similar candidates.
func best(list []Candidate) []Candidate {
	slices.SortStableFunc(list, func(a, b Candidate) int {
		if len(a.Different) != len(b.Different) {
			return len(a.Different) - len(b.Different)
		}
		return len(b.Same) - len(a.Same)
	})
	return list[:min(len(list), maxCandidates)]
}

// list is request for a task that lists objects. It calls take for each object, once; an error of take ends the list.
func (s *Session) list(ctx context.Context, pools []string, place program.Placement, task *wire.Task,
	take func(*wire.ListedObject) error) diag.List {
	seen := map[string]bool{}
	res, diags := s.requestOf(ctx, place, task, func(ctx context.Context, task *wire.Task) (*wire.Result, error) {
		for _, pool := range pools {
			if res, err := s.listPool(ctx, pool, task, seen, take); !errors.Is(err, wire.ErrNoWorker) {
				return res, err
			}
		}
		return nil, &absentError{pools: pools}
	})
	if !diags.HasErrors() && res.List == nil {
		diags = diags.Append(diag.New(diag.Error, "Failed to list objects", "The worker's answer holds nothing.", nil))
	}
	return diags
}

// listPool has a worker of a pool list objects.
func (s *Session) listPool(ctx context.Context, pool string, task *wire.Task, seen map[string]bool,
	take func(*wire.ListedObject) error) (*wire.Result, error) {
	pages := &wire.Pages{
		Pool: pool, Address: s.NewID(), Budget: s.Hub.Budget,
		Packer: wire.Packer{Blobs: s.Hub, Incoming: s.Hub.PoolBlobs(pool)},
		Take: func(p *wire.ListPage) error {
			for i := range p.Objects {
				o := &p.Objects[i]
				if seen[string(o.Identity)] {
					continue
				}
				seen[string(o.Identity)] = true
				if err := take(o); err != nil {
					return err
				}
			}
			return nil
		},
	}
	if err := pages.Start(ctx, s.Hub); err != nil {
		return nil, err
	}
	defer pages.Stop()
	res, err := s.callPool(ctx, pool, pages.For(task))
	if err != nil || res.NotStarted {
		return res, err
	}
	return res, pages.End(res)
}
