package rpc

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/tfplugin6"
)

// invalidResponse is the summary of all problems with a plugin's answers; users' tools match on it.
const invalidResponse = "Invalid provider response"

// problems converts the plugin's diagnostics. One of an unknown severity counts as an error.
func problems(from []*tfplugin6.Diagnostic) diag.List {
	var l diag.List
	for _, d := range from {
		severity := diag.Error
		if d.Severity == tfplugin6.Diagnostic_WARNING {
			severity = diag.Warning
		}
		to := diag.New(severity, d.Summary, d.Detail, nil)
		if d.Attribute != nil {
			to.Path = path(d.Attribute)
		}
		l = append(l, to)
	}
	return l
}

// path converts an attribute path. Empty steps are ignored.
func path(from *tfplugin6.AttributePath) cty.Path {
	p := make(cty.Path, 0, len(from.Steps))
	for _, step := range from.Steps {
		switch s := step.Selector.(type) {
		case *tfplugin6.AttributePath_Step_AttributeName:
			p = append(p, cty.GetAttrStep{Name: s.AttributeName})
		case *tfplugin6.AttributePath_Step_ElementKeyString:
			p = append(p, cty.IndexStep{Key: cty.StringVal(s.ElementKeyString)})
		case *tfplugin6.AttributePath_Step_ElementKeyInt:
			p = append(p, cty.IndexStep{Key: cty.NumberIntVal(s.ElementKeyInt)})
		}
	}
	return p
}

// lost returns the problem of a failed call. After every failure except "no such method", it is unknown what the
// plugin did.
func (p *Provider) lost(ctx context.Context, method string, err error) diag.List {
	name := p.options.Name
	if name == "" {
		name = "with no name"
	}
	code := status.Code(err)
	if code == codes.Unimplemented {
		return diag.Errors("Unsupported plugin method",
			fmt.Sprintf("Provider %s has no %s method.", name, method), nil)
	}
	var summary, detail string
	switch code {
	case codes.Unavailable:
		summary = "Plugin did not respond"
		detail = fmt.Sprintf("Provider %s ended, or its connection broke, before it answered the %s call.", name,
			method)
	case codes.Canceled:
		summary = "Request cancelled"
		detail = fmt.Sprintf("The %s call to provider %s was cancelled before it was answered.", method, name)
		if cause := context.Cause(ctx); cause != nil && cause != context.Canceled { //nolint:errorlint // one that wraps it says more
			detail += fmt.Sprintf(" The reason: %s.", cause)
		}
	default:
		summary = "Plugin error"
		detail = fmt.Sprintf("The %s call to provider %s failed: %s.", method, name,
			strings.TrimSuffix(status.Convert(err).Message(), "."))
	}
	if code == codes.Unavailable && p.options.ExitReason != nil {
		if words := p.options.ExitReason(); words != "" {
			detail += "\n\n" + words
		}
	}
	d := diag.New(diag.Error, summary, detail, nil)
	d.Extra = &provider.Lost{Reason: fmt.Sprintf("%s: %s", strings.ToLower(summary), status.Convert(err).Message())}
	return diag.List{d}
}

// schemaMismatch returns the problem of a value in an answer that does not conform to its schema.
func (p *Provider) schemaMismatch(method, what string, err error) *diag.Diagnostic {
	detail := fmt.Sprintf("Provider %s answered the %s call with a %s that does not fit its schema: %s.\n\nThis is a "+
		"bug in the provider.",
		p.options.Name, method, what, pathError(err))
	return diag.New(diag.Error, invalidResponse, detail, nil)
}

// survive converts a panic caused by a plugin's answer into a problem. It must not end this process, in which
// operations of other plugins are in progress.
func (p *Provider) survive(method string, diags *diag.List) {
	if r := recover(); r != nil {
		p.options.Log("panic over an answer", "provider", p.options.Name, "method", method, "panic", r, "stack",
			string(debug.Stack()))
		*diags = diag.Errors(invalidResponse, fmt.Sprintf(
			"Provider %s answered the %s call with something that cannot be worked with: %v.\n\nThis is a bug in the "+
				"provider.",
			p.options.Name, method, r), nil)
	}
}

// pathError formats an error with the path of the value that it concerns.
func pathError(err error) string {
	var at cty.PathError
	if errors.As(err, &at) && len(at.Path) > 0 {
		return fmt.Sprintf("%s: %s", printPath(at.Path), err)
	}
	return err.Error()
}

// printPath formats a path in the syntax of the language, with a dot before the first name as in OpenTofu.
func printPath(p cty.Path) string {
	var b strings.Builder
	for _, step := range p {
		switch s := step.(type) {
		case cty.GetAttrStep:
			b.WriteString("." + s.Name)
		case cty.IndexStep:
			switch {
			case !s.Key.IsKnown() || s.Key.IsNull():
				b.WriteString("[...]")
			case s.Key.Type() == cty.String:
				fmt.Fprintf(&b, "[%q]", s.Key.AsString())
			case s.Key.Type() == cty.Number:
				fmt.Fprintf(&b, "[%s]", s.Key.AsBigFloat().Text('f', -1))
			default: // an element of a set is its own key
				b.WriteString("[...]")
			}
		}
	}
	return b.String()
}
