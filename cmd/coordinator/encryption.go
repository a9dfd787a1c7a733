package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/bounds"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/bolt"
	"github.com/millipede-iac/millipede/state/encryption"
	keyservices "github.com/millipede-iac/millipede/state/encryption/catalog"
	"github.com/millipede-iac/millipede/state/snapshot"
)

// telling are the commands that tell of methods that leave everything in the clear.
var telling = []string{"init", "plan", "refresh", "import", "console", "providers"}

// encryption returns what encrypts states and plans, as the environment and the root module of the working directory say;
// nil is no configuration. It is set up once: also a saved plan, which brings a configuration of its own, and what it is
// applied to, are encrypted as the directory says.
func (a *app) encryption(ctx context.Context, root *config.Node) (*encryption.Encryption, diag.List) {
	if a.sealing != nil {
		return a.sealing, nil
	}
	o := encryption.Options{
		Environment: a.getenv(encryption.Variable), Kinds: keyservices.All(), Surroundings: a.place().Surroundings(),
	}
	if root != nil {
		o.Block, o.Range, o.Static = root.Module.Encryption, root.Module.EncryptionRange, root.Static()
	}
	e, diags := encryption.New(ctx, o)
	if diags.HasErrors() {
		return nil, diags
	}
	a.sealing = e
	if !slices.Contains(telling, a.command) {
		diags = nil // only warnings
	}
	return e, diags
}

// ownEncryption is encryption for commands that need nothing else of the configuration.
func (a *app) ownEncryption(ctx context.Context, vars variableFlags) (*encryption.Encryption, diag.List) {
	if a.sealing != nil {
		return a.sealing, nil
	}
	w, diags := a.newWorkdir(vars)
	if diags.HasErrors() || !w.loader.HasConfig(".") {
		e, more := a.encryption(ctx, nil)
		return e, diags.Append(more)
	}
	root, diags := w.loadRoot(true)
	if diags = errorsOf(diags); diags.HasErrors() {
		return nil, diags
	}
	e, more := a.encryption(ctx, root)
	return e, diags.Append(more)
}

// unreadable says that the state cannot be read, in the words that each command of OpenTofu has when it cannot be decrypted.
// locked tells that the command has locked it: then reading it is a part of taking the lock.
func (a *app) unreadable(err error, locked bool) diag.List {
	if errors.Is(err, bolt.ErrSealed) {
		return diag.Errors("Failed to open the state store", err.Error()+".", nil)
	}
	var sealed *snapshot.Sealed
	if !errors.As(err, &sealed) {
		return diag.List{}.Append(err)
	}
	detail := fmt.Sprintf("%s.\n\nThe state is encrypted in another way than the configuration says, or not at all. Where the way was changed, the former one belongs into a fallback block.", strings.TrimSuffix(sealed.Error()+"\n"+sealed.Tried, "\n"))
	switch {
	case locked:
		return diag.Errors("Error acquiring the state lock", detail, nil)
	case a.command == "show":
		return diag.Errors("failed to load state: "+sealed.Error(), detail, nil)
	case a.command == "state pull":
		return diag.Errors("Failed to refresh state: "+sealed.Error(), detail, nil)
	case a.command == "state list":
		return diag.Errors("Error refreshing the state", detail, nil)
	case a.command == "output":
		return diag.Errors(sealed.Summary, detail, nil)
	case a.command == "init":
		return diag.Errors("Error refreshing state", detail, nil)
	case strings.HasPrefix(a.command, "providers"):
		return diag.Errors("Failed refreshing the state", detail, nil)
	}
	return diag.Errors("error loading state: "+sealed.Error(), detail, nil)
}

// readSnapshot reads a state where a backend keeps it; nil when there is none.
func (a *app) readSnapshot(ctx context.Context, b snapshot.Backend, workspace string, locked bool) (*state.State, diag.List) {
	st, err := snapshot.State(ctx, b, workspace)
	if err != nil {
		return nil, a.unreadable(err, locked)
	}
	return st, nil
}

// remoteTarget is what decrypts the state that the data source in ctx reads.
func (a *app) remoteTarget(ctx context.Context) *encryption.Target {
	if a.sealing == nil {
		return nil
	}
	name := strings.Replace(provider.AddressOf(ctx), "data.terraform_remote_state.", "", 1)
	return a.sealing.RemoteState(strings.TrimPrefix(name, "module."))
}

// errPlanEncrypted means that there is no configuration to decrypt a plan file with.
var errPlanEncrypted = errors.New("the given plan file is encrypted and requires a valid encryption configuration to decrypt")

// decodePlan reads the bytes of a plan file, encrypted or not. Besides those of planfile.Decode there are errors about encryption.
func decodePlan(ctx context.Context, t *encryption.Target, data []byte) (*planfile.Saved, error) {
	if t == nil && encryption.IsEncrypted(data) {
		return nil, errPlanEncrypted
	}
	plain, _, err := t.Open(ctx, data, func() error {
		_, err := planfile.Decode(data)
		return err
	})
	if err != nil {
		return nil, err
	}
	saved, err := planfile.Decode(plain)
	return &saved, err
}

// openPlanFile reads a saved plan. A file that is no plan gives an error that says so.
func (a *app) openPlanFile(ctx context.Context, name string, vars variableFlags) (*planfile.Saved, diag.List) {
	e, diags := a.ownEncryption(ctx, vars)
	if diags.HasErrors() {
		return nil, diags
	}
	var saved *planfile.Saved
	data, err := bounds.ReadFile(name, bounds.State)
	if err == nil {
		saved, err = decodePlan(ctx, e.Plan(), data)
	}
	var version *planfile.VersionError
	detail := ""
	switch {
	case err == nil:
		return saved, diags
	case errors.Is(err, planfile.ErrNoPlan):
		detail = fmt.Sprintf("The file %s is not a saved plan of Millipede. Plans of other engines, and plans in JSON, cannot be applied; make one with plan -out=FILE.", name)
	case errors.As(err, &version):
		detail = anotherFormat(version)
	default:
		detail = err.Error() + "."
	}
	return nil, diags.Append(diag.New(diag.Error, fmt.Sprintf("Failed to load %q as a plan file", filepath.Base(name)), detail, nil))
}

// anotherFormat says what can be done with a saved plan that another version of Millipede made.
func anotherFormat(e *planfile.VersionError) string {
	with := "the version that made it"
	if e.Engine != "" {
		with = "Millipede " + e.Engine
	}
	return fmt.Sprintf("This version cannot use the file: %s. Make the plan again with plan -out=FILE, or use %s.", e, with)
}

// writePlanFile saves a plan.
func (a *app) writePlanFile(ctx context.Context, name string, saved planfile.Saved) error {
	data, err := planfile.Encode(saved)
	if err == nil {
		data, err = a.sealing.Plan().Seal(ctx, data)
	}
	if err != nil {
		return err
	}
	return planfile.Write(name, data)
}
