package main

import (
	"errors"
	"flag"
	"fmt"
	"strconv"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
)

// variableFlags are -var, -var-file and -input.
type variableFlags struct{ estate.Variables }

func (v *variableFlags) register(f *flag.FlagSet) {
	v.registerValues(f)
	f.BoolVar(&v.Input, "input", true, "")
}

// registerValues registers -var and -var-file for commands that have no prompts.
func (v *variableFlags) registerValues(f *flag.FlagSet) {
	f.Func("var", "", func(s string) error {
		v.List = append(v.List, config.VariableFlag{Text: s})
		return nil
	})
	f.Func("var-file", "", func(s string) error {
		v.List = append(v.List, config.VariableFlag{File: true, Text: s})
		return nil
	})
}

// stateFlags are -lock and the options for the location of the state.
type stateFlags struct{ estate.StateOptions }

func (s *stateFlags) register(f *flag.FlagSet) {
	s.registerLock(f)
	f.StringVar(&s.File, "state", "", "")
	f.StringVar(&s.StateOut, "state-out", "", "")
	f.StringVar(&s.Backup, "backup", "", "")
}

// registerReading registers the same flags for a command that does not write the state. As in OpenTofu, those for
// writing have no effect then; users give them to several commands at once, in TF_CLI_ARGS.
func (s *stateFlags) registerReading(f *flag.FlagSet) {
	s.registerLock(f)
	f.StringVar(&s.File, "state", "", "")
	f.String("state-out", "", "")
	f.String("backup", "", "")
	s.KeepsNothing = true
}

// registerFile registers -lock, -lock-timeout and the old options of the local backend, for commands that edit
// the state.
func (s *stateFlags) registerFile(f *flag.FlagSet) {
	s.register(f)
	s.KeepsEach = true
}

// registerLock registers -lock and -lock-timeout.
func (s *stateFlags) registerLock(f *flag.FlagSet) {
	f.BoolVar(&s.Lock, "lock", true, "")
	f.DurationVar(&s.LockTimeout, "lock-timeout", 0, "")
}

// editFlags are the options that commands about the state, or about workspaces, have in common.
type editFlags struct {
	view  viewFlags
	vars  variableFlags
	state stateFlags
}

// register registers the options without those of the state.
func (e *editFlags) register(f *flag.FlagSet) {
	e.view.RegisterJSON(f)
	e.vars.registerValues(f)
}

// registerLock registers the options of a command that locks the state.
func (e *editFlags) registerLock(f *flag.FlagSet) {
	e.register(f)
	e.state.registerLock(f)
}

// registerFile registers the options of a command that edits the state, or a state file.
func (e *editFlags) registerFile(a *app, f *flag.FlagSet) {
	e.register(f)
	e.state.registerFile(f)
	a.registerRemoteVersion(f)
}

// absent has the options of OpenTofu's commands that are not supported, keyed by command and option, with the
// explanation for users.
var absent = map[string]string{
	"import show-sensitive": "an import shows no values",
}

// registerRemoteVersion registers -ignore-remote-version, with which workspaces of a service accept the state
// although they are set to another version of the engine. It is accepted for all backends.
func (a *app) registerRemoteVersion(f *flag.FlagSet) {
	f.BoolVar(&a.Estate.AnyVersion, "ignore-remote-version", false, "")
}

// parallelismFlag is -parallelism. It implements flag.Value and command.Checked: invalid numbers are reported
// by Check.
type parallelismFlag struct {
	// zero if the option was not given: millipede.hcl or the default then determines the value
	value placement.Parallelism
	wrong error
}

func (p *parallelismFlag) register(f *flag.FlagSet) { f.Var(p, "parallelism", "") }

// String implements flag.Value.
func (p *parallelismFlag) String() string { return strconv.Itoa(int(p.value)) }

// Set implements flag.Value. Zero asks for the default, as in OpenTofu.
func (p *parallelismFlag) Set(text string) error {
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		return errors.New("it must be a whole number")
	}
	p.value, p.wrong = 0, nil
	if n != 0 {
		p.value, p.wrong = placement.NewParallelism(n)
	}
	return nil
}

// Check implements command.Checked.
func (p *parallelismFlag) Check() diag.List {
	if p.wrong == nil {
		return nil
	}
	return diag.Errors("Invalid parallelism value", "The option -parallelism "+p.wrong.Error()+".", nil)
}

