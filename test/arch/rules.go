package arch

import (
	"fmt"
	"go/token"
	"maps"
	"slices"
	"strings"
)

// violations returns a line for each place where the files break a rule.
func violations(files []file) []string {
	var found []string
	report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }

	order, of := folders(files)
	for _, folder := range order {
		if !slices.Contains(rooms, roomOf(folder)) {
			report("%s: %s is not in the table of rooms (test/arch/rooms.go)", folder, roomOf(folder))
		}
		checkComment(folder, of[folder], report)
		checkSizes(folder, of[folder], report)
		for _, f := range of[folder] {
			checkImports(f, report)
			checkKeeps(f, report)
			checkProcessWide(f, report)
			checkRecorded(f, report)
		}
	}
	for _, f := range files {
		if f.lines > maxLines && !f.generated {
			report("%s: %d lines, more than %d: it tells more than one story", f.path, f.lines, maxLines)
		}
	}
	return found
}

// roomOf returns the room of a package: its top folder.
func roomOf(folder string) string {
	room, _, _ := strings.Cut(folder, "/")
	return room
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

// checkSizes keeps functions, and types by their methods, as small as a reader can hold in mind.
func checkSizes(folder string, files []file, report func(string, ...any)) {
	methods, exported := countMethods(files)
	for _, f := range files {
		for _, fn := range f.functions {
			name := strings.TrimPrefix(fn.receiver+"."+fn.name, ".")
			if l := long[folder+"."+name]; fn.lines > max(maxFunction, l.allowed) && !f.generated {
				report("%s: %s has %d lines, more than %d", f.path, name, fn.lines, max(maxFunction, l.allowed))
			}
		}
	}
	for _, of := range slices.Sorted(maps.Keys(methods)) {
		if exported[of] > maxExported {
			report("%s: the type %s has %d exported methods, more than %d: it is several types", folder, of, exported[of],
				maxExported)
		}
		if allowed := max(maxMethods, wide[folder+"."+of].allowed); methods[of] > allowed {
			report("%s: the type %s has %d methods, more than %d: it is several types", folder, of, methods[of], allowed)
		}
	}
}

// countMethods returns how many methods each type of a folder has in the files, and how many of them are exported.
func countMethods(files []file) (all, exported map[string]int) {
	all, exported = map[string]int{}, map[string]int{}
	for _, f := range files {
		for _, fn := range f.functions {
			if fn.receiver == "" {
				continue
			}
			all[fn.receiver]++
			if token.IsExported(fn.name) {
				exported[fn.receiver]++
			}
		}
	}
	return all, exported
}

// checkImports applies the rules for imports to a production file.
func checkImports(f file, report func(string, ...any)) {
	room := roomOf(f.folder)
	for _, path := range f.imports {
		if (path == "testing" || strings.HasPrefix(path, "testing/")) && room != "test" &&
			!slices.Contains(suites, f.folder) {
			report("%s: imports %s in production code", f.path, path)
		}
		imported, ours := strings.CutPrefix(path, module+"/")
		if !ours {
			checkConfined(f, path, report)
			continue
		}
		if other := roomOf(imported); other != room && slices.Index(rooms, other) < slices.Index(rooms, room) {
			report("%s: imports %s, but the room %s is above %s: imports point down", f.path, imported, other, room)
		}
		if slices.Contains(suites, imported) && room != "test" {
			report("%s: production code imports the test suite %s", f.path, imported)
		}
	}
}

// checkKeeps applies the rules of keeps to a production file.
func checkKeeps(f file, report func(string, ...any)) {
	for _, k := range keeps {
		if _, kept := match(f.folder, k.of); !kept || slices.ContainsFunc(k.except, func(p string) bool {
			return within(f.folder, p)
		}) {
			continue
		}
		for _, path := range f.imports {
			imported := strings.TrimPrefix(path, module+"/")
			for _, p := range k.from {
				if at, hit := match(imported, p); hit && !within(f.folder, at) && !slices.Contains(k.but, imported) {
					report("%s: imports %s: %s", f.path, imported, k.reason)
				}
			}
		}
	}
}

// match reports whether a package is one of those that a pattern of keeps names, and the folder that it is in then.
func match(folder, pattern string) (in string, matches bool) {
	if alone, ok := strings.CutSuffix(pattern, "/."); ok {
		return pattern, folder == alone
	}
	top, each := strings.CutSuffix(pattern, "/*")
	if !each {
		return pattern, within(folder, pattern)
	}
	rest, below := strings.CutPrefix(folder, top+"/")
	first, _, _ := strings.Cut(rest, "/")
	return top + "/" + first, below
}

// checkConfined keeps a library inside the packages that may import it.
func checkConfined(f file, path string, report func(string, ...any)) {
	for library, packages := range confined {
		if strings.HasPrefix(path, library) && roomOf(f.folder) != "test" && !slices.Contains(packages, f.folder) {
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

// checkRecorded keeps changes of bbolt's files in package recorded.
func checkRecorded(f file, report func(string, ...any)) {
	if f.folder == "state/recorded" || within(f.folder, "test") {
		return
	}
	for _, use := range f.uses {
		if slices.Contains(recordedOnly, use) {
			report("%s: uses %s: buckets are read and written through state/recorded alone", f.path, use)
		}
	}
}

func within(folder, tree string) bool { return folder == tree || strings.HasPrefix(folder, tree+"/") }
