package site

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Engines returns the process IDs of the engines of the service.
func (v *Service) Engines() (pids []int) {
	v.site.T.Helper()
	lists, err := filepath.Glob("/proc/" + strconv.Itoa(v.PID()) + "/task/*/children")
	if err != nil {
		v.site.T.Fatal(err)
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for field := range strings.FieldsSeq(string(text)) {
			command, err := os.ReadFile("/proc/" + field + "/cmdline")
			if err != nil || !strings.Contains(string(command), "\x00engine-process\x00") {
				continue
			}
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
