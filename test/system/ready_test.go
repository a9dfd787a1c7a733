package system

import (
	"net/http"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// A balancer that takes a service away from its clients because NATS is away would take their states and pages away.
func TestAServiceWithoutNATSIsReadyAndSaysSinceWhen(t *testing.T) {
	s := site.New(t, site.FleetOnly)
	server := s.Server()
	v := s.Service()
	w := v.Workspace("w")
	says := func() bool {
		code, text := v.Ready()
		if code != http.StatusOK {
			t.Fatalf("/readyz answers %d: %s", code, text)
		}
		return strings.Contains(text, "NATS has not answered")
	}
	if says() {
		t.Error("/readyz says that NATS is away, and it is not")
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	site.Eventually(t, "/readyz says that NATS is away", says)
	if _, err := v.Client.Workspaces.ReadByID(t.Context(), w.ID); err != nil {
		t.Errorf("without NATS, records are not read: %v", err)
	}
	if err := server.Restart(site.Waiting(t)); err != nil {
		t.Fatal(err)
	}
	site.Eventually(t, "/readyz says no more that NATS is away", func() bool { return !says() })
}
