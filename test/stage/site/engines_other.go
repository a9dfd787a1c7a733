//go:build !linux

package site

// Engines returns nothing: only on Linux are the processes of a service known.
func (v *Service) Engines() []int { return nil }
