//go:build !unix

package serving

// boundMemory does nothing: there are no engines here.
func boundMemory(int64) error { return nil }
