// Package snapshot keeps copies of states where other engines and tools find them.
//
// The truth is in the store; a snapshot is read to learn what others did to it, and written when a command that
// changed the state ends. Each kind of place is a Backend with a file of its own. What a snapshot says is the
// business of state/tfstate; the package evaluates no configuration.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// Backend is a place with a snapshot for each workspace. Safe for concurrent use.
type Backend interface {
	// Describe tells where a workspace's snapshot lies, for messages and as its identity, and how it is laid out.
	Describe(workspace string) Description
	// Read returns the snapshot; nil when there is none. A file without content that the lock of this process did not
	// make is an empty slice, not nil: something emptied it, or nobody has written it yet.
	Read(ctx context.Context, workspace string) ([]byte, error)
	// Write replaces the snapshot. It is durable when Write returns.
	Write(ctx context.Context, workspace string, data []byte) error

	// Lock keeps other engines away from the snapshot. The error is *journal.Held when somebody has locked it.
	Lock(ctx context.Context, workspace string, info journal.LockInfo) error
	// Unlock gives up the lock with this ID, or breaks it where the backend can; else ErrNotLocked.
	Unlock(ctx context.Context, workspace, lockID string) error

	// Workspaces lists the workspaces: the default one, then the others sorted.
	Workspaces(ctx context.Context) ([]string, error)
	// Create makes a workspace that is listed from then on. That it exists is no error.
	Create(ctx context.Context, workspace string) error
	// Delete removes a workspace with its snapshot; ErrDefault.
	Delete(ctx context.Context, workspace string) error
}

// Description is what is known of a snapshot's place.
type Description struct {
	Where string
	Form  tfstate.Form
	// Stale tells that what was read there last is not encrypted as it is to be: it is written again with the next changes,
	// and when there are none, too.
	Stale bool
}

// Conditions that callers handle.
var (
	// ErrNotLocked means that Unlock named a lock that is not held, or not by this process.
	ErrNotLocked = errors.New("the state is not locked under this lock ID")
	// ErrDefault means that the default workspace was to be deleted.
	ErrDefault = errors.New("the default workspace cannot be deleted")
)

// Place is what backends take from their surroundings. Zero fields mean the default.
type Place struct {
	// Dir is the directory that relative paths start from; default: the working directory.
	Dir string
	// Memory holds the snapshots of inmem backends; default: a new one for each.
	Memory *Memory
	// Now tells the time; default time.Now.
	Now func() time.Time
}

// kind is a kind of backend. All its arguments are optional strings.
type kind struct {
	arguments []string
	open      func(p Place, args map[string]string) (Backend, diag.List)
}

var kinds = map[string]kind{
	"local": {[]string{"path", "workspace_dir"}, openLocal},
	"inmem": {[]string{"lock_id"}, openInmem},
}

// later are the backends of OpenTofu that are not supported yet.
var later = []string{"azurerm", "cloud", "consul", "cos", "gcs", "http", "kubernetes", "oss", "pg", "remote", "s3"}

// UnsupportedType is the summary of the diagnostics that say that there is no such backend here.
const UnsupportedType = "Unsupported backend type"

// Arguments returns the names of a backend's arguments, all of them optional strings; or says that there is no such
// backend. The diagnostics have no source range.
func Arguments(typ string) ([]string, diag.List) {
	k, ok := kinds[typ]
	switch {
	case ok:
		return k.arguments, nil
	case slices.Contains(later, typ):
		return nil, diag.Errors(UnsupportedType, fmt.Sprintf(
			"Millipede cannot keep snapshots in the backend %q yet; it can in %s. To bring the state over: run \"tofu state pull > pulled.tfstate\" "+
				"here, take the %q block out (without one, the state is beside the configuration), and run "+
				"\"coordinator init\", then \"coordinator state push pulled.tfstate\".", typ, supported(), typ), nil)
	}
	return nil, diag.Errors(UnsupportedType, fmt.Sprintf("There is no backend type named %q; there are %s.", typ, supported()), nil)
}

func supported() string { return strings.Join(slices.Sorted(maps.Keys(kinds)), " and ") }

// Check returns what is wrong with a backend's name and arguments. Values that are not known yet are lawful.
func Check(typ string, config cty.Value) diag.List {
	_, diags := arguments(typ, config)
	return diags
}

// Open opens a backend. config is the value of its block or map: an object or a map, or null for no arguments. The
// diagnostics have no source range; those about an argument have its path.
func (p Place) Open(typ string, config cty.Value) (Backend, diag.List) {
	args, diags := arguments(typ, config)
	if diags.HasErrors() {
		return nil, diags
	}
	if config != cty.NilVal && !config.IsWhollyKnown() {
		return nil, diag.Errors("Invalid backend configuration", fmt.Sprintf("The configuration of the backend %q is not known yet.", typ), nil)
	}
	if p.Memory == nil {
		p.Memory = NewMemory()
	}
	if p.Now == nil {
		p.Now = time.Now
	}
	b, more := kinds[typ].open(p, args)
	return b, diags.Append(more)
}

// arguments takes the arguments that are set and known out of a value.
func arguments(typ string, config cty.Value) (map[string]string, diag.List) {
	known, diags := Arguments(typ)
	if diags.HasErrors() || config == cty.NilVal {
		return nil, diags
	}
	config, _ = config.UnmarkDeep()
	if config.IsNull() || !config.IsKnown() {
		return nil, nil
	}
	if t := config.Type(); !t.IsObjectType() && !t.IsMapType() {
		return nil, diag.Errors("Invalid backend configuration", fmt.Sprintf("The configuration of the backend %q has to be an object.", typ), nil)
	}
	args := map[string]string{}
	values := config.AsValueMap()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(known, name) {
			diags = diags.Append(argument(name, "Unsupported argument", fmt.Sprintf("An argument named %q is not expected here.", name)))
			continue
		}
		v, err := convert.Convert(values[name], cty.String)
		switch {
		case err != nil:
			diags = diags.Append(argument(name, "Incorrect attribute value type", fmt.Sprintf("Inappropriate value for attribute %q: %s.", name, err)))
		case v.IsKnown() && !v.IsNull():
			args[name] = v.AsString()
		}
	}
	return args, diags
}

// argument is a problem with an argument.
func argument(name, summary, detail string) *diag.Diagnostic {
	d := diag.New(diag.Error, summary, detail, nil)
	d.Path = cty.GetAttrPath(name)
	return d
}

// State reads the state that a snapshot holds; nil when there is none. What is wrong with it is a list of diagnostics in the
// error, or *Sealed.
func State(ctx context.Context, b Backend, workspace string) (*state.State, error) {
	data, err := b.Read(ctx, workspace)
	var sealed *Sealed
	switch {
	case errors.As(err, &sealed):
		return nil, err
	case err != nil:
		return nil, diag.Errors("Failed to load state", fmt.Sprintf("Reading %s: %s.", b.Describe(workspace).Where, err), nil).Err()
	}
	st, diags := tfstate.Parse(data)
	return st, diags.Err()
}
