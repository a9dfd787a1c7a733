package document

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/marks"
)

// Deprecations selects which warnings about the use of deprecated variables and outputs are shown. It implements
// flag.Value.
type Deprecations byte

const (
	// AllDeprecations shows all of them.
	AllDeprecations Deprecations = iota
	// LocalDeprecations shows those of local modules.
	LocalDeprecations
	// NoDeprecations shows none.
	NoDeprecations
)

var deprecationWords = []string{"all", "local", "none"}

// String implements flag.Value.
func (d *Deprecations) String() string { return "module:" + deprecationWords[*d] }

// Set implements flag.Value. It accepts module:all, module:local and module:none.
func (d *Deprecations) Set(text string) error {
	word, ok := strings.CutPrefix(text, "module:")
	i := slices.Index(deprecationWords, word)
	if !ok || i < 0 {
		return fmt.Errorf("write module:all, module:local or module:none")
	}
	*d = Deprecations(i)
	return nil
}

// Of returns the diagnostics to show.
func (d Deprecations) Of(l diag.List) diag.List {
	if d == AllDeprecations {
		return l
	}
	return slices.DeleteFunc(slices.Clone(l), func(p *diag.Diagnostic) bool {
		m, ok := p.Extra.(marks.Deprecated)
		return ok && p.Severity == diag.Warning && (d == NoDeprecations || m.Remote)
	})
}
