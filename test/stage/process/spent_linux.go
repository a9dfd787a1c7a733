package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ticks is how many of the kernel's units of CPU time a second has, on every architecture that Go knows.
const ticks = 100

// Spent returns the CPU time that a process and its descendants have used. Descendants that were not waited for, and
// have ended, are missing.
func Spent(pid int) (time.Duration, error) {
	total, err := spent(pid)
	for _, child := range children(pid) {
		if more, err := Spent(child); err == nil { // else it has ended
			total += more
		}
	}
	return total, err
}

// children returns the processes that a process has started, and that have not ended.
func children(pid int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is well-formed
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// spent returns the CPU time that a process has used, with that of the children that it has waited for.
func spent(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name of the program, in parentheses, may have spaces.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 15 {
		return 0, fmt.Errorf("/proc/%d/stat cannot be read: %q", pid, text)
	}
	total := 0
	for _, f := range fields[11:15] {
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return time.Duration(total) * time.Second / ticks, nil
}

// Memory returns the memory that a process has to itself, in bytes: without the files that it maps.
func Memory(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if size, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(size), " kB"), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status does not tell", pid)
}
