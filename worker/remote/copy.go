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

// Tree is a directory to copy, or a file.
type Tree struct {
	Name string
	// Entries are what is in a directory; nil for a file, which Open opens for reading Size bytes.
	Entries []*Tree
	Dir     bool
	Size    int64
	Open    func() (io.ReadCloser, error)
}

// Bytes is a file in memory.
func Bytes(name string, data []byte) *Tree {
	return &Tree{Name: name, Size: int64(len(data)), Open: func() (io.ReadCloser,
		error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	}}
}

// Copy writes a file to a path.
func (c *Client) Copy(destination string, file *Tree) error {
	destination = strings.ReplaceAll(destination, `\`, map[string]string{Windows: "/", Unix: `\`}[c.settings.Platform])
	whole := *file
	whole.Name = path.Base(destination)
	return c.scp("-t", path.Dir(destination), func(s *sink) error { return s.file(&whole) })
}

// CopyDir writes a directory into an existing one, or as a new one, or, if only its contents are meant, what is in it
// into an existing one.
func (c *Client) CopyDir(destination string, dir *Tree, contents bool) error {
	return c.scp("-rt", destination, func(s *sink) error {
		if contents {
			return s.entries(dir)
		}
		return s.dir(dir)
	})
}

// RunScript puts a script on the machine, runs it, and empties it again, because scripts hold secrets. Without an
// interpreter of its own it is one for /bin/sh. What it writes goes to out.
func (c *Client) RunScript(script []byte, out io.Writer) error {
	file := strings.ReplaceAll(c.settings.ScriptPath, "%RAND%", strconv.Itoa(int(rand.Int32())))
	if c.settings.Platform == Unix && !bytes.HasPrefix(script, []byte("#!")) {
		script = append([]byte("#!/bin/sh\n"), script...)
	}
	if err := c.Copy(file, Bytes("", script)); err != nil {
		//lint:ignore ST1005 OpenTofu's words
		return fmt.Errorf("Failed to upload script: %w", err)
	}
	if c.settings.Platform == Unix {
		var said bytes.Buffer
		if err := c.Run("chmod 0777 "+file, &said); err != nil {
			//lint:ignore ST1005 OpenTofu's words
			return fmt.Errorf("Failed to upload script: making it executable: %w %s", err, said.String())
		}
	}
	err := c.Run(file, out)
	if left := c.Copy(file, Bytes("", nil)); err == nil && left != nil {
		return fmt.Errorf("the script has run, and could not be emptied: %w", left)
	}
	return err
}

// scp has the program scp at the other end receive what send sends.
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

// scpEnd says what the end of the program means. That it ended early matters only if it does not tell why.
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

// quote makes one word of a path for the shell at the other end.
func (c *Client) quote(path string) string {
	if c.settings.Platform == Windows {
		if strings.ContainsAny(path, " \t") {
			return `"` + path + `"`
		}
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// sink is the program scp that receives.
type sink struct {
	w io.Writer
	r *bufio.Reader
}

func (s *sink) file(f *Tree) error {
	content, err := f.Open()
	if err != nil {
		return err
	}
	defer content.Close() //nolint:errcheck // it was read
	if err := s.say("C0644 %d %s\n", f.Size, f.Name); err != nil {
		return err
	}
	if _, err := io.CopyN(s.w, content, f.Size); err != nil {
		return fmt.Errorf("sending %s: %w", f.Name, noEnd(err))
	}
	return s.say("\x00")
}

// noEnd keeps the end of a file that became shorter apart from the end of the program.
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
