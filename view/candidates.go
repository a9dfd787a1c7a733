package view

import (
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/lang/addr"
)

// CandidatesText returns a text about the objects that a creation in doubt may have made, with what was sent beside
// what was found.
func CandidatesText(at addr.Instance, list []operation.Candidate, o TextOptions) string {
	if len(list) == 0 {
		return fmt.Sprintf("No object like the one that was to be created as %s was found.\n", at)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", o.Ink.Bold(fmt.Sprintf("%s could be:", at)))
	for _, c := range list {
		fmt.Fprintf(&b, "\n  %s", IdentityText(c.Identity))
		if c.ID != "" {
			fmt.Fprintf(&b, "   [id=%s]", c.ID)
		}
		if c.Name != "" {
			fmt.Fprintf(&b, "   %s", inOneLine(c.Name))
		}
		fmt.Fprintf(&b, "\n    as sent:   %s\n", strings.Join(c.Same, ", "))
		for _, d := range c.Different {
			fmt.Fprintf(&b, "    different: %s was sent as %s, found is %s\n", d.Name, inOneLine(FormatValue(d.Sent)),
				inOneLine(FormatValue(d.Found)))
		}
	}
	fmt.Fprintf(&b, "\nThis does not prove that the operation has made the object. Record the outcome with:\n"+
		"  runs resolve '%s' -created=ID\n", at)
	return b.String()
}
