// Package rpc implements provider.Provider over a gRPC connection to a plugin. It starts no process and has no
// pool.
//
// Versions 5 and 6 of the protocol differ in names and in the schema of attributes; the encoding of everything else
// is the same. So the package uses the messages of version 6, and protocol5.go adapts the other version.
//
// Arguments must be unmarked. Returned values conform to the schema: if a plugin's answer does not, the result is
// an error diagnostic and a null value of the type. A call runs until the plugin answers or its context ends; in
// the second case its effect is unknown. So to apply a change, callers pass a context that a request to stop does
// not end, and call Stop.
package rpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/millipede-iac/millipede/internal/trace"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/tfplugin5"
	"github.com/millipede-iac/millipede/provider/tfplugin6"
)

// Options are the options of a Provider. The zero value is ready for use.
type Options struct {
	// Name is the name of the provider in diagnostics, as "host/namespace/type".
	Name string
	// Schemas is shared by the processes of one package; nil for a separate cache.
	Schemas *SchemaCache
	// ExitReason is called when a call got no answer. It may wait a moment for the process to exit, and returns the known
	// facts about the exit (complete lines, possibly none). It is called concurrently.
	ExitReason func() string
	// Log receives messages that users need not see, in the form of hclog and slog: a message, then keys and
	// values. May be nil.
	Log func(message string, args ...any)
	// Close closes the connection and ends the process at its other end. May be nil.
	Close func() error
}

// New returns the provider at the other end of the connection. It returns an error only for an unknown protocol
// version. The caller owns the connection unless Options.Close closes it.
func New(conn grpc.ClientConnInterface, protocol int, o Options) (*Provider, error) {
	p := &Provider{protocol: protocol, options: o, turn: make(chan struct{}, 1)}
	switch protocol {
	case 5:
		p.conn = channel{conn, renamed}
		p.stub = protocol5{
			ProviderClient: tfplugin6.NewProviderClient(p.conn),
			own:            tfplugin5.NewProviderClient(channel{conn, sameName}),
		}
	case 6:
		p.conn = channel{conn, sameName}
		p.stub = tfplugin6.NewProviderClient(p.conn)
	default:
		return nil, fmt.Errorf("plugin protocol version %d is not supported; 5 and 6 are", protocol)
	}
	if p.options.Schemas == nil {
		p.options.Schemas = NewSchemaCache()
	}
	if p.options.Log == nil {
		p.options.Log = func(string, ...any) {}
	}
	return p, nil
}

// Provider is a plugin at the other end of a connection. It is safe for concurrent use.
type Provider struct {
	conn     channel
	stub     tfplugin6.ProviderClient
	protocol int
	options  Options

	// asked is set once this process has been asked for its schema; turn serialises the requests.
	asked atomic.Bool
	turn  chan struct{}
}

var _ provider.Provider = (*Provider)(nil)

// Stop implements provider.Stopper.
func (p *Provider) Stop(ctx context.Context) error {
	resp, err := p.stub.StopProvider(ctx, &tfplugin6.StopProvider_Request{})
	if err != nil {
		return fmt.Errorf("asking provider %s to stop: %w", p.options.Name, err)
	}
	if resp.Error != "" {
		return errors.New(resp.Error)
	}
	return nil
}

// Close implements provider.Provider.
func (p *Provider) Close() error {
	if p.options.Close == nil {
		return nil
	}
	return p.options.Close()
}

// maxMessage is the maximum size of an answer, as in OpenTofu (schemas of 100 MiB exist).
const maxMessage = 256 << 20

// channel is a connection that accepts messages of up to maxMessage and renames the methods of calls.
type channel struct {
	grpc.ClientConnInterface
	rename func(method string) string
}

func (c channel) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	opts = append(opts, grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(math.MaxInt32))
	method = c.rename(method)
	ctx, span := trace.Start(ctx, method, trace.Client)
	err := c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	if span != nil {
		ended(span, method, err)
	}
	return err
}

// NewStream begins a call whose answer has several messages. Its span is that of the caller.
func (c channel) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (
	grpc.ClientStream, error) {
	opts = append(opts, grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(math.MaxInt32))
	return c.ClientConnInterface.NewStream(ctx, desc, c.rename(method), opts...)
}

// ended ends the span of a call. A plugin's error messages may contain secrets, so only the code of the error is
// recorded.
func ended(span *trace.Span, method string, err error) {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	span.Set("rpc.system", "grpc")
	span.Set("rpc.service", service)
	span.Set("rpc.method", name)
	code := status.Code(err)
	span.SetInt("rpc.grpc.status_code", int64(code))
	if err != nil {
		span.Fail(code.String())
	}
	span.End()
}

func sameName(method string) string { return method }

// allowed returns the features that the engine supports in a call: answers that put it off only where the context
// allows them.
func allowed(ctx context.Context) *tfplugin6.ClientCapabilities {
	if provider.DeferralOf(ctx) == nil {
		return clientCapabilities
	}
	return deferringCapabilities
}

var (
	clientCapabilities    = &tfplugin6.ClientCapabilities{WriteOnlyAttributesAllowed: true}
	deferringCapabilities = &tfplugin6.ClientCapabilities{WriteOnlyAttributesAllowed: true, DeferralAllowed: true}
)
