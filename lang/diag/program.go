package diag

import (
	"path/filepath"

	"github.com/millipede-iac/millipede/pattern"
)

// program is the name that texts give to the program when they say what to run.
var program = "coordinator"

// Program returns the name under which the user called the program: "coordinator", or what a link to it is called.
// Texts that tell the user what to run begin the command line with it. It holds no percent sign, so that it may be part
// of a format.
func Program() string { return program }

// CalledAs takes the name from the path under which the program was called. Only main calls it, before anything else
// runs. A name that is no plain word stays out of the texts.
func CalledAs(path string) {
	if name := filepath.Base(path); plainName().MatchString(name) {
		program = name
	}
}

var plainName = pattern.Lazy(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
