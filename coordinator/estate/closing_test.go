package estate

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/environ"
)

// Backends that terraform_remote_state had opened stayed open until the process ended: in a service, for weeks.
func TestReadingARemoteStateLeavesNoConnectionOpen(t *testing.T) {
	var mu sync.Mutex
	opened, closed := 0, 0
	all := make(chan struct{}, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"version":4,"terraform_version":"1.12.6","serial":1,"lineage":"l",` +
			`"outputs":{"a":{"value":"b","type":"string"}},"resources":[],"check_results":null}`))
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		switch s {
		case http.StateNew:
			opened++
		case http.StateClosed:
			if closed++; closed == opened {
				select {
				case all <- struct{}{}:
				default:
				}
			}
		}
	}
	server.Start()
	defer server.Close()
	e := New(Options{Dir: t.TempDir(), Environ: environ.Variables{}})
	outputs, diags := e.readRemoteState(t.Context(), "http",
		cty.ObjectVal(map[string]cty.Value{"address": cty.StringVal(server.URL)}), "default")
	if diags.HasErrors() || outputs["a"] != cty.StringVal("b") {
		t.Fatalf("the outputs are %#v: %v", outputs, diags.Err())
	}
	select {
	case <-all:
	case <-time.After(30 * time.Second):
		t.Errorf("%d connections were opened, %d closed", opened, closed)
	}
}
