//go:build !failpoints

package failpoint

// Hit does nothing in programs that are not built for tests.
func Hit(Point) {}
