// Package picture draws the timeline of a run: ES modules for browsers, without libraries, and a report in one file.
//
// It serves nothing and reads no store. A page loads run.js beside the other assets and calls mount; the comments
// of run.js and details.js describe the arguments. Texts of a timeline are never interpreted as HTML. The modules
// need no inline script or style, so they work under a Content-Security-Policy of script-src 'self'; style-src
// 'self'.
package picture

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/millipede-iac/millipede/internal/pattern"
)

//go:embed assets
var assets embed.FS

// Main is the module that a page imports, Style the style sheet that it links.
const (
	Main  = "run.js"
	Style = "picture.css"
)

// order is the order of the modules in the bundle: each one after those that it imports.
var order = []string{"model.js", "layout.js", "lanes.js", "canvas.js", "graph.js", "gantt.js", "list.js", "details.js",
	"run.js"}

// Assets are the modules and the style sheet, by name.
func Assets() fs.FS {
	sub, err := fs.Sub(assets, "assets")
	if err != nil {
		panic("picture: " + err.Error()) // the directory is embedded
	}
	return sub
}

var (
	imports = pattern.Lazy(`(?m)^import [^;]*;\n`)
	exports = pattern.Lazy(`(?m)^export `)
)

// bundle returns all modules as one. Top-level names are unique among the modules, which a test checks.
func bundle() string {
	var b strings.Builder
	for _, name := range order {
		text, err := assets.ReadFile("assets/" + name)
		if err != nil {
			panic(fmt.Sprintf("picture: %v", err))
		}
		b.WriteString(exports().ReplaceAllString(imports().ReplaceAllString(string(text), ""), ""))
	}
	return b.String()
}
