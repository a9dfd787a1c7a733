//go:build unix

package serving

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// separate says that engines can be processes of their own here.
const separate = true

// socketPair returns a connection, and its other end as a file for another process. The caller closes both.
func socketPair(name string) (net.Conn, *os.File, error) {
	syscall.ForkLock.RLock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("making a pair of sockets: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), name)
	ours, err := connOf(fds[0], name)
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return ours, theirs, nil
}

// connOf returns the connection of a descriptor, which it takes over.
func connOf(fd int, name string) (net.Conn, error) {
	f := os.NewFile(uintptr(fd), name)
	conn, err := net.FileConn(f)
	return conn, errors.Join(err, f.Close())
}

// inheritedConn returns the connection with a descriptor that the process was started with. Programs that this process
// starts do not get it.
func inheritedConn(fd int, name string) (net.Conn, error) {
	unix.CloseOnExec(fd)
	return connOf(fd, name)
}

// A process asks for a connection to the embedded NATS server with one byte; the answer is one byte, dialled, with the
// descriptor of the connection, or another byte.
const (
	dialled  = 'd'
	unserved = 'u'
)

// mostDials is how many connections to the embedded NATS server a process has at a time: it needs one, and for a moment
// a second one when it connects again.
const mostDials = 8

// serveDials answers the requests for connections that come over a pair of sockets, until the other side is gone. dial
// connects to the server.
func serveDials(on net.Conn, dial func() (net.Conn, error)) {
	conn, ok := on.(*net.UnixConn)
	if !ok {
		return
	}
	var one [1]byte
	taken := make(chan struct{}, mostDials)
	for {
		if _, err := io.ReadFull(conn, one[:]); err != nil {
			return
		}
		if answerDial(conn, dial, taken) != nil {
			if _, err := conn.Write([]byte{unserved}); err != nil {
				return
			}
		}
	}
}

// errDials refuses a further connection.
var errDials = errors.New("the process has too many connections to NATS")

// answerDial answers one request. taken has an element for each connection.
func answerDial(conn *net.UnixConn, dial func() (net.Conn, error), taken chan struct{}) (err error) {
	select {
	case taken <- struct{}{}:
		defer func() {
			if err != nil {
				<-taken
			}
		}()
	default:
		return errDials
	}
	server, err := dial()
	if err != nil {
		return err
	}
	ours, theirs, err := socketPair("nats")
	if err != nil {
		return errors.Join(err, server.Close())
	}
	_, _, err = conn.WriteMsgUnix([]byte{dialled}, unix.UnixRights(int(theirs.Fd())), nil)
	if err = errors.Join(err, theirs.Close()); err != nil {
		return errors.Join(err, ours.Close(), server.Close())
	}
	go func() { // it ends with either
		defer func() { <-taken }()
		connect(ours, server)
	}()
	return nil
}

// connect passes bytes between two connections until one of them ends, and closes both.
func connect(a, b net.Conn) {
	end := sync.OnceFunc(func() { _ = errors.Join(a.Close(), b.Close()) }) // each of them has ended anyway
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			defer end()
			_, _ = io.Copy(pair[0], pair[1])
		})
	}
	both.Wait()
}

// dialer asks for connections to the embedded NATS server of the service.
type dialer struct {
	mu sync.Mutex // held during a request
	on *net.UnixConn
}

// dial returns a connection, which the caller closes.
func (d *dialer) dial() (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.on.Write([]byte{dialled}); err != nil {
		return nil, fmt.Errorf("asking for a connection to NATS: %w", err)
	}
	var one [1]byte
	rights := make([]byte, unix.CmsgSpace(4))
	n, size, _, _, err := d.on.ReadMsgUnix(one[:], rights)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return nil, fmt.Errorf("asking for a connection to NATS: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:size])
	if err != nil || len(messages) != 1 {
		return nil, errors.New("the embedded NATS server is not there at the moment")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.Join(errors.New("the service has sent no connection to NATS"), err)
	}
	unix.CloseOnExec(fds[0])
	return connOf(fds[0], "nats")
}

// newDialer returns a dialer over a connection.
func newDialer(on net.Conn) (*dialer, error) {
	conn, ok := on.(*net.UnixConn)
	if !ok {
		return nil, errors.New("the connection is none of a pair of sockets")
	}
	return &dialer{on: conn}, nil
}

// apart are the attributes of a process that does not get the signals of the terminal: the service ends it.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
