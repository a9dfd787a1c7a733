package lock

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/apparentlymart/go-versions/versions"
	"github.com/apparentlymart/go-versions/versions/constraints"
)

// operators are the operators of constraints, in the order for constraints with the same version.
var operators = []struct {
	op   constraints.SelectionOp
	text string
}{
	{constraints.OpGreaterThan, "> "},
	{constraints.OpGreaterThanOrEqual, ">= "},
	{constraints.OpEqual, ""},
	{constraints.OpGreaterThanOrEqualPatchOnly, "~> "},
	{constraints.OpGreaterThanOrEqualMinorOnly, "~> "},
	{constraints.OpLessThanOrEqual, "<= "},
	{constraints.OpLessThan, "< "},
	{constraints.OpNotEqual, "!= "},
}

// Constraints returns version constraints in normalised form: sorted by version, without duplicates, with spaces
// and missing numbers as OpenTofu writes them. Invalid constraints are an error.
func Constraints(texts []string) (string, error) {
	var specs constraints.IntersectionSpec
	for _, text := range texts {
		if strings.TrimSpace(text) == "" {
			continue
		}
		spec, err := constraints.ParseRubyStyleMulti(text)
		if err != nil {
			return "", err
		}
		specs = append(specs, spec...)
	}
	slices.SortStableFunc(specs, compareSelections)
	parts := make([]string, 0, len(specs))
	for _, s := range specs {
		parts = append(parts, selection(s))
	}
	return strings.Join(slices.Compact(parts), ", "), nil
}

func compareSelections(a, b constraints.SelectionSpec) int {
	va, vb := boundary(a), boundary(b)
	switch {
	case va.LessThan(vb):
		return -1
	case vb.LessThan(va):
		return 1
	}
	return cmp.Or(cmp.Compare(rank(a.Operator), rank(b.Operator)), strings.Compare(a.Boundary.Metadata,
		b.Boundary.Metadata))
}

func rank(op constraints.SelectionOp) int {
	for i, o := range operators {
		if o.op == op {
			return i
		}
	}
	return len(operators)
}

// boundary returns the version of a constraint, with zeros for missing numbers.
func boundary(s constraints.SelectionSpec) versions.Version {
	z := s.Boundary.ConstrainToZero()
	return versions.Version{
		Major: z.Major.Num, Minor: z.Minor.Num, Patch: z.Patch.Num,
		Prerelease: versions.VersionExtra(z.Prerelease), Metadata: versions.VersionExtra(z.Metadata),
	}
}

// selection formats one constraint. For the operator ~> the number of components is significant.
func selection(s constraints.SelectionSpec) string {
	text := ""
	if r := rank(s.Operator); r < len(operators) {
		text = operators[r].text
	}
	v := boundary(s)
	if s.Operator != constraints.OpGreaterThanOrEqualMinorOnly {
		return text + v.String()
	}
	text += fmt.Sprintf("%d.%d", v.Major, v.Minor)
	if v.Prerelease != "" {
		text += "-" + string(v.Prerelease)
	}
	if v.Metadata != "" {
		text += "+" + string(v.Metadata)
	}
	return text
}
