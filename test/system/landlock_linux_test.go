package system

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// executeWithout executes a program, with the arguments of this one, for which the system calls of Landlock fail as
// they do where there is none.
func executeWithout(program string) error {
	if err := os.Unsetenv(withoutLandlock); err != nil {
		return err
	}
	runtime.LockOSThread() // the filter belongs to the thread, which executes the program
	const first, count = unix.SYS_LANDLOCK_CREATE_RULESET, 3
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: first + count, Jt: 2},
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: first, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	to := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&to)), 0, 0); err != nil {
		return err
	}
	return syscall.Exec(program, os.Args, os.Environ())
}
