//go:build !unix

package serving

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// separate says that engines can be processes of their own here.
const separate = false

var errSeparate = errors.New("engines are no processes of their own on this system")

func socketPair(string) (net.Conn, *os.File, error) { return nil, nil, errSeparate }
func inheritedConn(int, string) (net.Conn, error)   { return nil, errSeparate }
func serveDials(net.Conn, func() (net.Conn, error)) {}
func newDialer(net.Conn) (*dialer, error)           { return nil, errSeparate }
func apart() *syscall.SysProcAttr                   { return nil }

type dialer struct{}

func (*dialer) dial() (net.Conn, error) { return nil, errSeparate }
