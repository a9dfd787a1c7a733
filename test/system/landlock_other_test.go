//go:build !linux

package system

import "errors"

func executeWithout(string) error { return errors.New("only Linux has Landlock") }
