package layout

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millipede-iac/millipede/view/timeline"
)

// The process that has a store open answers other processes of the same user on a socket in the home, one request on
// a connection: a line of JSON each way. docs/format/directory.md describes it. What it does not know it refuses by
// name, so that later versions can ask for more.

// ServeVersion is the version of the requests that this code makes and understands.
const ServeVersion = 1

// OpCopy asks for a copy of the store as it was last committed.
const OpCopy = "copy"

const (
	socketName    = "socket"
	addressName   = "socket.path"
	maxSocketPath = 100 // systems take 104 to 108 bytes
	maxRequest    = 4 << 10
	maxConns      = 64
	maxCopies     = 2
	requestTime   = 5 * time.Second
	copyTime      = 2 * time.Minute
)

// Request is what another process asks for.
type Request struct {
	Version int    `json:"version"`
	Op      string `json:"op"`
}

// Reply is the answer.
type Reply struct {
	Version int `json:"version"`
	// Error says why there is no answer; empty when there is one.
	Error string `json:"error,omitempty"`
	// Dir is the directory below the home that has the copy; whoever asked removes it.
	Dir string `json:"dir,omitempty"`
	// Pulled tells that the store had taken over what others did to the snapshot before the copy was made.
	Pulled bool `json:"pulled,omitempty"`
}

// Source is a store that is open in this process.
type Source interface {
	// CopyTo writes a copy of the store, as it was last committed, to a new file.
	CopyTo(ctx context.Context, to string) error
}

// Server answers for a store that this process has open. Close it before the store.
type Server struct {
	home     Home
	source   Source
	listener net.Listener
	temp     string // the directory for temporary files
	apart    string // the directory that was made for the socket; empty where it is in the home
	pulled   atomic.Bool
	copies   chan struct{}
	conns    chan struct{}
	ctx      context.Context
	leave    context.CancelFunc
	working  sync.WaitGroup

	watching sync.Mutex     // guards book and begun
	book     *timeline.Book // of the run that is carried out; nil before one has begun
	begun    chan struct{}  // closed, and replaced, when one begins
}

// Serve answers other processes from now on. The caller has the store open for writing, so what another server has left
// in the home is of a process that is gone. temp is the directory for temporary files. Close the server.
func (h Home) Serve(source Source, temp string) (*Server, error) {
	s := &Server{home: h, source: source, temp: temp, copies: make(chan struct{}, maxCopies),
		conns: make(chan struct{}, maxConns), begun: make(chan struct{})}
	if err := s.listen(); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the socket for readers in %s: %w", h.path, err), s.removeSocket())
	}
	s.ctx, s.leave = context.WithCancel(context.Background())
	s.working.Add(1)
	go s.accept() // Close waits for it
	return s, nil
}

// listen opens the socket in the home or, where its name is too long for one or the file system has none, in a
// directory of its own, whose name is in a file of the home.
func (s *Server) listen() (err error) {
	path, note := filepath.Join(s.home.path, socketName), filepath.Join(s.home.path, addressName)
	for _, old := range []string{path, note} {
		if err := os.Remove(old); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if len(path) <= maxSocketPath {
		if s.listener, err = net.Listen("unix", path); err == nil {
			return os.Chmod(path, 0o600)
		}
	}
	if s.apart, err = os.MkdirTemp(s.temp, "millipede-"); err != nil {
		return err
	}
	path = filepath.Join(s.apart, socketName)
	if s.listener, err = net.Listen("unix", path); err != nil {
		return err
	}
	return errors.Join(os.Chmod(path, 0o600), os.WriteFile(note, []byte(path), 0o600))
}

// Pulled tells readers from now on that the store has taken over what others did to the snapshot.
func (s *Server) Pulled() { s.pulled.Store(true) }

// Close stops answering and waits for the answers that are under way.
func (s *Server) Close() error {
	err := s.listener.Close() // removes the socket
	s.leave()
	s.working.Wait()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return errors.Join(err, s.removeSocket())
}

func (s *Server) removeSocket() error {
	if s.apart == "" {
		return nil
	}
	err := os.Remove(filepath.Join(s.home.path, addressName))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(s.apart))
}

func (s *Server) accept() {
	defer s.working.Done()
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			if s.ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
				select { // no file descriptor is left, for example
				case <-s.ctx.Done():
				case <-time.After(100 * time.Millisecond):
				}
				continue
			}
			return
		}
		select {
		case s.conns <- struct{}{}:
		default:
			closeQuietly(conn) // whoever was turned away tries again
			continue
		}
		s.working.Add(1)
		go func() {
			defer s.working.Done()
			defer func() { <-s.conns }()
			defer closeQuietly(conn)
			s.answer(conn)
		}()
	}
}

