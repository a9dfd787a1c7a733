package estate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/catalog"
	"github.com/millipede-iac/millipede/backend/remote"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// OpenBackend opens the backend of the root module's backend block, as init has prepared it; without a block, the
// local one; for a saved plan that of the plan.
func (e *backends) OpenBackend(ctx context.Context, root *config.Node, f StateOptions) (backend.Backend, diag.List) {
	block := backendBlock(root)
	args, kind := cty.EmptyObjectVal, "local"
	enc, diags := e.encryption(ctx, root)
	if diags.HasErrors() {
		return nil, diags
	}
	if e.Backend != nil {
		return backend.Encrypted(e.Backend, enc.State()), diags
	}
	if f.planned != nil {
		b, more := e.openRecorded(ctx, *f.planned, f)
		if diags = diags.Append(more); diags.HasErrors() {
			return nil, diags
		}
		return backend.Encrypted(b, enc.State()), diags
	}
	if block != nil {
		kind = block.Type
		var more diag.List
		args, more = backendConfig(root, block)
		if diags = diags.Append(more); diags.HasErrors() {
			return nil, diags
		}
	}
	args, more := e.preparedBackend(block, args)
	if diags = diags.Append(more); diags.HasErrors() {
		return nil, diags
	}
	b, more := e.openKind(ctx, kind, args, f)
	if block != nil {
		more = eval.AtSource(more, block.Body).WithSubject(block.TypeRange.Ptr())
	}
	if diags = diags.Append(more); diags.HasErrors() {
		return nil, diags
	}
	return backend.Encrypted(b, enc.State()), diags
}

// CloseBackend closes a backend that was opened here, and ends its lock watches. Backends that belong to the estate
// stay open: the one in its options, and services, which it opens once.
func (e *backends) CloseBackend(b backend.Backend) diag.List {
	if b == nil || e.Backend != nil {
		return nil
	}
	if _, is := backend.Plain(b).(*remote.Store); is {
		return nil
	}
	return closeBackend(b)
}

func closeBackend(b backend.Backend) diag.List {
	if err := backend.Close(b); err != nil {
		return diag.List{diag.New(diag.Warning, "Failed to close the backend", err.Error()+".", nil)}
	}
	return nil
}

// Snapshot reads the state of the selected workspace from the backend; nil if there is none.
func (e *backends) Snapshot(ctx context.Context, root *config.Node) (*state.State, diag.List) {
	b, diags := e.OpenBackend(ctx, root, StateOptions{})
	if diags.HasErrors() {
		return nil, diags
	}
	st, diags := e.readSnapshot(ctx, b, e.Workspace(), false)
	return st, diags.Append(e.CloseBackend(b))
}

// place returns the environment of the backends that this process opens.
func (e *backends) place() backend.Place {
	p := backend.Place{
		Kinds: catalog.All(), Dir: e.Dir, Environ: e.Environ, Files: e.Files, Memory: e.Memory,
		UserAgent:     "Millipede/" + e.Version,
		EngineVersion: e.EngineVersion, AnyVersion: e.AnyVersion, Tell: e.Tell,
	}
	if e.Services != nil {
		p.Hosts = e.Services
	}
	return p
}

// openKind opens a backend. The deprecated options of the local one name its files.
func (e *backends) openKind(ctx context.Context, kind string, args cty.Value, f StateOptions) (backend.Backend,
	diag.List) {
	if b := e.services[backendKey(kind, args)]; b != nil {
		return b, nil
	}
	b, diags := e.place().Open(ctx, kind, args)
	if diags.HasErrors() || kind != "local" {
		if _, is := b.(*remote.Store); is {
			if e.services == nil {
				e.services = map[string]backend.Backend{}
			}
			e.services[backendKey(kind, args)] = b
		}
		return b, diags
	}
	if f.Backup == "" && f.KeepsEach {
		f.Backup = e.backupName(b.Describe(e.Workspace()).Where)
	}
	if f.File+f.StateOut+f.Backup == "" {
		return b, diags
	}
	o := e.localOptions(f)
	for name, to := range map[string]*string{"path": &o.Path, "workspace_dir": &o.WorkspaceDir} {
		if args.Type().HasAttribute(name) && !args.GetAttr(name).IsNull() {
			*to = args.GetAttr(name).AsString()
		}
	}
	return backend.NewLocal(o), diags
}

// backendKey identifies a backend among those of an estate.
func backendKey(kind string, args cty.Value) string {
	return fmt.Sprintf("%s %d", kind, args.Hash())
}

