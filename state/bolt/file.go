package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// openFile opens the database. The free list is synced, although that costs a page in each commit: otherwise bbolt
// reads the whole tree when it opens a file, in a separate goroutine, where damage would crash the process.
func openFile(path string, timeout time.Duration, noSync bool) (*bbolt.DB, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("opening the state store: %w", err)
	}
	if timeout <= 0 {
		timeout = time.Nanosecond // 0 would mean no limit
	}
	for {
		db, file, err := openNamed(path, timeout, noSync)
		if err != nil {
			return nil, err
		}
		// While this process waited for the lock, another may have replaced the file.
		here, err := file.Stat()
		named, err2 := os.Stat(path)
		if err == nil && err2 == nil && os.SameFile(here, named) {
			return db, nil
		}
		if err := errors.Join(db.Close(), err); err != nil {
			return nil, fmt.Errorf("opening the state store: %w", err)
		}
	}
}

// openNamed opens the file that has the name now, and locks it.
func openNamed(path string, timeout time.Duration, noSync bool) (db *bbolt.DB, file *os.File, err error) {
	defer recoverDamage(path, &err)()
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:      timeout,
		FreelistType: bbolt.FreelistMapType,
		NoSync:       noSync,
		NoStatistics: true,
		OpenFile: func(name string, flag int, perm fs.FileMode) (*os.File, error) {
			var err error
			file, err = openChecked(name, flag, perm)
			return file, err
		},
	})
	switch {
	case err == nil, errors.Is(err, berrors.ErrTimeout):
		return db, file, err
	case errors.Is(err, ErrDamaged):
		return nil, nil, err
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrVersionMismatch),
		errors.Is(err, berrors.ErrChecksum):
		return nil, nil, damaged(path, err.Error())
	}
	return nil, nil, fmt.Errorf("opening the state store: %w", err)
}

// openChecked opens the file for bbolt. It rejects a file that is shorter than its header says: bbolt maps it into
// memory, and access beyond the end would kill the process.
func openChecked(name string, flag int, perm fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	if why := tooShort(f); why != "" {
		return nil, errors.Join(damaged(name, why), f.Close())
	}
	return f, nil
}

// The layout of a bbolt file's header, from its documentation: two pages, each 16 bytes of page header, then these.
const (
	pageHeader   = 16
	metaSize     = 64
	metaMagic    = 0xED0CDAED
	metaPageSize = 8
	metaPages    = 40 // the number of pages in use
	metaTx       = 48
	metaChecksum = 56
	maxPageSize  = 64 << 10
)

// tooShort describes the problem with the length of the file; empty if there is none. bbolt checks everything else.
func tooShort(f *os.File) string {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return "" // a new file
	}
	var newest, pages, pageSize uint64
	found := false
	// The second header is at the second page; the page size is in the first header, which may be the damaged one.
	for at := int64(0); at <= maxPageSize; at = max(at*2, 1024) {
		var m [metaSize]byte
		if _, err := f.ReadAt(m[:], at+pageHeader); err != nil {
			if !errors.Is(err, io.EOF) {
				return err.Error()
			}
			continue
		}
		sum := fnv.New64a()
		sum.Write(m[:metaChecksum])
		if binary.NativeEndian.Uint32(m[:]) != metaMagic ||
			binary.NativeEndian.Uint64(m[metaChecksum:]) != sum.Sum64() {
			continue
		}
		if tx := binary.NativeEndian.Uint64(m[metaTx:]); !found || tx > newest {
			found, newest = true, tx
			pages = binary.NativeEndian.Uint64(m[metaPages:])
			pageSize = uint64(binary.NativeEndian.Uint32(m[metaPageSize:]))
		}
	}
	switch {
	case !found:
		return "no header is left in it"
	case uint64(info.Size()) < pages*pageSize:
		return fmt.Sprintf("it has %d bytes, and its header says %d", info.Size(), pages*pageSize)
	}
	return ""
}

// damaged returns the error about a damaged file, with advice for the user.
func damaged(path, why string) error {
	return fmt.Errorf("%w: %s: %s. Put back a copy of the file from before, or move the file away: "+
		"the next command then starts from the snapshot (the state file that your backend names), without the earlier "+
		"versions and without what an unfinished run had not yet written there", ErrDamaged, path, why)
}

// recoverDamage converts panics of bbolt, and of package recorded over it, about invalid pages, and faults while
// reading them, into an error. It is deferred as recoverDamage(...)(). Other panics are bugs and are not recovered.
func recoverDamage(path string, err *error) func() {
	old := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(old)
		p := recover()
		if p == nil {
			return
		}
		_, fault := p.(interface {
			runtime.Error
			Addr() uintptr
		})
		switch {
		case fault:
			*err = damaged(path, "a page of it cannot be read")
		case panickedIn("go.etcd.io/bbolt", "github.com/millipede-iac/millipede/state/recorded"):
			*err = damaged(path, fmt.Sprint(p))
		default:
			panic(p)
		}
	}
}

// panickedIn reports whether the panic that is being recovered was raised in one of these modules or packages.
func panickedIn(modules ...string) bool {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	panicked := false
	for {
		f, more := frames.Next()
		switch inRuntime := strings.HasPrefix(f.Function, "runtime."); {
		case f.Function == "runtime.gopanic":
			panicked = true
		case panicked && !inRuntime:
			return slices.ContainsFunc(modules, func(m string) bool { return strings.HasPrefix(f.Function, m) })
		}
		if !more {
			return false
		}
	}
}
