package arch

import (
	"fmt"
	"slices"
	"strings"
)

// violations returns a line for each place where the files break a rule.
func violations(files []file) []string {
	var found []string
	report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }

	order, of := folders(files)
	for _, folder := range order {
		if _, _, known := layerOf(folder); !known {
			report("%s: the package is not in the table of layers (test/arch/layers.go)", folder)
		}
		checkComment(folder, of[folder], report)
		for _, f := range of[folder] {
			checkImports(f, report)
			checkProcessWide(f, report)
		}
	}
	for _, f := range files {
		if f.lines > maxLines && !f.generated {
			report("%s: %d lines, more than %d: it tells more than one story", f.path, f.lines, maxLines)
		}
	}
	return found
}

// layerOf returns the layer of a package, and the tree that gives it, if it has no entry of its own.
func layerOf(folder string) (layer int, tree string, known bool) {
	if layer, known = layers[folder]; known {
		return layer, "", true
	}
	tree, _, _ = strings.Cut(folder, "/")
	layer, known = trees[tree]
	return layer, tree, known
}

// checkComment requires exactly one comment per package, with the beginning that godoc expects.
func checkComment(folder string, files []file, report func(string, ...any)) {
	var with []string
	for _, f := range files {
		if f.comment == "" || f.generated {
			continue
		}
		with = append(with, f.path)
		begin := "Package " + f.name + " "
		if f.name == "main" {
			begin = "Command " + folder[strings.LastIndex(folder, "/")+1:] + " "
		}
		if !strings.HasPrefix(f.comment, begin) {
			report("%s: the package comment does not begin with %q", f.path, begin)
		}
	}
	switch len(with) {
	case 0:
		report("%s: the package has no comment that says what it is for", folder)
	case 1:
	default:
		report("%s: the package has several comments: %s", folder, strings.Join(with, ", "))
	}
}

// checkImports applies the rules for imports to a production file.
func checkImports(f file, report func(string, ...any)) {
	layer, tree, planned := layerOf(f.folder)
	for _, path := range f.imports {
		if (path == "testing" || strings.HasPrefix(path, "testing/")) && tree != "test" &&
			!slices.Contains(suites, f.folder) {
			report("%s: imports %s in production code", f.path, path)
		}
		imported, ours := strings.CutPrefix(path, module+"/")
		if !ours {
			checkConfined(f, path, tree, report)
			continue
		}
		lower, importedTree, known := layerOf(imported)
		if planned && known && lower >= layer && (tree == "" || tree != importedTree) {
			report("%s: %s (layer %d) imports %s (layer %d): imports point down", f.path, f.folder, layer,
				imported, lower)
		}
		for _, actor := range actors {
			if !within(f.folder, actor) {
				continue
			}
			for _, other := range actors {
				if other != actor && within(imported, other) {
					report("%s: %s imports %s: only messages pass between the two", f.path, actor, imported)
				}
			}
			if slices.Contains(adapters, imported) {
				report("%s: %s imports the adapter %s: cmd hands it in, as an interface that %s names", f.path, actor,
					imported, actor)
			}
		}
		if slices.Contains(suites, imported) && tree != "test" {
			report("%s: production code imports the test suite %s", f.path, imported)
		}
	}
}

// checkConfined keeps a library inside the packages that may import it.
func checkConfined(f file, path, tree string, report func(string, ...any)) {
	for library, packages := range confined {
		if strings.HasPrefix(path, library) && tree != "test" && !slices.Contains(packages, f.folder) {
			report("%s: imports %s, which only %s may", f.path, path, strings.Join(packages, ", "))
		}
	}
}

// checkProcessWide reports uses of processWide below the commands.
func checkProcessWide(f file, report func(string, ...any)) {
	if within(f.folder, "cmd") || within(f.folder, "test") {
		return
	}
	for _, use := range f.uses {
		i := strings.LastIndex(use, ".")
		names := processWide[use[:i]]
		if (slices.Contains(names, use[i+1:]) || slices.Contains(names, "*") || use[i+1:] == "*" && names != nil) &&
			!slices.Contains(told[f.folder], use) {
			report("%s: uses %s, which is the whole process's: an operation is told its directory, environment "+
				"and streams", f.path, use)
		}
	}
	for _, call := range f.inherits {
		report("%s: calls %s, which takes the process's: an operation is told its directory and environment", f.path,
			call)
	}
}

func within(folder, tree string) bool { return folder == tree || strings.HasPrefix(folder, tree+"/") }
