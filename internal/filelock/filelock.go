// Package filelock takes locks on open files, which end with the process that holds them. It does not wait for them.
package filelock

import "errors"

// ErrLocked means that another open file holds the lock.
var ErrLocked = errors.New("locked by another process")