// planFlags are the flags for planning.
type planFlags struct {
	// keepQuiet is -suppress-forget-errors, for commands that destroy.
	keepQuiet bool

	// asked are the options that flags set directly; options adds the others.
	asked                      plan.Options
	destroy, refreshOnly       bool
	targets, excludes, replace []string
	invoke                     []string
	targetFiles, excludeFiles  []string
	parallelism                parallelismFlag
	// deferral is -allow-deferral; nil if it was not given.
	deferral *bool
}

// registerDeferral registers -allow-deferral, for commands that plan changes or apply them.
func (p *planFlags) registerDeferral(f *flag.FlagSet) {
	f.BoolFunc("allow-deferral", "", func(text string) error {
		on, err := strconv.ParseBool(text)
		p.deferral = &on
		return err
	})
}

// defers reports whether the plan may leave out what cannot be planned yet; rules say so where the option is missing.
func (p *planFlags) defers(rules *placement.Rules) bool {
	if p.deferral != nil {
		return *p.deferral
	}
	return rules.AllowsDeferral()
}

func (p *planFlags) register(f *flag.FlagSet) {
	p.registerCommon(f)
	f.BoolFunc("minimal-refresh", "", func(text string) error { return (*refreshFlag)(&p.asked).setMinimal(text) })
	f.BoolVar(&p.asked.NoVerdicts, "no-verdicts", false, "")
	listFlag(f, "invoke", &p.invoke)
}

// registerCommon registers the options of OpenTofu.
func (p *planFlags) registerCommon(f *flag.FlagSet) {
	f.BoolVar(&p.destroy, "destroy", p.destroy, "")
	f.BoolVar(&p.refreshOnly, "refresh-only", p.refreshOnly, "")
	f.Var((*refreshFlag)(&p.asked), "refresh", "")
	listFlag(f, "replace", &p.replace)
	p.registerScope(f)
}

// registerScope registers -parallelism and the options that select a part of the configuration.
func (p *planFlags) registerScope(f *flag.FlagSet) {
	p.parallelism.register(f)
	listFlag(f, "target", &p.targets)
	listFlag(f, "exclude", &p.excludes)
	listFlag(f, "target-file", &p.targetFiles)
	listFlag(f, "exclude-file", &p.excludeFiles)
}

// refreshFlag is -refresh, which sets the options SkipRefresh and Refresh. It implements flag.Value.
type refreshFlag plan.Options

// IsBoolFlag tells package flag that -refresh alone is -refresh=true.
func (*refreshFlag) IsBoolFlag() bool { return true }

// String implements flag.Value.
func (r *refreshFlag) String() string {
	switch {
	case r.SkipRefresh:
		return "false"
	case r.Refresh == placement.RefreshChanged:
		return r.Refresh
	}
	return "true"
}

// Set implements flag.Value.
func (r *refreshFlag) Set(text string) error {
	if text == placement.RefreshChanged {
		r.SkipRefresh, r.Refresh = false, text
		return nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return errors.New(`it must be true, false or "changed"`)
	}
	r.SkipRefresh, r.Refresh = !on, ""
	if on {
		r.Refresh = placement.RefreshAll
	}
	return nil
}

// setMinimal is the function of -minimal-refresh, Terraform's name of -refresh=changed.
func (r *refreshFlag) setMinimal(text string) error {
	on, err := strconv.ParseBool(text)
	if err == nil && on {
		return r.Set(placement.RefreshChanged)
	}
	return err
}

// listFlag registers a flag that may be given several times.
func listFlag(f *flag.FlagSet, name string, to *[]string) {
	f.Func(name, "", func(s string) error {
		*to = append(*to, s)
		return nil
	})
}

// wrongAddress names the option whose address is invalid.
func wrongAddress(what, text string, problems diag.List) diag.List {
	if !problems.HasErrors() {
		return problems
	}
	return diag.Errors(fmt.Sprintf("Invalid %s %q", what, text), problems[0].Detail, nil)
}

// ignored returns the given flags that request something that a saved plan does not do. Options about refreshing and
// parallelism do not matter for a saved plan, and -destroy has a warning of its own.
func (p *planFlags) ignored(saved *plan.Plan) []string {
	var out []string
	for _, given := range []struct {
		name string
		is   bool
	}{
		{"-target", len(p.targets)+len(p.targetFiles) > 0},
		{"-exclude", len(p.excludes)+len(p.excludeFiles) > 0},
		{"-replace", len(p.replace) > 0},
		{"-invoke", len(p.invoke) > 0},
		{"-refresh-only", p.refreshOnly && saved.Mode != plan.RefreshOnly},
	} {
		if given.is {
			out = append(out, given.name)
		}
	}
	return out
}

