package helm

import (
	"net/netip"
	"slices"
	"testing"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func matches(s *meta.LabelSelector, set map[string]string) bool {
	if s == nil {
		return false
	}
	selector, err := meta.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(set))
}

// party is who talks: a pod, or an address outside of the cluster.
type party struct {
	namespace string // "" for an address
	labels    map[string]string
	address   string
}

// port is one that somebody listens on.
type port struct {
	protocol core.Protocol
	number   int32
}

// reaches evaluates the network policies of the release, which is in the namespace infra, as Kubernetes defines them: a
// pod that no policy of a direction selects may do everything there, another one what a rule permits.
func (o *objects) reaches(from, to party, on port) bool {
	return o.permits(from, to, on, networking.PolicyTypeEgress) && o.permits(to, from, on, networking.PolicyTypeIngress)
}

// permits reports whether the policies of a pod permit it to talk with a peer, in a direction.
func (o *objects) permits(pod, peer party, on port, direction networking.PolicyType) bool {
	selected := false
	for _, p := range o.policies {
		if pod.namespace != "infra" || !matches(&p.Spec.PodSelector, pod.labels) ||
			!slices.Contains(p.Spec.PolicyTypes, direction) {
			continue
		}
		selected = true
		if direction == networking.PolicyTypeEgress {
			for _, r := range p.Spec.Egress {
				if admits(r.To, r.Ports, peer, on) {
					return true
				}
			}
			continue
		}
		for _, r := range p.Spec.Ingress {
			if admits(r.From, r.Ports, peer, on) {
				return true
			}
		}
	}
	return !selected
}

func admits(peers []networking.NetworkPolicyPeer, ports []networking.NetworkPolicyPort, peer party, on port) bool {
	if len(ports) > 0 && !slices.ContainsFunc(ports, func(p networking.NetworkPolicyPort) bool {
		protocol := core.ProtocolTCP
		if p.Protocol != nil {
			protocol = *p.Protocol
		}
		return protocol == on.protocol && (p.Port == nil || p.Port.IntVal == on.number)
	}) {
		return false
	}
	return len(peers) == 0 || slices.ContainsFunc(peers, func(p networking.NetworkPolicyPeer) bool {
		switch {
		case p.IPBlock != nil:
			a, err := netip.ParseAddr(peer.address)
			return err == nil && inside(p.IPBlock.CIDR, a) && !slices.ContainsFunc(p.IPBlock.Except, func(c string) bool {
				return inside(c, a)
			})
		case peer.namespace == "":
			return false
		case p.NamespaceSelector == nil:
			return peer.namespace == "infra" && matches(p.PodSelector, peer.labels)
		default:
			return matches(p.NamespaceSelector, map[string]string{"kubernetes.io/metadata.name": peer.namespace}) &&
				(p.PodSelector == nil || matches(p.PodSelector, peer.labels))
		}
	})
}

func inside(cidr string, a netip.Addr) bool {
	p, err := netip.ParsePrefix(cidr)
	return err == nil && p.Contains(a)
}

