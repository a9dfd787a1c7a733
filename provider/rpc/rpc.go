// Package rpc makes a provider.Provider of a gRPC connection to a plugin. It starts no process and pools nothing.
//
// Versions 5 and 6 of the protocol differ in names and in the schema of attributes; everything else is the same on
// the wire. So the package is written once, against the messages of version 6, and protocol5.go restates the other
// version in their terms.
//
// Values that are passed must be unmarked. Values that come back conform to the schema: a plugin that answers
// otherwise gets an error diagnostic, and the value is the null of its type. A call runs until the plugin answers or
// its context ends; in the second case nothing is known of its effect, so whoever applies a change passes a context
// that a mere wish to stop does not end, and calls Stop.
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

	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/tfplugin5"
	"github.com/millipede-iac/millipede/provider/tfplugin6"
	"github.com/millipede-iac/millipede/trace"
)

// Options says what the connection alone does not tell. The zero value is ready.
type Options struct {
	// Name names the provider in diagnostics, as "host/namespace/type".
	Name string
	// Schemas is shared by the processes of one package; nil for a cache of this connection's own.
	Schemas *SchemaCache
	// Obituary is asked when a call got no answer. It may wait a moment for the process to end, and returns what
	// is known of its end (whole lines, perhaps none). It is called by several goroutines at once.
	Obituary func() string
	// Log takes what users need not see, in the form of hclog and slog: a message, then keys and values. May be nil.
	Log func(message string, args ...any)
	// Close ends the connection and what is at its other end. May be nil.
	Close func() error
}

// New returns the provider at the other end of the connection. The only error is an unknown protocol version.
// The connection stays the caller's unless Options.Close ends it.
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

// Provider is a plugin behind a connection. It is safe for concurrent use.
type Provider struct {
	conn     channel
	stub     tfplugin6.ProviderClient
	protocol int
	options  Options

	// asked is set once this very process has been asked for its schema; turn lets one caller at a time ask.
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

// maxMessage is how large an answer may be, as OpenTofu has it (schemas of 100 MiB exist).
const maxMessage = 256 << 20

// channel is a connection that takes messages of up to maxMessage and sends each call under the name that rename
// gives it.
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

// ended ends the span of a call. What a plugin says of an error may hold what must not be shown, so only the code of
// the error is noted.
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

// clientCapabilities is what the engine can handle. Deferred answers are not among it.
var clientCapabilities = &tfplugin6.ClientCapabilities{WriteOnlyAttributesAllowed: true}
