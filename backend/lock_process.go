//go:build unix && !linux

package backend

import "golang.org/x/sys/unix"

// lockCommand makes locks of this process. Closing any other handle of the file in this process releases them.
const lockCommand = unix.F_SETLK
