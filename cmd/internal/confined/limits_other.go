//go:build !linux && !darwin

package confined

// ProcessesHold reports whether the system bounds the number of processes of this user.
func ProcessesHold() bool { return false }

func (Limits) apply() error { return nil }
