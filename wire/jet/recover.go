package jet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/wire"
)

// A NATS server remembers the first write of a stream that failed, and refuses all later ones, without an answer, until
// it is started anew: also when the disk has space again. So the embedded server is closed and opened again, over the
// same streams, once its disk takes writes. Connections see that as they see the restart of any server.

const (
	// mendEvery is how often the disk is tried while it takes no writes.
	mendEvery = 250 * time.Millisecond
	// mendBytes is how many bytes must fit on the disk before the server is opened again.
	mendBytes = 1 << 20
	// mendName is the file that they are tried with.
	mendName = "room"
)

// writeFailed tells whether a line of the server's log says that it has given up writing.
func writeFailed(line string) bool {
	line = strings.ToLower(line)
	return strings.Contains(line, "critical write error") || strings.Contains(line, "will be disabled") ||
		strings.Contains(line, "disabling jetstream")
}

// failed notes that the server could not write. It may be called on the server's goroutines, so it never blocks.
func (e *Embedded) failed(line string) {
	e.mu.Lock()
	if e.trouble == nil {
		e.trouble = fmt.Errorf("%w: %s", wire.ErrStore, line)
	}
	e.mu.Unlock()
	select {
	case e.broken <- struct{}{}:
	default:
	}
}

// Trouble returns why nothing can be stored at the moment, an error that is wire.ErrStore; nil while all is well.
func (e *Embedded) Trouble() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.trouble
}

// recoverWrites opens the server again whenever it has given up writing, until ctx ends.
func (e *Embedded) recoverWrites(ctx context.Context) {
	for {
		select {
		case <-e.broken:
		case <-ctx.Done():
			return
		}
		told := false
		for err := e.tryDisk(); err != nil; err = e.tryDisk() {
			if !told {
				e.log(fmt.Sprintf("The message store in %s cannot be written: %s. It is opened again as soon as that "+
					"is possible.", e.dir, err))
				told = true
			}
			if sleep.For(ctx, mendEvery) != nil {
				return
			}
		}
		for err := e.reopen(); err != nil; err = e.reopen() {
			e.log(fmt.Sprintf("Opening the message store in %s again failed: %s.", e.dir, err))
			if sleep.For(ctx, 4*mendEvery) != nil {
				return
			}
		}
		e.log(fmt.Sprintf("The message store in %s was opened again, after a write to it had failed.", e.dir))
	}
}

// tryDisk writes as much as the server must be able to write.
func (e *Embedded) tryDisk() error {
	path := filepath.Join(e.dir, mendName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, mendBytes))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), os.Remove(path))
}

// reopen replaces the server.
func (e *Embedded) reopen() error {
	e.mu.Lock()
	old := e.server
	e.server = nil
	e.mu.Unlock()
	if old != nil {
		old.Shutdown()
		old.WaitForShutdown()
	}
	select {
	case <-e.broken: // the last answer of the old server
	default:
	}
	ns, err := startServer(e.dir, e.log, e.failed)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.server, e.trouble = ns, nil
	return nil
}

// running returns the server, or an error while it is being replaced.
func (e *Embedded) running() (*server.Server, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.server == nil {
		return nil, errors.New("the embedded NATS server is being opened again")
	}
	return e.server, nil
}
