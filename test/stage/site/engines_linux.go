package site

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Engines returns the process IDs of the engines of the service.
func (v *Service) Engines() []int {
	v.site.T.Helper()
	return v.children("engine-process")
}

// EmbeddedWorkers returns the process IDs of the embedded worker of the service: one, or none.
func (v *Service) EmbeddedWorkers() []int {
	v.site.T.Helper()
	return v.children("worker-process")
}

// children returns the process IDs of the processes that execute a command for the service.
func (v *Service) children(name string) (pids []int) {
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
			if err != nil || !strings.Contains(string(command), "\x00"+name+"\x00") {
				continue
			}
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
