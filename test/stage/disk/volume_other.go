//go:build !linux

package disk

// Mount returns ErrUnsupported: there is no disk in memory here.
func Mount(string, int) (*Volume, error) { return nil, ErrUnsupported }

// Close is never called.
func (v *Volume) Close() error { return nil }
