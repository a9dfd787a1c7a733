package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/rpc"
)

// Reattach is a plugin process that was started elsewhere, and that this host does not end.
type Reattach struct {
	// ProtocolVersion is 5 or 6.
	ProtocolVersion int
	// Network is "unix" or "tcp"; Address is a path or HOST:PORT.
	Network, Address string
	// PID is the process ID, used only in messages.
	PID int
}

// ParseReattach parses the value of TF_REATTACH_PROVIDERS. An empty text contains no process. The errors say which
// part of the value is invalid.
func ParseReattach(text string) (map[addr.Provider]*Reattach, error) {
	if text == "" {
		return nil, nil
	}
	var entries map[string]struct {
		Protocol        string
		ProtocolVersion int
		Pid             int
		Addr            struct{ Network, String string }
	}
	if err := json.Unmarshal([]byte(text), &entries); err != nil {
		return nil, fmt.Errorf("TF_REATTACH_PROVIDERS: the value is not in its JSON form: %w", err)
	}
	out := make(map[addr.Provider]*Reattach, len(entries))
	for source, e := range entries {
		p, diags := addr.ParseProviderSource(source)
		if diags.HasErrors() {
			return nil, fmt.Errorf("TF_REATTACH_PROVIDERS: %q is not a provider address: %w", source, diags.Err())
		}
		if e.Addr.Network != "unix" && e.Addr.Network != "tcp" {
			return nil, fmt.Errorf("TF_REATTACH_PROVIDERS: the address of %s is of the unknown type %q", source,
				e.Addr.Network)
		}
		if e.Protocol != "" && e.Protocol != "grpc" {
			return nil, fmt.Errorf("TF_REATTACH_PROVIDERS: %s speaks %q instead of grpc", source, e.Protocol)
		}
		switch e.ProtocolVersion {
		case 5, 6:
		case 0: // plugins of the first SDK omit it; they support only one version
			e.ProtocolVersion = 5
		default:
			return nil, fmt.Errorf("TF_REATTACH_PROVIDERS: %s speaks version %d of the plugin protocol; 5 and 6 are "+
				"supported", source, e.ProtocolVersion)
		}
		out[p] = &Reattach{ProtocolVersion: e.ProtocolVersion, Network: e.Addr.Network,
			Address: e.Addr.String, PID: e.Pid}
	}
	return out, nil
}

// attached is a connection to a process that was started elsewhere.
type attached struct {
	conn   *grpc.ClientConn
	remote *rpc.Provider
	lost   atomic.Bool
}

func (a *attached) provider() provider.Provider { return a.remote }
func (a *attached) alive() bool                 { return !a.lost.Load() }
func (a *attached) close()                      { a.conn.Close() } //nolint:errcheck // no call waits for it

// connect returns a connection to the process. It is made at the first call: if there is no such process, that call
// is lost.
func connect(p Package, o Options) (process, error) {
	r := p.Reattach
	conn, err := grpc.NewClient("passthrough:"+r.Network,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, r.Network, r.Address)
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	if err != nil {
		return nil, err
	}
	a := &attached{conn: conn}
	a.remote, err = rpc.New(conn, r.ProtocolVersion, rpc.Options{
		Name: p.Source,
		ExitReason: func() string {
			a.lost.Store(true)
			return fmt.Sprintf("The process was not started here; it should answer at %s (process id %d).",
				r.Address, r.PID)
		},
		Log: o.Log.Warn,
	})
	if err != nil {
		conn.Close() //nolint:errcheck // no call waits for it
		return nil, err
	}
	return a, nil
}
