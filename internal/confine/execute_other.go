//go:build !unix

package confine

import "errors"

func execute([]string) error { return errors.New("this system has no confined processes") }
