package main

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Variables that are removed from the environment of a plugin could still be read in /proc/PID/environ of the worker,
// by any process of the same user.
func TestAWorkerIsNotReadableInProc(t *testing.T) {
	if err := hideMemory(); err != nil {
		t.Fatal(err)
	}
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil || dumpable != 0 {
		t.Errorf("dumpable is %d, %v", dumpable, err)
	}
}
