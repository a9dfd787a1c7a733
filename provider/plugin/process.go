package plugin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	pluginrunner "github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"

	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/rpc"
)

// handshake is the handshake that plugins expect from the host. The values are published.
var handshake = goplugin.HandshakeConfig{
	MagicCookieKey:   "TF_PLUGIN_MAGIC_COOKIE",
	MagicCookieValue: "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2",
}

// service is the name of the gRPC service of a provider.
const service = "provider"

// started is a plugin process that this host has started.
type started struct {
	client   *goplugin.Client
	runner   *runner
	remote   *rpc.Provider
	lastSaid *tail
	lost     atomic.Bool // a call has found that the process has exited
}

func (s *started) provider() provider.Provider { return s.remote }
func (s *started) close()                      { s.client.Kill() }

func (s *started) alive() bool {
	select {
	case <-s.runner.exited:
		return false
	default:
		return !s.lost.Load()
	}
}

// start starts a plugin and connects to it. It returns when the plugin is ready, has failed or timed out, or when
// the context has ended; unless the plugin is ready, the process has ended. Its socket is in the directory
// sockets.
func start(ctx context.Context, p Package, executable, sockets string, o Options, schemas *rpc.SchemaCache) (
	process, error) {
	s, err := startIn(ctx, p, executable, sockets, o, schemas)
	if err != nil && ctx.Err() == nil && p.WorkDir != "" {
		// The directory belongs to the coordinator, which may remove it at any moment if it was killed and
		// restarted.
		if _, gone := os.Stat(p.WorkDir); errors.Is(gone, os.ErrNotExist) {
			p.WorkDir = ""
			s, err = startIn(ctx, p, executable, sockets, o, schemas)
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func startIn(ctx context.Context, p Package, executable, sockets string, o Options, schemas *rpc.SchemaCache) (
	*started, error) {
	env := environment(o, p)
	var secured *tls.Config
	if !o.DisableTLS {
		own, err := ownCertificate()
		if err != nil {
			return nil, err
		}
		secured, env = own.client(), append(env, certificateVariable+own.text)
	}
	s := &started{lastSaid: &tail{}}
	s.runner = newRunner(executable, p.WorkDir, sockets, env)
	// Go plugins send the output that they write to os.Stdout and os.Stderr while serving over the connection.
	logged := o.Log.StandardWriter(&hclog.StandardLoggerOptions{InferLevels: true})
	versions := map[int]goplugin.PluginSet{}
	for _, v := range []int{5, 6} {
		versions[v] = goplugin.PluginSet{service: connection{}}
	}
	s.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  handshake,
		VersionedPlugins: versions,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		TLSConfig:        secured,
		StartTimeout:     o.StartTimeout,
		Logger:           o.Log,
		Stderr:           s.lastSaid.writer(),
		SyncStderr:       io.MultiWriter(s.lastSaid.writer(), logged),
		SyncStdout:       logged,
		SkipHostEnv:      true,
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: sockets},
		RunnerFunc: func(_ hclog.Logger, template *exec.Cmd, _ string) (pluginrunner.Runner, error) {
			s.runner.copySettings(template)
			return s.runner, nil
		},
	})
	unwatch := context.AfterFunc(ctx, s.runner.kill)
	err := s.dial(p, o, schemas)
	if !unwatch() { // the context ended, and so did the process
		err = context.Cause(ctx)
	}
	if err == nil {
		return s, nil
	}
	s.client.Kill()
	return nil, s.failure(ctx, o, err)
}

func (s *started) dial(p Package, o Options, schemas *rpc.SchemaCache) error {
	client, err := s.client.Client()
	if err != nil {
		return err
	}
	conn, err := client.Dispense(service)
	if err != nil {
		return err
	}
	s.remote, err = rpc.New(conn.(*grpc.ClientConn), s.client.NegotiatedVersion(), rpc.Options{
		Name:       p.Source,
		Schemas:    schemas,
		ExitReason: s.exitReason,
		Log:        o.Log.Warn,
	})
	return err
}

// failure converts an error of go-plugin, and adds the output of the process.
func (s *started) failure(ctx context.Context, o Options, err error) error {
	switch text := err.Error(); {
	case ctx.Err() != nil:
		return fmt.Errorf("its start was canceled: %w", err)
	case s.runner.ID() == "":
		return err // there was no process
	case text == "timeout while waiting for plugin to start":
		err = fmt.Errorf("it did not finish the handshake within %s", o.StartTimeout)
	case text == "plugin exited before we could connect", strings.Contains(text, "Failed to read any lines from "+
		"plugin's stdout"):
		err = fmt.Errorf("it ended before the handshake (%s)", s.runner.ending())
	case strings.Contains(text, "incompatible API version"):
		err = fmt.Errorf("it speaks no version of the plugin protocol that is supported, which are 5 and 6: %w", err)
	case strings.HasPrefix(text, "Unrecognized remote plugin message"):
		err = fmt.Errorf("its answer is not a handshake, so it may not be a provider plugin: %w", err)
	}
	said := s.lastSaid.text()
	if said == "" {
		said = "It wrote nothing to its standard error output."
	}
	return fmt.Errorf("%w\n\n%s", err, said)
}

// timeout is how long a failed call waits for its process to exit.
const timeout = 2 * time.Second

// exitReason implements rpc.Options.
func (s *started) exitReason() string {
	s.lost.Store(true)
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	select {
	case <-s.runner.drained:
		return fmt.Sprintf("Its process has ended (%s).\n\n%s", s.runner.ending(), s.lastSaid.text())
	case <-deadline.C:
		return s.lastSaid.text()
	}
}

// environment returns the environment of the process, to which go-plugin adds variables. If a name is set twice,
// the later value is used.
//
// By default plugins log everything, and spend more time on that than on the calls. So the variables that their SDK
// documents are set to the level that is used: warnings for the last output before a failure, or the level of
// Options.Log. Variables in the host's own environment take precedence.
func environment(o Options, p Package) []string {
	base := o.Env
	if p.Environ != nil {
		base = p.Environ
	}
	level := hclog.Warn
	if asked := o.Log.GetLevel(); asked != hclog.NoLevel && asked < level {
		level = asked
	}
	name := strings.ToUpper(strings.ReplaceAll(p.Source[strings.LastIndex(p.Source, "/")+1:], "-", "_"))
	env := slices.Clone(base)
	for _, variable := range []string{"TF_LOG_SDK=", "TF_LOG_PROVIDER_" + name + "="} {
		set := func(s string) bool { return strings.HasPrefix(s, variable) && s != variable }
		if !slices.ContainsFunc(base, set) {
			env = append(env, variable+level.String())
		}
	}
	return append(env, p.Env...)
}

// connection implements the client's side of a plugin for go-plugin: it is the connection itself.
type connection struct {
	goplugin.NetRPCUnsupportedPlugin
}

var _ goplugin.GRPCPlugin = connection{}

// GRPCClient returns the connection.
func (connection) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

// GRPCServer fails: the host does not serve.
func (connection) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error {
	return errors.New("plugin: a host is not a plugin")
}
