package operation

import (
	"context"
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/coordinator/querying"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// QueryOptions are the options of a query.
type QueryOptions struct {
	// Unmanaged leaves out objects that the state has.
	Unmanaged bool
	// Generate asks for what is needed to generate configuration for the objects.
	Generate bool
	Watcher  querying.Watcher
}

// Query lists existing objects, as the list blocks of the session's configuration say. prior is the stored state, which
// is not changed.
func (s *Session) Query(ctx context.Context, prior *state.State, o QueryOptions) (diags diag.List) {
	defer caught(&diags)
	diags = s.Tree.Check().Append(s.deprecatedInputs(), s.interrupted("The query was not begun."))
	if diags.HasErrors() {
		return diags
	}
	schemas, more := s.Schemas(ctx, prior)
	if diags = diags.Append(more); diags.HasErrors() {
		return diags
	}
	code := values.NewCode(s.Tree, schemas)
	static := graph.Build(s.Tree, nil, code)
	if unknown := unknownProviders(static, code); unknown.HasErrors() {
		return diags.Append(unknown)
	}
	if cycles := cycleDiags(static); cycles.HasErrors() {
		return diags.Append(cycles)
	}
	q := querying.New(querying.Options{
		Static: static, Code: code, Store: s.store(code, values.Planning, s.Now()), Package: s.Package, Prior: prior,
		Unmanaged: o.Unmanaged, Generate: o.Generate, Watcher: o.Watcher,
	})
	outcome, err := s.run(ctx, "query", q)
	diags = diags.Append(outcome.Diags)
	if err != nil {
		diags = diags.Append(runFailed(err))
	}
	if outcome.Interrupted && !diags.HasErrors() {
		diags = diags.Append(diag.New(diag.Error, "Operation interrupted", "The query was not finished.", nil))
	}
	return diags.Append(incomparable(q.Incomparable()))
}

// incomparable warns about objects of the state that listed objects could not be compared with.
func incomparable(addresses []string) *diag.Diagnostic {
	const named = 5
	if len(addresses) == 0 {
		return nil
	}
	list := strings.Join(addresses[:min(named, len(addresses))], ", ")
	if n := len(addresses) - named; n > 0 {
		list += fmt.Sprintf(" and %d more", n)
	}
	return diag.New(diag.Warning, "Objects without an identity in the state", fmt.Sprintf("The state has no current "+
		"identity of %s, so these objects are among the listed ones although they are managed. A refresh records the "+
		"identities: run apply -refresh-only.", list), nil)
}
