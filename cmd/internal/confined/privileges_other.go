//go:build !linux

package confined

func waive() error { return nil }
