//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Variable names what happens at which point: POINT=N, several separated by commas: the process is killed when it comes
// by the point for the Nth time. POINT=N:stop pauses it there instead, until somebody has it go on.
const Variable = "MILLIPEDE_FAILPOINTS"

// plan has the settings in the environment.
var plan = parse(os.Getenv(Variable))

// fate is the action at a point.
type fate struct {
	mu   sync.Mutex // guards left
	left int
	stop bool
}

func parse(text string) map[Point]*fate {
	fates := map[Point]*fate{}
	for _, one := range strings.Split(text, ",") {
		name, rest, found := strings.Cut(one, "=")
		if !found {
			continue
		}
		times, how, _ := strings.Cut(rest, ":")
		n, err := strconv.Atoi(times)
		if err != nil || n < 1 {
			panic(fmt.Sprintf("failpoint: %s: %q is no number of times", Variable, one))
		}
		fates[Point(name)] = &fate{left: n, stop: how == "stop"}
	}
	return fates
}

// Hit ends or pauses the process if the environment requests that. It first prints a line for the log of the test.
func Hit(p Point) {
	f := plan[p]
	if f == nil {
		return
	}
	f.mu.Lock()
	f.left--
	now := f.left == 0
	f.mu.Unlock()
	if !now {
		return
	}
	fmt.Fprintf(os.Stderr, "failpoint %s\n", p)
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		panic(err)
	}
	if f.stop {
		pause(self)
		return
	}
	if err := self.Kill(); err != nil {
		panic(err)
	}
	select {} // the signal is on its way
}
