// Package provision runs the provisioners of a resource instance, on the machine of the worker that created it.
//
// It runs provisioners whose configuration the coordinator has evaluated, and reports the output line by line. It
// does not decide when provisioners run, nor what a failure means for the object. local-exec runs here; remote-exec
// and file work on another machine over SSH.
package provision

import (
	"context"
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/provisioner"
	"github.com/millipede-iac/millipede/wire"
)

// Runner runs provisioners.
type Runner struct {
	// Environment is the environment of programs; a provisioner's own variables are added.
	Environment environ.Variables
}

// call is one run of a provisioner.
type call struct {
	wire.Provisioner
	config  cty.Value
	address string
	dir     string // the coordinator's working directory
	// secret is set if the configuration contains secrets.
	secret bool
	// say reports a line of output.
	say func(line string)
}

// types are the provisioners by name. Each ends soon after the context does.
var types = map[string]func(Runner, context.Context, call) diag.List{
	"local-exec":  Runner.localExec,
	"remote-exec": Runner.remoteExec,
	"file":        Runner.file,
}

// Run runs the provisioners of the object at the address, one after the other. It stops at the first failure,
// unless that provisioner is to continue: then its failure is not reported. emit receives the progress.
func (r Runner) Run(ctx context.Context, address string, t *wire.ProvisionTask, env *wire.Variables,
	emit func(wire.Event)) diag.List {
	if env != nil && env.Whole {
		r.Environment = env.Entries
	} else if env != nil {
		r.Environment = r.Environment.With(env.Entries...)
	}
	var diags diag.List
	for i, p := range t.Provisioners {
		emit(wire.Event{Address: address, Kind: "provision_start", Name: p.Type})
		more := r.run(ctx, address, t.Dir, p, emit)
		emit(wire.Event{Address: address, Kind: "provision_end", Name: p.Type, Failed: more.HasErrors()})
		if more.HasErrors() && p.Continue {
			continue
		}
		for _, d := range more {
			d.Path = cty.IndexIntPath(i) // the coordinator finds the source range of this path
		}
		diags = append(diags, more...)
		if more.HasErrors() {
			break
		}
	}
	return diags.WithAddress(address)
}

func (r Runner) run(ctx context.Context, address, dir string, p wire.Provisioner, emit func(wire.Event)) diag.List {
	block, run := provisioner.Block(p.Type), types[p.Type]
	if block == nil || run == nil {
		return diag.Errors("Unknown provisioner type", fmt.Sprintf("This worker has no provisioner %q.", p.Type), nil)
	}
	config, err := coding.DecodeValue(p.Config, block.ImpliedType())
	if err == nil && config.IsNull() {
		err = fmt.Errorf("there is none")
	}
	if err != nil {
		return diag.Errors(p.Type+" provisioner error", fmt.Sprintf("The configuration cannot be read: %s.", err), nil)
	}
	say := func(line string) {
		switch {
		case p.Ephemeral:
			line = "(output suppressed due to ephemeral value in config)"
		case p.Sensitive:
			line = "(output suppressed due to sensitive value in config)"
		}
		emit(wire.Event{Address: address, Kind: "output", Name: p.Type, Text: line})
	}
	return run(r, ctx, call{Provisioner: p, config: config, address: address, dir: dir, secret: p.Sensitive ||
		p.Ephemeral, say: say})
}