// backendConfig evaluates the arguments and nested blocks of a backend block early: only variables and locals are
// available. Whether the backend has these arguments is checked later.
func backendConfig(root *config.Node, block *config.Backend) (cty.Value, diag.List) {
	var blocks map[string]*schema.NestedBlock
	if kind, diags := catalog.All().Find(block.Type); !diags.HasErrors() {
		blocks = kind.Schema.Blocks
	}
	use := config.StaticUse{Subject: "backend." + block.Type, Range: block.Range}
	return staticBody(block.Body, blocks, func(e hcl.Expression) (cty.Value,
		diag.List) {
		return root.Static().Value(e, use)
	})
}

// staticBody evaluates a body of attributes and of nested blocks of the given types. Blocks of a type become a
// tuple with an object for each block.
func staticBody(body hcl.Body, blocks map[string]*schema.NestedBlock,
	value func(hcl.Expression) (cty.Value, diag.List),
) (cty.Value, diag.List) {
	var diags diag.List
	values := map[string]cty.Value{}
	if len(blocks) > 0 {
		var headers hcl.BodySchema
		for _, name := range slices.Sorted(maps.Keys(blocks)) {
			headers.Blocks = append(headers.Blocks, hcl.BlockHeaderSchema{Type: name})
		}
		content, remain, problems := body.PartialContent(&headers)
		diags = diags.Append(problems)
		found := map[string][]cty.Value{}
		for _, b := range content.Blocks {
			if len(found[b.Type]) == blocks[b.Type].MaxItems && len(found[b.Type]) > 0 {
				diags = diags.Append(diag.New(diag.Error, "Too many "+b.Type+" blocks",
					fmt.Sprintf("No more than %d %q blocks are allowed.", blocks[b.Type].MaxItems, b.Type),
					b.DefRange.Ptr()))
				continue
			}
			v, more := staticBody(b.Body, blocks[b.Type].Blocks, value)
			diags = diags.Append(more)
			found[b.Type] = append(found[b.Type], v)
		}
		for name, vs := range found {
			values[name] = cty.TupleVal(vs)
		}
		body = remain
	}
	attrs, problems := body.JustAttributes()
	if len(blocks) > 0 { // it also reports the decoded blocks; only others are wrong
		var rest hcl.BodySchema
		for name := range attrs {
			rest.Attributes = append(rest.Attributes, hcl.AttributeSchema{Name: name})
		}
		_, problems = body.Content(&rest)
	}
	diags = diags.Append(problems)
	for name, attr := range attrs {
		v, more := value(attr.Expr)
		diags = diags.Append(more)
		if !more.HasErrors() {
			values[name] = v
		}
	}
	return cty.ObjectVal(values), diags
}

// checkBackend reports problems with the backend in a terraform_remote_state. For a data source the backend type is
// part of the configuration, while a backend block has it as its label.
func (e *backends) checkBackend(kind string, config cty.Value) diag.List {
	diags := e.place().Check(kind, config)
	for _, d := range diags {
		if d.Extra == backend.ErrUnsupported { //nolint:errorlint // an Extra is this error itself
			d.Summary = "Invalid backend configuration"
		}
	}
	return diags
}

// readRemoteState reads the outputs of another state for terraform_remote_state.
func (e *backends) readRemoteState(ctx context.Context, kind string, config cty.Value, workspace string) (
	_ map[string]cty.Value, diags diag.List) {
	b, diags := e.place().Open(ctx, kind, config)
	if diags.HasErrors() {
		return nil, diags
	}
	defer func() { diags = diags.Append(closeBackend(b)) }()
	data, err := backend.Encrypted(b, e.remoteTarget(ctx)).Read(ctx, workspace)
	var sealed *backend.Sealed
	if errors.As(err, &sealed) {
		return nil, diags.Append(diag.New(diag.Error, sealed.Summary, sealed.Detail+sealed.Tried, nil))
	}
	if err != nil {
		return nil, diags.Append(diag.New(diag.Error, "Failed to read the remote state", fmt.Sprintf("Reading %s: %s.",
			b.Describe(workspace).Where, err), nil))
	}
	if len(data) == 0 {
		return nil, diags
	}
	s, more := tfstate.Parse(data)
	diags = diags.Append(more)
	if diags.HasErrors() || s == nil {
		return nil, diags
	}
	return outputValues(s), diags
}

func outputValues(s *state.State) map[string]cty.Value {
	out := make(map[string]cty.Value, len(s.Outputs))
	for name, o := range s.Outputs {
		out[name] = o.Value
	}
	return out
}