func TestPoliciesLetThroughWhatIsNeededAndNothingElse(t *testing.T) {
	o := release(t, "three-regions")
	pod := func(set string) party {
		return party{namespace: "infra", labels: o.sets[set].Spec.Template.Labels, address: "10.0.0.7"}
	}
	service, eu, us, nats := pod("m-service"), pod("m-worker-eu"), pod("m-worker-us"), pod("m-nats")
	gateway := party{namespace: "ingress", address: "10.0.0.8"}
	scraper := party{namespace: "monitoring", address: "10.0.0.9"}
	stranger := party{namespace: "default", address: "10.0.0.10"}
	neighbour := party{namespace: "infra", labels: map[string]string{"app": "other"}, address: "10.0.0.11"}
	dns := party{namespace: "kube-system", labels: map[string]string{"k8s-app": "kube-dns"}, address: "10.0.0.2"}
	cloud, private := party{address: "203.0.113.7"}, party{address: "10.1.2.3"}
	metadata := party{address: "169.254.169.254"}
	tcp := func(n int32) port { return port{core.ProtocolTCP, n} }
	for what, c := range map[string]struct {
		from, to party
		on       port
		passes   bool
	}{
		"worker to NATS":                        {eu, nats, tcp(4222), true},
		"worker to a cloud":                     {eu, cloud, tcp(443), true},
		"worker to names":                       {eu, dns, port{core.ProtocolUDP, 53}, true},
		"scraper to worker":                     {scraper, eu, tcp(9465), true},
		"worker to the service":                 {eu, service, tcp(8443), false},
		"worker to a worker of another region":  {eu, us, tcp(9465), false},
		"worker to the cluster's port of NATS":  {eu, nats, tcp(6222), false},
		"worker to the monitor's port of NATS":  {eu, nats, tcp(8222), false},
		"worker to a private network":           {eu, private, tcp(443), false},
		"worker to the metadata of the node":    {eu, metadata, tcp(80), false},
		"worker to a cloud by another port":     {eu, cloud, tcp(25), false},
		"gateway to worker":                     {gateway, eu, tcp(9465), false},
		"stranger to worker":                    {stranger, eu, tcp(9465), false},
		"gateway to the service":                {gateway, service, tcp(8443), true},
		"scraper to the service's metrics":      {scraper, service, tcp(9464), true},
		"service to NATS":                       {service, nats, tcp(4222), true},
		"service to a forge":                    {service, cloud, tcp(443), true},
		"service to a forge by ssh":             {service, cloud, tcp(22), true},
		"service to names":                      {service, dns, port{core.ProtocolUDP, 53}, true},
		"service to a worker":                   {service, eu, tcp(9465), false},
		"service to a private network":          {service, private, tcp(443), false},
		"gateway to the service's metrics":      {gateway, service, tcp(9464), false},
		"stranger to the service":               {stranger, service, tcp(8443), false},
		"neighbour to the service":              {neighbour, service, tcp(8443), false},
		"NATS to NATS":                          {nats, nats, tcp(6222), true},
		"NATS to names":                         {nats, dns, port{core.ProtocolUDP, 53}, true},
		"neighbour to NATS":                     {neighbour, nats, tcp(4222), false},
		"stranger to NATS":                      {stranger, nats, tcp(4222), false},
		"gateway to NATS":                       {gateway, nats, tcp(4222), false},
		"service to the cluster's port of NATS": {service, nats, tcp(6222), false},
		"NATS to the internet":                  {nats, cloud, tcp(443), false},
		"NATS to a worker":                      {nats, eu, tcp(9465), false},
	} {
		if got := o.reaches(c.from, c.to, c.on); got != c.passes {
			t.Errorf("%s: passes %t, not %t", what, got, c.passes)
		}
	}
}

func TestAnExternalNATSIsReachedAndNoOtherAddressOnItsPort(t *testing.T) {
	o := release(t, "external-nats")
	worker := party{namespace: "infra", labels: o.sets["m-worker-default"].Spec.Template.Labels}
	on := port{core.ProtocolTCP, 4222}
	for address, passes := range map[string]bool{"10.20.0.5": true, "10.21.0.5": false, "203.0.113.7": false} {
		if got := o.reaches(worker, party{address: address}, on); got != passes {
			t.Errorf("%s: passes %t", address, got)
		}
	}
}

func TestTheBackupReachesTheServiceAndIsReachedByNobody(t *testing.T) {
	o := release(t, "backed-up")
	backup := party{namespace: "infra", labels: o.pods["CronJob/m-backup"].Labels}
	service := party{namespace: "infra", labels: o.sets["m-service"].Spec.Template.Labels}
	if !o.reaches(backup, service, port{core.ProtocolTCP, 8443}) {
		t.Error("the backup does not reach the service")
	}
	nats := party{namespace: "infra", labels: o.sets["m-nats"].Spec.Template.Labels}
	if o.reaches(backup, nats, port{core.ProtocolTCP, 4222}) {
		t.Error("the backup reaches NATS")
	}
	if o.reaches(service, backup, port{core.ProtocolTCP, 8080}) {
		t.Error("the service reaches the backup")
	}
}