// options validates the combination of flags and parses the addresses. path resolves the names of files with
// addresses.
func (p *planFlags) options(path func(name string) string) (plan.Options, diag.List) {
	out := p.asked
	var diags diag.List
	switch {
	case p.destroy && p.refreshOnly:
		diags = diags.Append(diag.New(diag.Error, "Incompatible plan mode options", "The -destroy and -refresh-only "+
			"options exclude each other.", nil))
	case p.destroy:
		out.Mode = plan.Destroy
	case p.refreshOnly:
		out.Mode = plan.RefreshOnly
		if out.SkipRefresh || out.Refresh == placement.RefreshChanged {
			diags = diags.Append(diag.New(diag.Error, "Incompatible refresh options", "A plan with "+
				"-refresh-only only refreshes, so it cannot be combined with -refresh="+(*refreshFlag)(&out).String()+".", nil))
		}
	}
	if len(p.replace) > 0 && (p.destroy || p.refreshOnly) {
		diags = diags.Append(diag.New(diag.Error, "Unsupported plan mode", "The -replace option creates new "+
			"objects, which neither -destroy nor -refresh-only does.", nil))
	}
	targets, more := estate.ReadAddressFiles(p.targets, p.targetFiles, path)
	diags = diags.Append(more)
	excludes, more := estate.ReadAddressFiles(p.excludes, p.excludeFiles, path)
	diags = diags.Append(more)
	if len(targets) > 0 && len(excludes) > 0 {
		diags = diags.Append(diag.New(diag.Error, "Invalid combination of arguments", "The -target and -exclude "+
			"options exclude each other.", nil))
	}
	for _, t := range targets {
		parsed, more := addr.ParseTarget(t)
		diags = diags.Append(wrongAddress("target", t, more))
		out.Targets = append(out.Targets, parsed)
	}
	for _, t := range excludes {
		parsed, more := addr.ParseTarget(t)
		diags = diags.Append(wrongAddress("exclude", t, more))
		out.Excludes = append(out.Excludes, parsed)
	}
	for _, r := range p.replace {
		parsed, more := addr.ParseInstance(r)
		if !more.HasErrors() && parsed.Resource.Mode != addr.Managed {
			more = diag.Errors("", "The -replace option accepts only managed resources.", nil)
		}
		diags = diags.Append(wrongAddress("force-replace address", r, more))
		out.Replace = append(out.Replace, parsed)
	}
	for _, t := range p.invoke {
		parsed, more := addr.ParseTarget(t)
		if !more.HasErrors() && parsed.Resource.Mode != addr.Action {
			more = diag.Errors("", "The -invoke option accepts only actions: action.TYPE.NAME, with a key for one of several "+
				"instances.", nil)
		}
		diags = diags.Append(wrongAddress("action address", t, more))
		out.Invoke = append(out.Invoke, parsed)
	}
	if len(out.Invoke) > 0 && (out.Mode != plan.Normal || len(excludes)+len(p.replace) > 0) {
		diags = diags.Append(diag.New(diag.Error, "Invalid combination of arguments", "The -invoke option stands alone, or "+
			"with -target: it cannot be combined with -destroy, -refresh-only, -exclude or -replace.", nil))
	}
	return out, diags
}

// serviceOnly returns errors for options that a service does not support.
func (p *planFlags) serviceOnly() (diags diag.List) {
	if len(p.excludes)+len(p.excludeFiles) > 0 {
		diags = diags.Append(diag.New(diag.Error, "-exclude option is not supported", "The service that executes the run "+
			"cannot exclude objects from a plan. Use -target to name the objects to plan.", nil))
	}
	if len(p.invoke) > 0 {
		diags = diags.Append(diag.New(diag.Error, "-invoke option is not supported", "The service that executes the run "+
			"invokes actions only when objects trigger them.", nil))
	}
	if n := p.parallelism.value; n != 0 && n != placement.DefaultParallelism { // drivers also pass the default
		diags = diags.Append(diag.New(diag.Error, "Custom parallelism values are currently not supported", "The "+
			"service that executes the run decides how many operations run at a time.", nil))
	}
	if p.defers(nil) {
		diags = diags.Append(diag.New(diag.Error, "-allow-deferral is not supported", "The service that executes the run "+
			"plans the whole configuration at once.", nil))
	}
	if p.asked.Refresh == placement.RefreshChanged || p.asked.NoVerdicts {
		diags = diags.Append(diag.New(diag.Error, "-refresh=changed is not supported", "The service that executes the run "+
			"has no such option. If the service is Millipede's, set refresh = \"changed\" in the configuration's "+
			"millipede.hcl instead.", nil))
	}
	return diags
}
