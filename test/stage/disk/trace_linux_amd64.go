package disk

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// Run runs a command to its end, or until the simulated power failure, and records its syncs in a directory. Processes
// that it starts are not traced. The command's output must go to files, or nowhere.
func Run(cmd *exec.Cmd, dir string, cut Cut) (Outcome, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return Outcome{}, err
	}
	image, err := read(dir)
	if err != nil {
		return Outcome{}, err
	}
	// The tracer is a thread, not a process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return Outcome{}, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	t := &tracer{pid: cmd.Process.Pid, dir: dir, cut: cut, threads: map[int]*thread{}}
	t.Image = image
	defer cmd.Process.Release() //nolint:errcheck // follow has waited for it
	if err := t.follow(); err != nil {
		return Outcome{}, errors.Join(err, syscall.Kill(t.pid, syscall.SIGKILL))
	}
	return t.Outcome, nil
}

// tracer watches a process.
type tracer struct {
	pid     int
	dir     string
	cut     Cut
	threads map[int]*thread
	Outcome
}

// thread is a thread of the process. Its stops are entries into system calls and returns from them, in turn.
type thread struct {
	inside bool
	syncs  string // the file that it syncs; empty for none
	as     []byte // its content when that began
}

const (
	traceClone   = syscall.PTRACE_O_TRACECLONE
	traceSysGood = syscall.PTRACE_O_TRACESYSGOOD
	exitKill     = 0x100000
	allThreads   = 0x40000000 // __WALL
)

func (t *tracer) follow() error {
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(t.pid, &status, allThreads, nil); err != nil {
		return fmt.Errorf("waiting for the start: %w", err)
	}
	if err := syscall.PtraceSetOptions(t.pid, traceClone|traceSysGood|exitKill); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	t.threads[t.pid] = &thread{}
	if err := syscall.PtraceSyscall(t.pid, 0); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	for {
		tid, err := syscall.Wait4(-t.pid, &status, allThreads, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("waiting for the process: %w", err)
		case status.Exited() || status.Signaled():
			delete(t.threads, tid)
			if tid == t.pid {
				t.Code = status.ExitStatus()
				return nil
			}
			continue
		}
		if err := t.stopped(tid, status); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
}

// stopped continues a thread that has stopped.
func (t *tracer) stopped(tid int, status syscall.WaitStatus) error {
	th := t.threads[tid]
	signal := 0
	switch s := status.StopSignal(); {
	case th == nil: // a new one, which begins with a stop
		t.threads[tid] = &thread{}
	case s == syscall.SIGTRAP|0x80:
		if err := t.called(tid, th); err != nil {
			return err
		}
	case s == syscall.SIGTRAP: // a thread was made
	default:
		signal = int(s)
	}
	return syscall.PtraceSyscall(tid, signal)
}

// called looks at a system call that begins or ends.
func (t *tracer) called(tid int, th *thread) error {
	th.inside = !th.inside
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(tid, &regs); err != nil {
		return err
	}
	failed := int64(regs.Rax) < 0
	switch nr := regs.Orig_rax; {
	case (nr == syscall.SYS_FSYNC || nr == syscall.SYS_FDATASYNC) && th.inside:
		return t.begin(th, int(regs.Rdi))
	case (nr == syscall.SYS_FSYNC || nr == syscall.SYS_FDATASYNC) && th.syncs != "":
		if !failed && !t.WasCut {
			t.Image[th.syncs] = th.as
		}
		th.syncs, th.as = "", nil
		if t.cut.After && t.Syncs >= t.cut.Sync && t.cut.Sync > 0 {
			return t.off()
		}
	case th.inside || failed || t.WasCut:
	case nr == syscall.SYS_WRITE || nr == syscall.SYS_PWRITE64:
		t.wrote(int(regs.Rdi))
	case nr == syscall.SYS_RENAME:
		return t.rename(tid, regs.Rdi, regs.Rsi)
	case nr == syscall.SYS_RENAMEAT || nr == sysRenameat2:
		return t.rename(tid, regs.Rsi, regs.R10)
	case nr == syscall.SYS_UNLINK:
		return t.unlink(tid, regs.Rdi)
	case nr == syscall.SYS_UNLINKAT:
		return t.unlink(tid, regs.Rsi)
	}
	return nil
}

const sysRenameat2 = 316

// begin notes that a sync begins.
func (t *tracer) begin(th *thread, fd int) error {
	name := t.nameOf(fd)
	if name == "" {
		return nil
	}
	content, err := os.ReadFile(filepath.Join(t.dir, name))
	if err != nil {
		return nil //nolint:nilerr // a directory, or it is gone already
	}
	t.Syncs++
	th.syncs, th.as = name, content
	if !t.cut.After && t.Syncs == t.cut.Sync {
		return t.off()
	}
	return nil
}

// off cuts the power.
func (t *tracer) off() error {
	if t.WasCut {
		return nil
	}
	t.WasCut = true
	t.Image = maps.Clone(t.Image)
	return syscall.Kill(t.pid, syscall.SIGKILL)
}

// wrote takes a file to be synced that was opened so that each write is.
func (t *tracer) wrote(fd int) {
	name := t.nameOf(fd)
	if name == "" {
		return
	}
	info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", t.pid, fd))
	if err != nil {
		return
	}
	_, flags, _ := strings.Cut(string(info), "flags:")
	flags, _, _ = strings.Cut(strings.TrimSpace(flags), "\n")
	if bits, err := strconv.ParseInt(flags, 8, 64); err != nil || bits&syscall.O_DSYNC == 0 {
		return
	}
	if content, err := os.ReadFile(filepath.Join(t.dir, name)); err == nil {
		t.Image[name] = content
	}
}

// nameOf is the path of an open file in the directory that is watched; empty for another one.
func (t *tracer) nameOf(fd int) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.pid, fd))
	if err != nil {
		return ""
	}
	return within(t.dir, path)
}

func (t *tracer) rename(tid int, from, to uint64) error {
	old, err := t.path(tid, from)
	if err != nil {
		return err
	}
	as, err := t.path(tid, to)
	if err != nil {
		return err
	}
	if old == "" && as == "" {
		return nil
	}
	moved := map[string][]byte{}
	for name, content := range t.Image {
		switch rest, in := strings.CutPrefix(name, old+"/"); {
		case name == old:
			moved[as] = content
			delete(t.Image, name)
		case in:
			moved[as+"/"+rest] = content
			delete(t.Image, name)
		}
	}
	if len(moved) == 0 && as != "" {
		moved[as] = nil // its content was never synced: it is a name for nothing
	}
	maps.Copy(t.Image, moved)
	return nil
}

func (t *tracer) unlink(tid int, at uint64) error {
	name, err := t.path(tid, at)
	delete(t.Image, name)
	return err
}

// path reads the path that is an argument of a system call.
func (t *tracer) path(tid int, at uint64) (string, error) {
	var text []byte
	for word := make([]byte, 8); len(text) < syscall.PathMax; at += 8 {
		if _, err := syscall.PtracePeekData(tid, uintptr(at), word); err != nil {
			return "", err
		}
		for _, b := range word {
			if b == 0 {
				path := string(text)
				if !filepath.IsAbs(path) {
					cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", t.pid))
					if err != nil {
						return "", err
					}
					path = filepath.Join(cwd, path)
				}
				return within(t.dir, filepath.Clean(path)), nil
			}
			text = append(text, b)
		}
	}
	return "", fmt.Errorf("a path is longer than %d bytes", syscall.PathMax)
}
