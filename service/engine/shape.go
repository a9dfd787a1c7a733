package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/view/document"
	"github.com/millipede-iac/millipede/wire"
)

// shape is the data, besides the plan itself, from which the JSON document of a plan can be made at any time
// without a worker: the schemas that the plan used, in the form of workers' messages, and the write-only
// variables.
type shape struct {
	Schemas map[string][]byte `msgpack:"s"` // by the provider's address
	Hidden  []string          `msgpack:"h"`
}

func encodeShape(schemas *values.Schemas, hidden []string) []byte {
	s := shape{Schemas: map[string][]byte{}, Hidden: hidden}
	for p, of := range schemas.All() {
		s.Schemas[p.String()] = wire.EncodeSchemas(of)
	}
	data, err := msgpack.Marshal(&s)
	if err != nil {
		panic("engine: bytes and texts cannot be coded: " + err.Error())
	}
	return data
}

// shapeDepth is how deep a shape nests; the schemas are within it as bytes.
const shapeDepth = 4

func decodeShape(data []byte) (*values.Schemas, []string, error) {
	var s shape
	if err := coding.Unmarshal(data, shapeDepth, &s); err != nil {
		return nil, nil, err
	}
	all := map[addr.Provider]*provider.Schemas{}
	for text, coded := range s.Schemas {
		p, diags := addr.ParseProviderSource(text)
		if err := diags.Err(); err != nil {
			return nil, nil, err
		}
		of, err := wire.DecodeSchemas(coded)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", text, err)
		}
		all[p] = of
	}
	return values.NewSchemas(all), s.Hidden, nil
}

// keptPlan reads a plan that a phase has returned.
func keptPlan(text []byte) (planfile.Saved, error) {
	saved, err := planfile.DecodeRecorded(text)
	if err == nil && saved.Older {
		err = errors.New("an earlier version of Millipede made it")
	}
	return saved, err
}

// PlanJSON implements work.Engine.
func (e *Engine) PlanJSON(ctx context.Context, _, data string, text, shaped []byte) ([]byte, error) {
	saved, err := keptPlan(text)
	if err != nil {
		return nil, err
	}
	schemas, hidden, err := decodeShape(shaped)
	if err != nil {
		return nil, fmt.Errorf("the schemas of the plan: %w", err)
	}
	at := e.o.Open(Place{Data: data, Environ: e.o.Environ.With("TF_WORKSPACE=" + saved.Plan.Workspace),
		Tell: func(string) {}})
	if err := at.Complete(ctx, &saved).Err(); err != nil {
		return nil, err
	}
	c, diags := at.SavedConfiguration(&saved, hidden)
	if err := diags.Err(); err != nil {
		return nil, err
	}
	full, err := document.PlanJSON(saved.Plan, c.Tree, schemas)
	if err != nil {
		return nil, err
	}
	return withoutValues(full, hidden)
}
