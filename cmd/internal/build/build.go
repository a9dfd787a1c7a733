// Package build says which version of Millipede a program is: the one that the linker was given, or else the one that
// follows from what the Go toolchain records about the build. It also has the version of OpenTofu whose behaviour the
// program has.
package build

import (
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
)

// EngineVersion is the version of OpenTofu whose behaviour and formats the programs have. States have it, providers are
// told it, drivers ask for it, and configurations may require it.
const EngineVersion = "1.12.6"

// released is the version of a release, such as 0.2.0. The linker sets it:
//
//	go build -ldflags '-X github.com/millipede-iac/millipede/cmd/internal/build.released=0.2.0'
var released string

// development is the version of a program that is no release. It precedes the next release, and follows the last one.
const development = "0.2.0-dev"

// Version returns the version of this program, a semantic version without a leading "v": that of the linker, if it is
// a semantic version; that of the module, if the program was built from a tag without other changes; otherwise the
// development version with the revision as build metadata, such as 0.2.0-dev+0123456789ab, and with ".dirty" behind it
// if files were changed since. Without a known revision, there is no metadata.
var Version = sync.OnceValue(func() string {
	info, _ := debug.ReadBuildInfo()
	return version(released, info)
})

// revisionLength is the length of revisions in versions: that in the pseudo-versions of Go.
const revisionLength = 12

// The forms of versions.
const (
	number     = `(?:0|[1-9][0-9]*)`
	identifier = `(?:` + number + `|[0-9]*[A-Za-z-][0-9A-Za-z-]*)`
	semantic   = `^` + number + `\.` + number + `\.` + number + `(?:-` + identifier + `(?:\.` + identifier + `)*)?` +
		`(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?$`
	// pseudo is the end of a version that Go makes for a revision without a tag.
	pseudo = `[-.][0-9]{14}-([0-9a-f]{12})(?:\+dirty)?$`
)

// version is Version with what was recorded about a build; info may be nil.
func version(released string, info *debug.BuildInfo) string {
	form := regexp.MustCompile(semantic)
	if v := strings.TrimPrefix(released, "v"); form.MatchString(v) {
		return v
	}
	if info == nil {
		return development
	}
	module := strings.TrimPrefix(info.Main.Version, "v")
	made := regexp.MustCompile(pseudo).FindStringSubmatch(module)
	if made == nil && form.MatchString(module) && !strings.HasSuffix(module, "+dirty") {
		return module
	}
	revision, dirty := "", strings.HasSuffix(module, "+dirty")
	if made != nil {
		revision = made[1]
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= revisionLength:
			revision = s.Value[:revisionLength]
		case s.Key == "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	switch {
	case revision == "":
		return development
	case dirty:
		return development + "+" + revision + ".dirty"
	}
	return development + "+" + revision
}
