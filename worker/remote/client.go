package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/millipede-iac/millipede/internal/sleep"
)

const (
	// retryFirst and retryMost bound the pause between connection attempts, which doubles each time.
	retryFirst = time.Second
	retryMost  = 20 * time.Second
	// keepAlive is the interval of keep-alive requests; keepAliveLost is how long the host may be silent.
	keepAlive     = 2 * time.Second
	keepAliveLost = 2 * time.Minute
)

// Client is a connection to a host. It is for use by one goroutine. The caller closes it.
type Client struct {
	settings        *Settings
	agent           *keyAgent
	target, bastion *ssh.ClientConfig

	ssh  *ssh.Client
	stop context.CancelFunc
	// around waits for the goroutine that keeps the connection alive.
	around sync.WaitGroup
}

// Connect connects to a host, and retries for as long as the settings allow, because a new machine takes a
// while to start. tell, if not nil, is called with each attempt. An unreadable key or a missing agent is not
// retried.
func Connect(ctx context.Context, s *Settings, tell func(text string)) (*Client, error) {
	c := &Client{settings: s}
	var err error
	if c.agent, err = openAgent(ctx, s.Agent, s.AgentIdentity, s.Dir); err != nil {
		return nil, err
	}
	if c.target, err = clientConfig(s.Target, c.agent); err == nil && s.Bastion.Host != "" {
		c.bastion, err = clientConfig(s.Bastion, c.agent)
	}
	if err == nil {
		err = c.keepTrying(ctx, tell)
	}
	if err == nil {
		err = c.forwardAgent()
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if tell != nil {
		tell("Connected!")
	}
	return c, nil
}

func (c *Client) keepTrying(ctx context.Context, tell func(string)) error {
	trying, cancel := context.WithTimeout(ctx, c.settings.Timeout)
	defer cancel()
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		if tell != nil {
			tell(c.settings.announce())
		}
		client, err := c.dial(trying)
		if err == nil {
			c.begin(ctx, client)
			return nil
		}
		if sleep.For(trying, wait) == nil {
			continue
		}
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted - last error: %w", err)
		}
		return fmt.Errorf("timeout - last error: %w", err)
	}
}

// announce describes a connection attempt, in OpenTofu's words.
func (s *Settings) announce() string {
	var b strings.Builder
	means := func(l Login) {
		fmt.Fprintf(&b, "\n  Host: %s\n  User: %s\n  Password: %t\n  Private key: %t\n  Certificate: %t\n  SSH "+
			"Agent: %t\n  Checking Host Key: %t",
			l.Host, l.User, l.Password != "", l.PrivateKey != "", l.Certificate != "", s.Agent != "", l.HostKey != "")
	}
	b.WriteString("Connecting to remote host via SSH...")
	means(s.Target)
	fmt.Fprintf(&b, "\n  Target Platform: %s", s.Platform)
	if s.Bastion.Host != "" {
		b.WriteString("\nUsing configured bastion host...")
		means(s.Bastion)
	}
	if p := s.Proxy; p.Host != "" {
		fmt.Fprintf(&b, "\nUsing configured proxy host...\n  ProxyHost: %s\n  ProxyPort: %d\n  ProxyUserName: %s\n  "+
			"ProxyUserPassword: %t",
			p.Host, p.Port, p.User, p.Password != "")
	}
	return b.String()
}

// begin keeps the connection alive, and closes it when ctx ends.
func (c *Client) begin(ctx context.Context, client *ssh.Client) {
	c.ssh = client
	ctx, c.stop = context.WithCancel(ctx)
	c.around.Go(func() {
		<-ctx.Done()
		client.Close() //nolint:errcheck // it may have ended by itself
	})
	c.around.Go(func() {
		silent := time.AfterFunc(keepAliveLost, c.stop)
		defer silent.Stop()
		tick := time.NewTicker(keepAlive)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if _, _, err := client.SendRequest("keepalive@openssh.com", true, nil); err != nil {
				return
			}
			silent.Reset(keepAliveLost)
		}
	})
}

// forwardAgent lets programs on the host use the agent, if the server allows it.
func (c *Client) forwardAgent() error {
	if c.agent == nil {
		return nil
	}
	if err := agent.ForwardToAgent(c.ssh, c.agent); err != nil {
		return fmt.Errorf("forwarding the SSH agent: %w", err)
	}
	session, err := c.ssh.NewSession()
	if err != nil {
		return fmt.Errorf("forwarding the SSH agent: %w", err)
	}
	defer session.Close()                     //nolint:errcheck // no command was started in it
	_ = agent.RequestAgentForwarding(session) // a server may refuse
	return nil
}

// Close closes the connection.
func (c *Client) Close() error {
	if c.stop != nil {
		c.stop()
	}
	c.around.Wait()
	return c.agent.close()
}

// Run runs a command in the user's shell, and waits for its end. Its output goes to out. On Unix it has a
// terminal, because programs often buffer their output otherwise. If the command fails, the error is a
// *CommandError.
func (c *Client) Run(command string, out io.Writer) error {
	session, err := c.ssh.NewSession()
	if err != nil {
		return fmt.Errorf("opening a session: %w", err)
	}
	defer session.Close() //nolint:errcheck // it ends with the command
	both := &shared{out: out}
	session.Stdout, session.Stderr = both, both
	if c.settings.Platform == Unix {
		modes := ssh.TerminalModes{ssh.ECHO: 0, ssh.TTY_OP_ISPEED: 14400, ssh.TTY_OP_OSPEED: 14400}
		if err := session.RequestPty("xterm", 80, 40, modes); err != nil {
			return fmt.Errorf("asking for a terminal: %w", err)
		}
	}
	if err := session.Run(command); err != nil {
		return &CommandError{Command: command, Err: err}
	}
	return nil
}

// shared serializes the writes of two streams.
type shared struct {
	mu  sync.Mutex // held while something is written
	out io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(p)
}

// CommandError means that a command has failed: it exited with a nonzero status, or the connection was lost
// while it ran.
type CommandError struct {
	Command string
	Err     error
}

func (e *CommandError) Error() string { return fmt.Sprintf("error executing %q: %v", e.Command, e.Err) }
func (e *CommandError) Unwrap() error { return e.Err }
