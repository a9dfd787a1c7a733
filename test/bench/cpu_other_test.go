//go:build !unix

package main

import "time"

// cpu is unknown here.
func cpu() time.Duration { return 0 }
