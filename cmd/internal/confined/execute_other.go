//go:build !unix

package confined

import "errors"

func execute([]string) error { return errors.New("this system has no confined processes") }
