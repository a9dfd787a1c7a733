package wire

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
)

// DiagsToWire returns diagnostics for a message: severity, texts, the path, and whether the plugin was lost. The
// coordinator adds source ranges and the address. A path ends before a step whose key cannot be encoded.
func DiagsToWire(list diag.List) []Diagnostic {
	if len(list) == 0 {
		return nil
	}
	out := make([]Diagnostic, len(list))
	for i, d := range list {
		out[i] = Diagnostic{Severity: byte(d.Severity), Summary: d.Summary, Detail: d.Detail, Path: longestPath(d.Path)}
		if lost, ok := d.Extra.(*provider.Lost); ok {
			out[i].Lost = lost.Reason
			if lost.Reason == "" {
				out[i].Lost = "the plugin did not answer"
			}
		}
	}
	return out
}

func longestPath(path cty.Path) []byte {
	for ; len(path) > 0; path = path[:len(path)-1] {
		if data, err := coding.EncodePath(path); err == nil {
			return data
		}
	}
	return nil
}

// DiagsFromWire is the inverse of DiagsToWire. A severity that is not a warning becomes an error. A path that cannot be
// read is left out: the text of the problem matters more than its place.
func DiagsFromWire(list []Diagnostic) diag.List {
	if len(list) == 0 {
		return nil
	}
	out := make(diag.List, len(list))
	for i, w := range list {
		severity := diag.Error
		if diag.Severity(w.Severity) == diag.Warning {
			severity = diag.Warning
		}
		d := diag.New(severity, w.Summary, w.Detail, nil)
		if path, err := coding.DecodePath(w.Path); err == nil {
			d.Path = path
		}
		if w.Lost != "" {
			d.Extra = &provider.Lost{Reason: w.Lost}
		}
		out[i] = d
	}
	return out
}
