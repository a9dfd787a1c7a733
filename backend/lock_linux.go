package backend

import "golang.org/x/sys/unix"

// lockCommand makes locks that conflict with OpenTofu's per-process locks, but belong to the open file: reading the
// file elsewhere in this process does not release them.
const lockCommand = unix.F_OFD_SETLK
