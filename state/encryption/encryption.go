// Package encryption encrypts states and plans as OpenTofu does: by what an encryption block and the environment
// variable TF_ENCRYPTION say, in the same envelopes.
//
// The formats and the words of the configuration are those of OpenTofu 1.12 (website/docs/language/state/encryption).
// The package knows neither files nor stores: it turns bytes into bytes.
package encryption

import (
	"context"
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/cloud"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Options say what to encrypt with.
type Options struct {
	// Block is the encryption block of the root module, nil without one; Range is its header.
	Block hcl.Body
	Range hcl.Range
	// Environment is the value of the environment variable.
	Environment string
	// Static evaluates variables and locals of the root module; nil where there is no configuration.
	Static *config.Static
	// Kinds are the key providers that ask key services; pbkdf2 and external are there in any case.
	Kinds []*Kind
	// Surroundings are what those take from the operation.
	Surroundings cloud.Surroundings
}

// Encryption is what a configuration says about encryption. Nil and the zero value encrypt
// nothing. Safe for concurrent use.
type Encryption struct {
	state, plan   *Target
	remoteDefault *Target
	remotes       map[string]*Target
}

// New sets up the encryption. Keys for encrypting are asked for at once, as OpenTofu does it, so that a key that cannot
// be had is known before anything changes. ctx ends external commands.
func New(ctx context.Context, o Options) (*Encryption, diag.List) {
	s, diags := read(o)
	if diags.HasErrors() || s == nil {
		return &Encryption{}, diags
	}
	for _, m := range s.Methods {
		if m.Type == unencryptedType {
			diags = diags.Append(diag.New(diag.Warning, "Unencrypted method configured",
				fmt.Sprintf("The method %q %q leaves what it is used for in the clear. It is there for migrations; "+
					"remove it when yours is done.", m.Type, m.Name), s.at.Ptr()))
		}
	}
	e := &Encryption{remotes: map[string]*Target{}}
	setup := &setup{
		settings: s, static: o.Static, keys: newKeys(), kinds: o.Kinds, surroundings: o.Surroundings.Completed(),
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

// State encrypts the state; nil when it is not to be encrypted.
func (e *Encryption) State() *Target {
	if e == nil {
		return nil
	}
	return e.state
}

// Plan encrypts plan files; nil when they are not to be encrypted.
func (e *Encryption) Plan() *Target {
	if e == nil {
		return nil
	}
	return e.plan
}

// RemoteState decrypts the state that a data source reads; nil when it is taken as it is. name is the address of the
// instance without data.terraform_remote_state and without the first "module.": module.name[0].
func (e *Encryption) RemoteState(name string) *Target {
	if t, ok := e.remotes[name]; ok {
		return t
	}
	return e.remoteDefault
}
