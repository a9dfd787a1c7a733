//go:build !linux || !amd64

package disk

import "os/exec"

// Run runs a command and records its syncs in a directory.
func Run(*exec.Cmd, string, Cut) (Outcome, error) { return Outcome{}, ErrUnsupported }
