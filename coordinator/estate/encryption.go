package estate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/state/journal"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/encryption"
	keyservices "github.com/millipede-iac/millipede/encryption/catalog"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/state"
)

// encryption returns the encryption of states and plans, as configured by the environment and the root module of
// the working directory; a nil configuration is allowed. It is set up once: a saved plan, which has its own
// configuration, and its state are also encrypted as the directory configures.
func (e *backends) encryption(ctx context.Context, root *config.Node) (*encryption.Encryption, diag.List) {
	if e.sealing != nil {
		return e.sealing, nil
	}
	o := encryption.Options{
		FromEnvironment: e.Environ.Get(encryption.Variable), Kinds: keyservices.All(),
		Environment: e.place().Environment(),
	}
	if root != nil {
		o.Block, o.Range, o.Static = root.Module.Encryption, root.Module.EncryptionRange, root.Static()
	}
	enc, diags := encryption.New(ctx, o)
	if diags.HasErrors() {
		return nil, diags
	}
	e.sealing = enc
	if !e.Use.ShowsMethods {
		diags = nil // only warnings
	}
	return enc, diags
}

// ownEncryption is encryption for operations that need nothing else from the configuration.
func (e *Estate) ownEncryption(ctx context.Context, vars Variables) (*encryption.Encryption, diag.List) {
	if e.sealing != nil {
		return e.sealing, nil
	}
	c, diags := e.Configuration(vars)
	if diags.HasErrors() || !c.HasFiles() {
		enc, more := e.encryption(ctx, nil)
		return enc, diags.Append(more)
	}
	root, diags := c.LoadRoot(true)
	if diags = Errors(diags); diags.HasErrors() {
		return nil, diags
	}
	enc, more := e.encryption(ctx, root)
	return enc, diags.Append(more)
}

// SetUpEncryption sets up the encryption of states and plans, as configured by the environment and the root module.
func (e *backends) SetUpEncryption(ctx context.Context, root *config.Node) diag.List {
	_, diags := e.encryption(ctx, root)
	return diags
}

// unreadable returns the error that the state cannot be read, in the wording of OpenTofu's command if it cannot be
// decrypted. locked is set if the command has locked it: then reading it is a part of taking the lock.
func (e *backends) unreadable(err error, locked bool) diag.List {
	if errors.Is(err, journal.ErrSealed) {
		return diag.Errors("Failed to open the state store", err.Error()+".", nil)
	}
	var sealed *backend.Sealed
	if !errors.As(err, &sealed) {
		return diag.List{}.Append(err)
	}
	detail := fmt.Sprintf("%s.\n\nThe state is encrypted in another way than the configuration says, or not at all. "+
		"Where the way was changed, the former one belongs into a fallback block.",
		strings.TrimSuffix(sealed.Error()+"\n"+sealed.Tried, "\n"))
	if locked {
		return diag.Errors("Error acquiring the state lock", detail, nil)
	}
	return diag.Errors(e.Use.Unreadable.of(sealed), detail, nil)
}

// of returns the summary for a state that cannot be decrypted.
func (u Unreadable) of(sealed *backend.Sealed) string {
	switch {
	case u.Own:
		return sealed.Summary
	case u.Summary == "":
		return "error loading state: " + sealed.Error()
	case u.Named:
		return u.Summary + ": " + sealed.Error()
	}
	return u.Summary
}

// readSnapshot reads a state from a backend; nil if there is none.
func (e *backends) readSnapshot(ctx context.Context, b backend.Backend, workspace string,
	locked bool) (*state.State, diag.List) {
	st, err := backend.State(ctx, b, workspace)
	if err != nil {
		return nil, e.unreadable(err, locked)
	}
	return st, nil
}

// remoteTarget returns the decryption of the state that the data source in ctx reads.
func (e *backends) remoteTarget(ctx context.Context) *encryption.Target {
	if e.sealing == nil {
		return nil
	}
	name := strings.Replace(provider.AddressOf(ctx), "data.terraform_remote_state.", "", 1)
	return e.sealing.RemoteState(strings.TrimPrefix(name, "module."))
}
