package remote

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Tree is a file or a directory to copy.
type Tree struct {
	Name string
	// Entries are the entries of a directory; nil for a file, whose Size bytes Open opens for reading.
	Entries []*Tree
	Dir     bool
	Size    int64
	Open    func() (io.ReadCloser, error)
}

// Bytes returns a file with content in memory.
func Bytes(name string, data []byte) *Tree {
	return &Tree{Name: name, Size: int64(len(data)), Open: func() (io.ReadCloser,
		error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	}}
}

// Copy writes a file to a path on the host.
func (c *Client) Copy(destination string, file *Tree) error {
	destination = strings.ReplaceAll(destination, `\`, map[string]string{Windows: "/", Unix: `\`}[c.settings.Platform])
	whole := *file
	whole.Name = path.Base(destination)
	return c.scp("-t", path.Dir(destination), func(s *sink) error { return s.file(&whole) })
}

// CopyDir copies a directory: into an existing directory, or as a new one. With contents, it copies only the
// entries of dir into an existing directory.
func (c *Client) CopyDir(destination string, dir *Tree, contents bool) error {
	return c.scp("-rt", destination, func(s *sink) error {
		if contents {
			return s.entries(dir)
		}
		return s.dir(dir)
	})
}

// RunScript uploads a script, runs it, and then empties its file, because scripts may contain secrets. A script
// without an interpreter line is run by /bin/sh. Its output goes to out.
func (c *Client) RunScript(script []byte, out io.Writer) error {
	file := strings.ReplaceAll(c.settings.ScriptPath, "%RAND%", strconv.Itoa(int(rand.Int32())))
	if c.settings.Platform == Unix && !bytes.HasPrefix(script, []byte("#!")) {
		script = append([]byte("#!/bin/sh\n"), script...)
	}
	if err := c.Copy(file, Bytes("", script)); err != nil {
		// The words are OpenTofu's.
		return fmt.Errorf("Failed to upload script: %w", err)
	}
	if c.settings.Platform == Unix {
		var said bytes.Buffer
		if err := c.Run("chmod 0777 "+file, &said); err != nil {
			// The words are OpenTofu's.
			return fmt.Errorf("Failed to upload script: making it executable: %w %s", err, said.String())
		}
	}
	err := c.Run(file, out)
	if left := c.Copy(file, Bytes("", nil)); err == nil && left != nil {
		return fmt.Errorf("the script has run, but its file could not be emptied: %w", left)
	}
	return err
}

// scp runs the program scp on the host to receive the files that send sends.
func (c *Client) scp(flags, target string, send func(*sink) error) error {
	session, err := c.ssh.NewSession()
	if err != nil {
		return fmt.Errorf("opening a session: %w", err)
	}
	defer session.Close() //nolint:errcheck // it ends with the program
	in, err := session.StdinPipe()
	if err != nil {
		return err
	}
	answers, err := session.StdoutPipe()
	if err != nil {
		return err
	}
	var complaints bytes.Buffer
	session.Stderr = &complaints
	if err := session.Start("scp " + flags + " " + c.quote(target)); err != nil {
		return fmt.Errorf("starting scp: %w", err)
	}
	sent := send(&sink{in, bufio.NewReader(answers)})
	if sent != nil && !errors.Is(sent, io.EOF) {
		return sent
	}
	in.Close() //nolint:errcheck // the program may have ended
	return scpEnd(session.Wait(), sent)
}

// scpEnd returns the error of a copy. That the connection ended early matters only if scp has not reported a
// reason.
func scpEnd(ended, sent error) error {
	if status := (*ssh.ExitError)(nil); errors.As(ended, &status) && status.ExitStatus() == 127 {
		return errors.New("SCP failed to start. This usually means that SCP is not properly installed on the " +
			"remote system")
	}
	if ended != nil {
		return ended
	}
	if sent != nil {
		return fmt.Errorf("scp ended early: %w", sent)
	}
	return nil
}

// quote quotes a path for the shell on the host.
func (c *Client) quote(path string) string {
	if c.settings.Platform == Windows {
		if strings.ContainsAny(path, " \t") {
			return `"` + path + `"`
		}
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// sink is the receiving program scp.
type sink struct {
	w io.Writer
	r *bufio.Reader
}

func (s *sink) file(f *Tree) error {
	content, err := f.Open()
	if err != nil {
		return err
	}
	defer content.Close() // it was read
	if err := s.say("C0644 %d %s\n", f.Size, f.Name); err != nil {
		return err
	}
	if _, err := io.CopyN(s.w, content, f.Size); err != nil {
		return fmt.Errorf("sending %s: %w", f.Name, noEnd(err))
	}
	return s.say("\x00")
}

// noEnd distinguishes the end of a file that became shorter from the end of the program.
func noEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (s *sink) dir(d *Tree) error {
	if err := s.say("D0755 0 %s\n", d.Name); err != nil {
		return err
	}
	if err := s.entries(d); err != nil {
		return err
	}
	return s.say("E\n")
}

func (s *sink) entries(d *Tree) error {
	for _, e := range d.Entries {
		send := s.file
		if e.Dir {
			send = s.dir
		}
		if err := send(e); err != nil {
			return err
		}
	}
	return nil
}

// say sends a line, and waits for its acknowledgement.
func (s *sink) say(format string, v ...any) error {
	if _, err := fmt.Fprintf(s.w, format, v...); err != nil {
		return err
	}
	code, err := s.r.ReadByte()
	if err != nil || code == 0 {
		return err
	}
	message, err := s.r.ReadString('\n')
	if err != nil {
		return err
	}
	return errors.New(strings.TrimSpace(message))
}
