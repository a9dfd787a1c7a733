package diag

import (
	"path/filepath"

	"github.com/millipede-iac/millipede/internal/pattern"
)

// program is the name of the program in texts that suggest commands.
var program = "coordinator"

// Program returns the name under which the user called the program: "coordinator", or the name of a link to it.
// Command lines in texts begin with it. It contains no percent sign, so that it may be part of a format string.
func Program() string { return program }

// CalledAs sets the name from the path under which the program was called. Only main calls it, before anything else
// runs. A name that is not a plain word is ignored.
func CalledAs(path string) {
	if name := filepath.Base(path); plainName().MatchString(name) {
		program = name
	}
}

var plainName = pattern.Lazy(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
