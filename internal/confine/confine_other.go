//go:build !linux

package confine

func level() int { return 0 }

func (Rules) apply() error { return nil }
