// Package encryption encrypts states and plans like OpenTofu, as configured by an encryption block and the
// environment variable TF_ENCRYPTION.
//
// The formats and the configuration are those of OpenTofu 1.12 (website/docs/language/state/encryption). The
// package does not access files or stores: it converts bytes to bytes.
package encryption

import (
	"context"
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Options are the options of New.
type Options struct {
	// Block is the encryption block of the root module, nil if there is none; Range is its header.
	Block hcl.Body
	Range hcl.Range
	// FromEnvironment is the value of the environment variable.
	FromEnvironment string
	// Static evaluates variables and locals of the root module; nil if there is no configuration.
	Static *config.Static
	// Kinds are the key providers that use key services; pbkdf2 and external are always available.
	Kinds []*Kind
	// Environment is the operation's environment for these.
	Environment cloud.Environment
}

// Encryption is the encryption that a configuration specifies. Nil and the zero value encrypt nothing. Safe for
// concurrent use.
type Encryption struct {
	state, plan   *Target
	remoteDefault *Target
	remotes       map[string]*Target
}

// New sets up the encryption. It requests the keys for encrypting immediately, as OpenTofu does, so that an
// unavailable key is reported before anything changes. ctx ends external commands.
func New(ctx context.Context, o Options) (*Encryption, diag.List) {
	s, diags := read(o)
	if diags.HasErrors() || s == nil {
		return &Encryption{}, diags
	}
	for _, m := range s.Methods {
		if m.Type == unencryptedType {
			diags = diags.Append(diag.New(diag.Warning, "Unencrypted method configured",
				fmt.Sprintf("The method %q %q does not encrypt the data that it is used for. It is for migrations only; remove "+
					"it when the migration is complete.", m.Type, m.Name), s.at.Ptr()))
		}
	}
	e := &Encryption{remotes: map[string]*Target{}}
	setup := &setup{
		settings: s, static: o.Static, keys: newKeys(), kinds: o.Kinds, env: o.Environment.Completed(),
	}
	add := func(to **Target, what string, enforced bool, t targetBlock) {
		target, more := newTarget(ctx, setup, what, enforced, t)
		diags = diags.Append(more)
		*to = target
	}
	if t := s.State; t != nil {
		add(&e.state, "state", t.Enforced, targetBlock{t.Method, t.Fallback})
	}
	if t := s.Plan; t != nil {
		add(&e.plan, "plan", t.Enforced, targetBlock{t.Method, t.Fallback})
	}
	if s.Remote != nil {
		if t := s.Remote.Default; t != nil {
			add(&e.remoteDefault, "remote.default", false, *t)
		}
		for _, t := range s.Remote.Named {
			var target *Target
			add(&target, "remote.remote_state_datasource."+t.Name, false, targetBlock{t.Method, t.Fallback})
			e.remotes[t.Name] = target
		}
	}
	if diags.HasErrors() {
		return &Encryption{}, diags
	}
	return e, diags
}

// State returns the target that encrypts the state; nil if it is not encrypted.
func (e *Encryption) State() *Target {
	if e == nil {
		return nil
	}
	return e.state
}

// Plan returns the target that encrypts plan files; nil if they are not encrypted.
func (e *Encryption) Plan() *Target {
	if e == nil {
		return nil
	}
	return e.plan
}

// RemoteState returns the target that decrypts the state that a data source reads; nil if it is not decrypted. name
// is the address of the instance without data.terraform_remote_state and without the first "module.":
// module.name[0].
func (e *Encryption) RemoteState(name string) *Target {
	if t, ok := e.remotes[name]; ok {
		return t
	}
	return e.remoteDefault
}
