//go:build !linux && !darwin && !freebsd

package store

import "errors"

func free(string) (uint64, error) { return 0, errors.ErrUnsupported }
