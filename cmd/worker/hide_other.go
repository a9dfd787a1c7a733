//go:build !linux

package main

// hideMemory does nothing: other systems do not show a process's memory to others of its user, or offer no such switch.
func hideMemory() error { return nil }
