//go:build failpoints && windows

package failpoint

import "os"

// pause is not there: the tests that need it do not run on Windows.
func pause(*os.Process) { panic("failpoint: a process cannot be stopped here") }
