package confined

import "strconv"

// Limits are what a program, with all that it starts, may use of a machine. Zero is no limit.
type Limits struct {
	// Processes is how many processes and threads the user of the program may have when one of them starts another: the
	// system counts by users, and does not bound root.
	Processes int64 `json:"processes,omitempty"`
	// FileSize is the size of a file that is written, in bytes. It is no bound on the number of files.
	FileSize int64 `json:"fileSize,omitempty"`
}

// arguments returns the flags of the command.
func (l Limits) arguments() []string {
	return []string{"-processes=" + strconv.FormatInt(l.Processes, 10), "-file-size=" + strconv.FormatInt(l.FileSize, 10)}
}
