package main

import "golang.org/x/sys/unix"

// hideMemory keeps other processes of the same user, such as the plugins and provisioners that the worker starts, from
// reading its environment and its memory in /proc, where the NATS password and the keys of runs are. It does not keep
// them from files that the user may read. (prctl(2): a process that is not dumpable belongs to root in /proc, and
// cannot be traced. What it executes is dumpable again.)
func hideMemory() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
