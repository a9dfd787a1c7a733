package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/install/lock"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
)

// RequirementsText returns a tree of the providers that each module and each test file of a configuration requires.
func RequirementsText(tree *config.Tree) string {
	return requirementsOf(tree.Root, testBranches(tree)).text("")
}

// requirements is a node of the tree: the providers required by a part of the configuration, and its sub-parts.
type requirements struct {
	name      string
	providers map[addr.Provider][]string
	parts     []requirements
}

// requirementsOf returns the requirements of a module and of the modules that it calls, followed by more parts.
func requirementsOf(n *config.Node, more []requirements) requirements {
	out := requirements{providers: n.Module.Requirements()}
	for _, name := range slices.Sorted(maps.Keys(n.Children)) {
		child := requirementsOf(n.Children[name], nil)
		child.name = "module." + name
		out.parts = append(out.parts, child)
	}
	out.parts = append(out.parts, more...)
	return out
}

// testBranches returns the requirements of the test files.
func testBranches(tree *config.Tree) []requirements {
	var out []requirements
	for _, f := range tree.Tests {
		file := requirements{name: "test." + strings.ReplaceAll(strings.TrimSuffix(f.Name, ".tftest.hcl"), "/", "."),
			providers: tree.TestProviders(f)}
		for _, r := range f.Runs {
			if r.Tree != nil {
				run := requirementsOf(r.Tree.Root, nil)
				run.name = "run." + r.Name
				file.parts = append(file.parts, run)
			}
		}
		out = append(out, file)
	}
	return out
}

// text returns the requirements as a tree.
func (r requirements) text(indent string) string {
	var lines []string
	for _, p := range slices.SortedFunc(maps.Keys(r.providers), estate.CompareProviders) {
		line := fmt.Sprintf("provider[%s]", p)
		// An invalid constraint is reported when the configuration is loaded.
		if constraints, err := lock.Constraints(r.providers[p]); err == nil && constraints != "" {
			line += " " + constraints
		}
		lines = append(lines, line)
	}
	var b strings.Builder
	for i, line := range lines {
		b.WriteString(indent + branch(i+1 == len(lines)+len(r.parts)) + line + "\n")
	}
	for i, part := range r.parts {
		last := i+1 == len(r.parts)
		below := "│   "
		if last {
			below = "    "
		}
		b.WriteString(indent + branch(last) + part.name + "\n" + part.text(indent+below))
	}
	return b.String()
}

func branch(last bool) string {
	if last {
		return "└── "
	}
	return "├── "
}
