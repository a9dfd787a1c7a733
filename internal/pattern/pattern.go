// Package pattern has regular expressions that are compiled when they are first used.
//
// A command starts with all packages of the program, and uses few of their expressions: compiled at the start of the
// process, they would cost every command some milliseconds. It is not for expressions that are known only at run time:
// a wrong expression panics, as with regexp.MustCompile, but later.
package pattern

import (
	"regexp"
	"sync"
)

// Lazy returns a function that returns the compiled expression, always the same. It may be called from several
// goroutines at a time, and panics if the expression cannot be compiled.
func Lazy(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
