package main

import "os"

// headroomBytes was chosen by measuring no-op plans: more saves little CPU time and costs memory.
const headroomBytes = 48 << 20

// headroom keeps what reserveHeadroom has made.
var headroom []byte

// reserveHeadroom has the garbage collector run less often while the heap is small, which saves a command a sixth of its
// CPU time: the collector lets the heap grow to twice what it found in use, and of that the headroom is a part.
// It is never touched, so that no memory stands behind it, and to a large heap it makes no difference. Who says
// how memory is to be used, with GOGC or GOMEMLIMIT, gets exactly that.
func reserveHeadroom() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		headroom = make([]byte, headroomBytes)
	}
}
