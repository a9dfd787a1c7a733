//go:build !linux

package main

import (
	"errors"
	"time"
)

var errOnlyLinux = errors.New("processes that go on are measured on Linux alone")

func spent(int) (time.Duration, error) { return 0, errOnlyLinux }

func held(int) (most, now int64, err error) { return 0, 0, errOnlyLinux }
