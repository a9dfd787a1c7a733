package containers

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The commands are those of deploy/compose/README.md.
func TestThreeRegionsAreStartedWithOneCommandAndAppliedWithTwoLines(t *testing.T) {
	s := newStand(t)
	s.start()
	s.must("docker-compose", "run", "--rm", "-T", "client", "init", "-no-color")
	out := s.must("docker-compose", "run", "--rm", "-T", "client", "apply", "-auto-approve", "-no-color")
	for _, want := range []string{"9 added, 0 changed", `"eu-0"`, `"us-1"`, `"ap-2"`} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q in what the example says:\n%s", want, out)
		}
	}
	s.confined()
}

// confined checks what a container may do, and with whom a worker shares a network.
func (s *stand) confined() {
	s.Helper()
	for _, service := range []string{"nats-1", "nats-2", "nats-3", "service", "worker-eu", "worker-us", "worker-ap"} {
		var all []struct {
			Config     struct{ User string }
			HostConfig struct {
				ReadonlyRootfs, Privileged bool
				CapDrop, CapAdd            []string
			}
			NetworkSettings struct{ Networks map[string]struct{} }
		}
		if err := json.Unmarshal([]byte(s.must("docker", "inspect", s.container(service))), &all); err != nil {
			s.Fatal(err)
		}
		c := all[0]
		if c.Config.User != "65532:65532" || !c.HostConfig.ReadonlyRootfs || c.HostConfig.Privileged ||
			!slices.Equal(c.HostConfig.CapDrop, []string{"ALL"}) || len(c.HostConfig.CapAdd) > 0 {
			s.Errorf("%s has privileges: %+v", service, c)
		}
		region, worker := strings.CutPrefix(service, "worker-")
		networks := c.NetworkSettings.Networks
		if _, in := networks[s.project+"_"+region]; worker && (!in || len(networks) != 1) {
			s.Errorf("%s is in the networks %v", service, networks)
		}
	}
	// From the network of eu, a server of NATS answers; the service, another region, and what is outside do not. A static
	// image has no program that tries it, so the worker itself does: it says within seconds that it has no server.
	for address, reached := range map[string]bool{"nats-1:4222": true, "service:8443": false, "worker-us:9465": false,
		"192.0.2.1:4222": false} {
		out, err := exec.CommandContext(s.Context(), "docker", "run", "--rm", "--network="+s.project+"_eu",
			"--entrypoint=/usr/local/bin/worker", s.image("worker-eu"), "-nats=nats://"+address).CombinedOutput()
		if err == nil {
			s.Fatalf("a worker without a password works: %s", out)
		}
		if got := strings.Contains(string(out), "uthorization"); got != reached {
			s.Errorf("from the region eu, %s is reached: %t, not %t: %s", address, got, reached, out)
		}
	}
}

// image returns the image of a service's container.
func (s *stand) image(service string) string {
	return strings.TrimSpace(s.must("docker", "inspect", "--format={{.Config.Image}}", s.container(service)))
}
