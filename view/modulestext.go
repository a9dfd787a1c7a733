package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/lang/config"
)

// ModulesText returns the modules of a configuration as a tree: each with its source and, if it comes from a registry,
// its version. It is empty if there are none.
func ModulesText(tree *config.Tree) string { return moduleBranches(tree.Root, "") }

func moduleBranches(n *config.Node, indent string) string {
	var b strings.Builder
	names := slices.Sorted(maps.Keys(n.Children))
	for i, name := range names {
		child, last := n.Children[name], i+1 == len(names)
		fmt.Fprintf(&b, "%s%s%q[%s]", indent, branch(last), name, child.Call.Source)
		if child.Version != "" {
			b.WriteString(" " + child.Version)
		}
		if child.Call.Version != "" {
			b.WriteString(" (" + child.Call.Version + ")")
		}
		b.WriteString("\n")
		below := "│   "
		if last {
			below = "    "
		}
		b.WriteString(moduleBranches(child, indent+below))
	}
	return b.String()
}
