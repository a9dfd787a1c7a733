package main

import (
	"context"
	"fmt"
	"io"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view"
)

const graphUsage = `
Usage: coordinator [global options] graph [options]

  Draws the dependency graph: an arrow leads from a vertex to its dependency.

Options:
  -type=TYPE            Which graph: plan, plan-refresh-only, plan-destroy or apply. Default: plan, or apply with -plan.
  -plan=FILE            Draw the graph of this saved plan, not that of the configuration in this directory.
  -format=FORMAT        The form of the drawing: dot, for Graphviz, mermaid, svg, which browsers show, or json, for
                        programs. Default: dot.
  -draw-cycles          Highlight cycles with coloured arrows.
  -module-depth=N       Draw each module below this depth as one vertex; 0 shows only the root module. Default: all.
  -verbose              Also draw vertices that exist only to order others.
  -var 'NAME=VALUE', -var-file=FILE
                        Variables that module sources depend on. May be given several times.
` + textHelp

// drawingFormats are the output formats.
var drawingFormats = map[string]func(*view.Drawing) func(io.Writer) error{
	"dot":     func(d *view.Drawing) func(io.Writer) error { return d.DOT },
	"mermaid": func(d *view.Drawing) func(io.Writer) error { return d.Mermaid },
	"svg":     func(d *view.Drawing) func(io.Writer) error { return d.SVG },
	"json":    func(d *view.Drawing) func(io.Writer) error { return d.JSON },
}

// graphRequest says which graph to draw.
type graphRequest struct {
	kind, file, format string
	drawing            view.DrawingOptions
	saved              *planfile.Saved
}

func runGraph(ctx context.Context, a *app, args []string) int {
	var show viewFlags
	var vars variableFlags
	var r graphRequest
	f := a.NewFlags()
	show.RegisterText(f)
	vars.registerValues(f)
	f.StringVar(&r.kind, "type", "", "")
	f.StringVar(&r.file, "plan", "", "")
	f.StringVar(&r.format, "format", "dot", "")
	f.BoolVar(&r.drawing.Cycles, "draw-cycles", false, "")
	f.IntVar(&r.drawing.Depth, "module-depth", -1, "")
	f.BoolVar(&r.drawing.Verbose, "verbose", false, "")
	if code, done := a.Parse(f, graphUsage, args); done {
		return code
	}
	s, diags := a.newScreen(show, nil)
	s.Printer.Out = a.Stderr // standard output is reserved for the drawing
	if diags = diags.Append(noArguments(f), r.check(ctx, a, vars)); diags.HasErrors() {
		return s.End(diags)
	}
	return s.End(a.Estate.Inspect(ctx, estate.InspectOptions{Variables: vars.Variables, Saved: r.saved,
		Sources: s.From}, func(i *estate.Inspection) diag.List {
		static, diags := i.Engine.PlanGraph(ctx, i.Prior)
		if static == nil || diags.HasErrors() && !r.drawing.Cycles {
			return diags
		}
		s.Printed(drawingFormats[r.format](r.draw(static, i)))
		return estate.Errors(diags)
	}))
}

// check validates the options, and opens the saved plan if one is named.
func (r *graphRequest) check(ctx context.Context, a *app, vars variableFlags) diag.List {
	switch r.kind {
	case "", "plan", "plan-refresh-only", "plan-destroy", "apply":
	case "eval", "validate":
		return diag.Errors("Graph type no longer available", fmt.Sprintf("Graphs of the type %q are no longer available. "+
			"Use -type=plan instead.", r.kind), nil)
	default:
		return diag.Errors("Unsupported graph type", fmt.Sprintf("There is no graph of the type %q; there are plan, "+
			"plan-refresh-only, plan-destroy and apply.", r.kind), nil)
	}
	if drawingFormats[r.format] == nil {
		return diag.Errors("Unsupported graph format", fmt.Sprintf("There is no format %q; there are dot, mermaid, "+
			"svg and json.", r.format), nil)
	}
	if r.file == "" {
		return nil
	}
	if r.kind == "" {
		r.kind = "apply"
	}
	saved, diags := a.Estate.OpenPlan(ctx, r.file, vars.Variables)
	if diags.HasErrors() {
		return diag.Errors("Failed loading the plan file", diags[0].Detail, nil)
	}
	r.saved = saved
	return nil
}

// draw makes the requested drawing.
func (r *graphRequest) draw(static *graph.Static, i *estate.Inspection) *view.Drawing {
	var p *plan.Plan
	switch r.kind {
	case "plan-destroy":
		p = operation.DestroyPlan(static, i.Prior)
	case "apply":
		if r.saved != nil {
			p = r.saved.Plan
		} else {
			p = operation.EmptyPlan(static, i.Prior)
		}
	default:
		return view.PlanDrawing(static, r.drawing)
	}
	return view.ApplyDrawing(static, p, &p.Graph, r.drawing)
}
