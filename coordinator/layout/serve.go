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

	"github.com/millipede-iac/millipede/coordinator/timeline"
)

// The process that has a store open serves requests of other processes of the same user on a socket in the
// home. There is one request per connection: a line of JSON in each direction. docs/format/directory.md
// describes it. An unknown request is refused with its name, so that later versions can add requests.

// ServeVersion is the version of the requests that this code supports.
const ServeVersion = 1

// OpCopy requests a copy of the store as of its last commit.
const OpCopy = "copy"

const (
	socketName    = "socket"
	addressName   = "socket.path"
	apartPrefix   = "millipede-"
	maxSocketPath = 100 // systems take 104 to 108 bytes
	maxRequest    = 4 << 10
	maxConns      = 64
	maxCopies     = 2
	requestTime   = 5 * time.Second
	copyTime      = 2 * time.Minute
)

// Request is a request of another process.
type Request struct {
	Version int    `json:"version"`
	Op      string `json:"op"`
}

// Reply is the reply to a request.
type Reply struct {
	Version int `json:"version"`
	// Error is the reason for a failure; empty for success.
	Error string `json:"error,omitempty"`
	// Dir is the directory with the copy, relative to the home; the requester removes it.
	Dir string `json:"dir,omitempty"`
	// Pulled says that the store had taken over the changes of others to the snapshot before the copy was made.
	Pulled bool `json:"pulled,omitempty"`
}

// Source is a store that is open in this process.
type Source interface {
	// CopyTo writes a copy of the store as of its last commit to a new file.
	CopyTo(ctx context.Context, to string) error
}

// Server serves requests about a store that this process has open. Close it before the store.
type Server struct {
	home     Home
	source   Source
	listener net.Listener
	temp     string // the directory for temporary files
	apart    string // the directory that was created for the socket; empty if the socket is in the home
	pulled   atomic.Bool
	copies   chan struct{}
	conns    chan struct{}
	ctx      context.Context
	leave    context.CancelFunc
	working  sync.WaitGroup

	watching sync.Mutex         // guards recorder and begun
	recorder *timeline.Recorder // the timeline of the current run; nil before the first one
	begun    chan struct{}      // closed and replaced when a run begins
}

// Serve starts to serve other processes. The caller has the store open for writing, so files of another server
// in the home belong to an ended process. temp is the directory for temporary files. The caller closes the
// server.
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

// listen opens the socket in the home. If the path is too long for a socket, or the file system does not
// support sockets, it uses a directory of its own, and writes its name to a file in the home.
func (s *Server) listen() (err error) {
	path, note := filepath.Join(s.home.path, socketName), filepath.Join(s.home.path, addressName)
	removeApart(note)
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
	if s.apart, err = os.MkdirTemp(s.temp, apartPrefix); err != nil {
		return err
	}
	path = filepath.Join(s.apart, socketName)
	// First the note, so that the next process finds the directory if this one is killed.
	if err := os.WriteFile(note, []byte(path), 0o600); err != nil {
		return err
	}
	if s.listener, err = net.Listen("unix", path); err != nil {
		return err
	}
	return os.Chmod(path, 0o600)
}

// removeApart removes the directory of the socket that a note names. The process that wrote the note has ended, because
// the caller has the store open. A directory with other files is kept, and so are files that cannot be removed; they do
// no harm.
func removeApart(note string) {
	text, err := os.ReadFile(note)
	path := strings.TrimSpace(string(text))
	dir := filepath.Dir(path)
	if err != nil || filepath.Base(path) != socketName || !strings.HasPrefix(filepath.Base(dir), apartPrefix) {
		return
	}
	_ = os.Remove(path)
	_ = os.Remove(dir) // if nothing else is in it
}

// Pulled reports to later readers that the store has taken over the changes of others to the snapshot.
func (s *Server) Pulled() { s.pulled.Store(true) }

// Close stops serving, and waits for the replies in progress.
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
				select { // for example, no file descriptor is available
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
			closeQuietly(conn) // the client retries
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

// closeQuietly closes a connection whose errors no longer matter.
func closeQuietly(c net.Conn) {
	_ = c.Close() // the other side sees the end in any case
}

// answer handles one request. Write errors are ignored: the client has gone away.
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
		stop() // the end of the run is sent although the server is being closed
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
		_ = os.RemoveAll(filepath.Join(s.home.path, reply.Dir)) // Tidy removes it later
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

// ErrNobody means that no process currently serves the store.
var ErrNobody = errors.New("no process serves the state store")

// Ask requests a copy of the store from the process that has it open. It returns the directory of the copy,
// which contains a file with the name of a store, and which the caller removes, and whether the store had taken
// over the snapshot. The error is ErrNobody if the process cannot be reached: it is starting, ending, or dead.
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

// dial connects to the process that has the store open; the error is ErrNobody if there is none.
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
