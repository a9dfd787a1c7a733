package main

import "golang.org/x/sys/unix"

// hideMemory prevents other processes of the same user, such as the worker's plugins and provisioners, from reading the
// environment and the memory of the worker in /proc. These contain the NATS password and the keys of runs. It does not
// protect files that the user may read. (prctl(2): a process that is not dumpable belongs to root in /proc, and cannot
// be traced. Programs that it executes are dumpable again.)
func hideMemory() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
