package operation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// A schema says which attributes are sensitive. A pool that sends a false schema makes others show and send secret
// values. So an answer is used for the pools that sent it; for other pools it is used only if two pools agree, or if
// the operator has named the pool that sent it (the argument schemas). All pools in which a provider's objects are
// placed are asked, and answers that differ are an error that names them.

// schemaBucket has the answers about schemas in the store. Before answers named their pools, they were in "schemas".
const schemaBucket = "answers"

// answer is a provider's schemas as some pools have sent them: all of them the same.
type answer struct {
	pools   []string
	coded   []byte
	schemas *provider.Schemas
}

// good reports whether the answer can be used where pools have objects of the provider. The operator vouches for the
// pool named.
func (a answer) good(pools []string, operators string) bool {
	if len(a.pools) > 1 || slices.Contains(a.pools, operators) {
		return true
	}
	return !slices.ContainsFunc(pools, func(pool string) bool { return !slices.Contains(a.pools, pool) })
}

// encode returns the form in the store: the pools as a line of JSON, and the schemas as they were received.
func (a answer) encode() []byte {
	line, err := json.Marshal(a.pools)
	if err != nil {
		panic("operation: encoding names: " + err.Error())
	}
	return append(append(line, '\n'), a.coded...)
}

// storedAnswer returns the answer in the store, or an empty one.
func (s *Session) storedAnswer(ctx context.Context, key string) (a answer) {
	stored, err := s.Store.GetValue(ctx, schemaBucket, key)
	line, coded, ok := bytes.Cut(stored, []byte("\n"))
	if err != nil || !ok || json.Unmarshal(line, &a.pools) != nil {
		return answer{}
	}
	if a.schemas, err = wire.DecodeSchemas(coded); err != nil {
		return answer{}
	}
	a.coded = coded
	return a
}

// schemaKey returns the name of an answer in the store; empty if it is not stored, because the package may change (a
// development override), or there is no store.
func (s *Session) schemaKey(ctx context.Context, p addr.Provider, task *wire.SchemaTask) (string, diag.List) {
	pkg := s.Package(p)
	if pkg.Unlocked != "" || s.Store == nil || len(pkg.Hashes) == 0 {
		return "", nil
	}
	round, err := s.askedRound(ctx, pkg)
	if err != nil {
		return "", diag.Errors("Failed to read a provider's schema", err.Error()+".", nil)
	}
	key := fmt.Sprintf("%s %v %d %v %v %v %v", pkg.Key(), pkg.Hashes[0], round, task.Managed, task.Data,
		task.Ephemeral, task.All)
	if len(task.Lists) > 0 {
		key += fmt.Sprintf(" %v", task.Lists)
	}
	if len(task.Actions) > 0 {
		key += fmt.Sprintf(" actions %v", task.Actions)
	}
	return key, nil
}

// askedRound returns how often the user has asked to request the schemas of a package again.
func (s *Session) askedRound(ctx context.Context, pkg wire.Package) (int, error) {
	stored, err := s.Store.GetValue(ctx, schemaBucket, roundKey(pkg))
	if err != nil || stored == nil {
		return 0, err
	}
	return strconv.Atoi(string(stored))
}

func roundKey(pkg wire.Package) string { return fmt.Sprintf("round %s %v", pkg.Key(), pkg.Hashes[0]) }

// ForgetSchemas makes this and later commands ask for the schemas of a provider again.
func (s *Session) ForgetSchemas(ctx context.Context, p addr.Provider) error {
	pkg := s.Package(p)
	if s.Store == nil || len(pkg.Hashes) == 0 {
		return nil
	}
	round, err := s.askedRound(ctx, pkg)
	if err != nil {
		return err
	}
	return s.Store.PutValue(ctx, schemaBucket, roundKey(pkg), []byte(strconv.Itoa(round+1)))
}

