package backends

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/clouds/faults"
)

// consulProgram is the path of a Consul that replaces the fake, from the variable CONSUL; empty for none. The project
// does not build Consul: no registry that it uses has it.
var consulProgram = os.Getenv("CONSUL")

// startConsul starts an agent that is a cluster of its own, behind a proxy that can inject faults.
func startConsul(t *testing.T) *world {
	t.Helper()
	elected := func(address string) bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/v1/status/leader", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return false
		}
		text, err := io.ReadAll(answer.Body)
		return answer.Body.Close() == nil && err == nil && len(text) > len(`""`)
	}
	rpc, gossip := freePort(t), freePort(t)
	address := "http://" + serve(t, consulProgram, nil, func(port string) []string {
		return []string{"agent", "-dev", "-node", "here", "-bind", "127.0.0.1", "-client", "127.0.0.1", "-http-port", port,
			"-server-port", rpc, "-serf-lan-port", gossip, "-serf-wan-port", "-1", "-dns-port", "-1", "-grpc-port", "-1",
			"-grpc-tls-port", "-1", "-log-level", "error", "-hcl", "disable_update_check = true"}
	})
	eventually(t, "the agent is the leader", func() bool { return elected(address) })
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{expires: true, faults: &faults.Faults{}}
	proxy := httptest.NewServer(w.faults.Before(&httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ErrorLog: log.New(io.Discard, "", 0), // it would show canceled requests
	}))
	t.Cleanup(proxy.Close)
	w.body = consulBody(proxy.Listener.Addr())
	return w
}

func consulBody(at net.Addr) string {
	return `
			address = "` + at.String() + `"
			scheme  = "http"
			path    = "a/b"`
}