// closeQuietly closes a connection of which nothing more is wanted.
func closeQuietly(c net.Conn) {
	_ = c.Close() //nolint:errcheck // the other side sees the end in any case
}

// answer answers one request. That nobody waits for the answer any more is no loss.
func (s *Server) answer(conn net.Conn) {
	if !sameUser(conn) || conn.SetDeadline(time.Now().Add(requestTime)) != nil {
		return
	}
	stop := context.AfterFunc(s.ctx, func() { closeQuietly(conn) })
	defer stop()
	var r Request
	line, err := bufio.NewReader(io.LimitReader(conn, maxRequest)).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &r) != nil {
		return
	}
	if r.Op == OpWatch && r.Version <= ServeVersion {
		stop() // the end of the run is told although the server is being closed
		s.watch(conn)
		return
	}
	reply := s.reply(r)
	reply.Version = ServeVersion
	text, err := json.Marshal(reply)
	if err == nil && conn.SetDeadline(time.Now().Add(requestTime)) == nil {
		_, err = conn.Write(append(text, '\n'))
	}
	if err != nil && reply.Dir != "" {
		_ = os.RemoveAll(filepath.Join(s.home.path, reply.Dir)) //nolint:errcheck // Tidy removes it later
	}
}

func (s *Server) reply(r Request) Reply {
	switch {
	case r.Version > ServeVersion:
		return Reply{Error: fmt.Sprintf("requests of version %d are not known here", r.Version)}
	case r.Op != OpCopy:
		return Reply{Error: fmt.Sprintf("there is no request %q", r.Op)}
	}
	select {
	case s.copies <- struct{}{}:
		defer func() { <-s.copies }()
	case <-s.ctx.Done():
		return Reply{Error: "the store is being closed"}
	}
	pulled := s.pulled.Load()
	dir, err := s.home.MakeCopyDir()
	if err == nil {
		ctx, cancel := context.WithTimeout(s.ctx, copyTime)
		defer cancel()
		if err = s.source.CopyTo(ctx, filepath.Join(dir, storeName)); err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	if err != nil {
		return Reply{Error: err.Error()}
	}
	return Reply{Dir: filepath.Base(dir), Pulled: pulled}
}

// ErrNobody means that no process answers for the store at the moment.
var ErrNobody = errors.New("no process answers for the state store")

// Ask has the process that has the store open make a copy of it. It returns the directory of the copy, which has the
// name of a store in it and which the caller removes, and whether the store had taken over the snapshot. The error is
// ErrNobody when the process cannot be reached: it has just begun, is about to end, or has died.
func (h Home) Ask(ctx context.Context) (dir string, pulled bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, copyTime)
	defer cancel()
	conn, err := h.dial(ctx)
	if err != nil {
		return "", false, err
	}
	defer closeQuietly(conn)
	stop := context.AfterFunc(ctx, func() { closeQuietly(conn) })
	defer stop()
	text, err := json.Marshal(Request{Version: ServeVersion, Op: OpCopy})
	if err != nil {
		return "", false, err
	}
	if _, err := conn.Write(append(text, '\n')); err != nil {
		return "", false, fmt.Errorf("%w: %w", ErrNobody, err)
	}
	line, err := bufio.NewReader(io.LimitReader(conn, maxRequest)).ReadBytes('\n')
	if err != nil {
		return "", false, fmt.Errorf("%w: %w", ErrNobody, err)
	}
	var r Reply
	switch err := json.Unmarshal(line, &r); {
	case err != nil:
		return "", false, fmt.Errorf("%w: its answer cannot be read: %w", ErrNobody, err)
	case r.Error != "":
		return "", false, fmt.Errorf("%w: %s", ErrNobody, r.Error)
	case !strings.HasPrefix(r.Dir, copyPrefix) || filepath.Base(r.Dir) != r.Dir:
		return "", false, fmt.Errorf("%w: it names a strange place, %q", ErrNobody, r.Dir)
	}
	return filepath.Join(h.path, r.Dir), r.Pulled, nil
}

// dial connects to the process that has the store open; the error is ErrNobody when there is none.
func (h Home) dial(ctx context.Context) (net.Conn, error) {
	path := filepath.Join(h.path, socketName)
	if text, err := os.ReadFile(filepath.Join(h.path, addressName)); err == nil {
		path = strings.TrimSpace(string(text))
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNobody, err)
	}
	return conn, nil
}