// compareAnswers asks each of the pools that has workers and has not given the known answer yet. At least one pool must
// answer.
func (s *Session) compareAnswers(ctx context.Context, p addr.Provider, task *wire.SchemaTask, pools []string,
	known answer, prior *state.State) (answer, diag.List) {
	var diags diag.List
	if !slices.ContainsFunc(pools, func(pool string) bool { return slices.Contains(known.pools, pool) }) {
		known = answer{} // of pools that have no objects of this provider here
	}
	for _, pool := range pools {
		if slices.Contains(known.pools, pool) {
			continue
		}
		res, more := s.askOne(ctx, p, task, pool)
		if more.HasErrors() {
			return answer{}, more
		}
		if res == nil {
			continue // it has no worker
		}
		given, more := answerOf(p, res)
		if more.HasErrors() {
			return answer{}, more
		}
		diags = diags.Append(more)
		switch {
		case known.schemas == nil:
			known = given
		case !bytes.Equal(known.coded, given.coded):
			return answer{}, disagreement(p, known.pools, pool)
		}
		known.pools = append(known.pools, pool)
	}
	if known.schemas != nil {
		return known, diags
	}
	return s.firstAnswer(ctx, p, task, prior)
}

// firstAnswer waits for a worker of one of the pools. The pool is known from the subject on which it was asked; the
// answer itself cannot claim another one.
func (s *Session) firstAnswer(ctx context.Context, p addr.Provider, task *wire.SchemaTask, prior *state.State) (answer,
	diag.List) {
	ctx, release := s.unlessStopped(ctx)
	defer release()
	by := ""
	res, diags := s.callWith(ctx, ctx, s.schemaTask(p, task), s.firstAsked(p, prior, &by))
	if diags.HasErrors() {
		return answer{}, diags
	}
	given, more := answerOf(p, res)
	given.pools = []string{by}
	return given, more
}

// askOne asks one pool. The result is nil if the pool has no worker.
func (s *Session) askOne(ctx context.Context, p addr.Provider, task *wire.SchemaTask, pool string) (*wire.Result,
	diag.List) {
	ctx, release := s.unlessStopped(ctx)
	defer release()
	absent := false
	res, diags := s.callWith(ctx, ctx, s.schemaTask(p, task), func(ctx context.Context, t *wire.Task) (*wire.Result,
		error) {
		res, err := s.callPool(ctx, pool, t)
		if absent = errors.Is(err, wire.ErrNoWorker); absent {
			return &wire.Result{}, nil
		}
		return res, err
	})
	if absent {
		return nil, nil
	}
	return res, diags
}

func answerOf(p addr.Provider, res *wire.Result) (answer, diag.List) {
	diags := wire.DiagsFromWire(res.Diagnostics)
	if diags.HasErrors() {
		return answer{}, diags
	}
	if res.Schema == nil {
		return answer{}, diags.Append(diag.New(diag.Error, "Failed to obtain provider schema",
			fmt.Sprintf("The worker's answer holds no schema of %s.", p.Display()), nil))
	}
	schemas, err := wire.DecodeSchemas(res.Schema.Schemas)
	if err != nil {
		return answer{}, diags.Append(diag.New(diag.Error, "Failed to obtain provider schema",
			fmt.Sprintf("Decoding the schema of %s: %s.", p.Display(), err), nil))
	}
	return answer{coded: res.Schema.Schemas, schemas: schemas}, diags
}

// disagreement is the error if two pools have sent different schemas, so that one of them is wrong.
func disagreement(p addr.Provider, pools []string, other string) diag.List {
	return diag.Errors("Pools disagree about a provider", fmt.Sprintf("%s and the pool %q have given different schemas "+
		"of the same package of %s. One of them does not tell the truth, or runs another build: a schema says, for "+
		"example, which attributes are secrets. Nothing was planned. Find out which pool is wrong, stop its workers, "+
		"and ask again: %s providers schema -json -refresh", upper(named(pools)), other, p.Display(),
		diag.Program()), nil)
}
