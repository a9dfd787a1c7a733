package helm

import (
	"fmt"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// objects are the objects of a release that tests look into.
type objects struct {
	sets     map[string]*apps.StatefulSet
	pods     map[string]core.PodTemplateSpec // by kind and name of what makes them
	policies map[string]*networking.NetworkPolicy
	services map[string]*core.Service
	accounts map[string]*core.ServiceAccount
	config   map[string]*core.ConfigMap
	budgets  map[string]*policy.PodDisruptionBudget
	scalers  map[string]*autoscaling.HorizontalPodAutoscaler
	others   map[string]map[string]any // of other projects, by kind and name
}

// parse reads objects as Kubernetes does, and refuses fields that it does not know.
func parse(t *testing.T, all []string) *objects {
	t.Helper()
	o := &objects{map[string]*apps.StatefulSet{}, map[string]core.PodTemplateSpec{},
		map[string]*networking.NetworkPolicy{}, map[string]*core.Service{}, map[string]*core.ServiceAccount{},
		map[string]*core.ConfigMap{},
		map[string]*policy.PodDisruptionBudget{}, map[string]*autoscaling.HorizontalPodAutoscaler{},
		map[string]map[string]any{}}
	for _, text := range all {
		kind, name, _ := strings.Cut(title(t, text), "/")
		read := func(into any) {
			if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
				t.Errorf("%s/%s: %v in:\n%s", kind, name, err, text)
			}
		}
		switch kind {
		case "StatefulSet":
			o.sets[name] = &apps.StatefulSet{}
			read(o.sets[name])
			o.pods[kind+"/"+name] = o.sets[name].Spec.Template
		case "CronJob":
			c := &batch.CronJob{}
			read(c)
			o.pods[kind+"/"+name] = c.Spec.JobTemplate.Spec.Template
		case "Job":
			j := &batch.Job{}
			read(j)
			o.pods[kind+"/"+name] = j.Spec.Template
		case "NetworkPolicy":
			o.policies[name] = &networking.NetworkPolicy{}
			read(o.policies[name])
		case "Service":
			o.services[name] = &core.Service{}
			read(o.services[name])
		case "ServiceAccount":
			o.accounts[name] = &core.ServiceAccount{}
			read(o.accounts[name])
		case "ConfigMap":
			o.config[name] = &core.ConfigMap{}
			read(o.config[name])
		case "PodDisruptionBudget":
			o.budgets[name] = &policy.PodDisruptionBudget{}
			read(o.budgets[name])
		case "HorizontalPodAutoscaler":
			o.scalers[name] = &autoscaling.HorizontalPodAutoscaler{}
			read(o.scalers[name])
		case "ScaledObject", "ServiceMonitor", "PrometheusRule":
			m := map[string]any{}
			read(&m)
			o.others[kind+"/"+name] = m
		default:
			t.Errorf("the tests do not know the kind of %s/%s", kind, name)
		}
	}
	return o
}

// release renders a set of values of testdata.
func release(t *testing.T, set string) *objects {
	t.Helper()
	values := sets(t)[set]
	if values == nil {
		t.Fatalf("there is no set of values %s", set)
	}
	all, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, all)
}

func TestEachPodRunsWithoutPrivilegesOnAReadOnlyRootWithWhatItNeeds(t *testing.T) {
	for set := range sets(t) {
		o := release(t, set)
		for name, p := range o.pods {
			for _, wrong := range privileges(p.Spec) {
				t.Errorf("%s: %s: %s", set, name, wrong)
			}
		}
	}
}

// privileges says what a pod may do that none of ours needs.
func privileges(p core.PodSpec) (wrong []string) {
	report := func(bad bool, format string, args ...any) {
		if bad {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	s := p.SecurityContext
	if s == nil {
		return []string{"the pod has no security context"}
	}
	report(s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser != 65532,
		"the user may be root")
	report(s.FSGroup == nil || *s.FSGroup != 65532, "its volumes belong to somebody else")
	report(s.SeccompProfile == nil || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault, "no seccomp profile")
	report(p.AutomountServiceAccountToken == nil || *p.AutomountServiceAccountToken, "it has a token of the cluster")
	report(p.HostNetwork || p.HostPID || p.HostIPC, "it shares something with the node")
	volumes := map[string]bool{}
	for _, v := range p.Volumes {
		volumes[v.Name] = true
		report(v.HostPath != nil, "it has a path of the node")
	}
	for _, c := range p.Containers {
		k := c.SecurityContext
		if k == nil {
			report(true, "%s has no security context", c.Name)
			continue
		}
		report(k.AllowPrivilegeEscalation == nil || *k.AllowPrivilegeEscalation, "%s may gain privileges", c.Name)
		report(k.ReadOnlyRootFilesystem == nil || !*k.ReadOnlyRootFilesystem, "%s may write its root", c.Name)
		report(k.Privileged != nil && *k.Privileged, "%s is privileged", c.Name)
		report(k.Capabilities == nil || len(k.Capabilities.Drop) != 1 || k.Capabilities.Drop[0] != "ALL" ||
			len(k.Capabilities.Add) > 0, "%s has capabilities", c.Name)
		tmp := false
		for _, m := range c.VolumeMounts {
			tmp = tmp || m.MountPath == "/tmp"
		}
		report(!tmp, "%s has no /tmp", c.Name)
		for _, e := range c.Env {
			secret := strings.Contains(e.Name, "PASSWORD") || strings.Contains(e.Name, "TOKEN")
			report(secret && e.ValueFrom == nil, "%s has a secret as a value: %s", c.Name, e.Name)
		}
	}
	return wrong
}

// Each of these, alone, is found.
func TestTheEvaluatorFindsEachPrivilege(t *testing.T) {
	yes := true
	for name, spoil := range map[string]func(*core.PodSpec){
		"root":         func(p *core.PodSpec) { p.SecurityContext.RunAsNonRoot = nil },
		"user 0":       func(p *core.PodSpec) { *p.SecurityContext.RunAsUser = 0 },
		"no seccomp":   func(p *core.PodSpec) { p.SecurityContext.SeccompProfile = nil },
		"host network": func(p *core.PodSpec) { p.HostNetwork = true },
		"token":        func(p *core.PodSpec) { p.AutomountServiceAccountToken = nil },
		"privileged":   func(p *core.PodSpec) { p.Containers[0].SecurityContext.Privileged = &yes },
		"escalation":   func(p *core.PodSpec) { p.Containers[0].SecurityContext.AllowPrivilegeEscalation = &yes },
		"root written": func(p *core.PodSpec) { p.Containers[0].SecurityContext.ReadOnlyRootFilesystem = nil },
		"capability": func(p *core.PodSpec) {
			p.Containers[0].SecurityContext.Capabilities.Add = []core.Capability{"NET_RAW"}
		},
		"no /tmp":     func(p *core.PodSpec) { p.Containers[0].VolumeMounts = nil },
		"node's path": func(p *core.PodSpec) { p.Volumes[0].HostPath = &core.HostPathVolumeSource{Path: "/"} },
		"plain secret": func(p *core.PodSpec) {
			p.Containers[0].Env = []core.EnvVar{{Name: "A_PASSWORD", Value: "x"}}
		},
	} {
		p := release(t, "smallest").pods["StatefulSet/m-worker-default"].Spec
		if wrong := privileges(p); len(wrong) > 0 {
			t.Fatal(wrong)
		}
		spoil(&p)
		if len(privileges(p)) == 0 {
			t.Errorf("%s: not found", name)
		}
	}
}

func TestAWorkerHasTimeToDrainItsJournalAndItsProbes(t *testing.T) {
	for _, set := range []string{"three-regions", "autoscaled", "adjusted"} {
		o := release(t, set)
		n := 0
		for name, s := range o.sets {
			if !strings.Contains(name, "-worker-") {
				continue
			}
			n++
			p := s.Spec.Template.Spec
			if g := p.TerminationGracePeriodSeconds; g == nil || *g < 3600 {
				t.Errorf("%s: %s has too little time to drain", set, name)
			}
			if len(s.Spec.VolumeClaimTemplates) != 1 || s.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled != "Retain" {
				t.Errorf("%s: the journal of %s can get lost", set, name)
			}
			c := p.Containers[0]
			if c.LivenessProbe.HTTPGet.Path != "/healthz" || c.ReadinessProbe.HTTPGet.Path != "/readyz" {
				t.Errorf("%s: the probes of %s", set, name)
			}
			if s.Spec.Template.Annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] != "false" {
				t.Errorf("%s: %s is evicted to save a node", set, name)
			}
			if b := o.budgets[name]; b == nil || b.Spec.MaxUnavailable.IntValue() != 1 ||
				!matches(b.Spec.Selector, s.Spec.Template.Labels) {
				t.Errorf("%s: no disruption budget is about %s", set, name)
			}
			if p.ServiceAccountName != name || o.accounts[name] == nil {
				t.Errorf("%s: %s has no account of its own", set, name)
			}
		}
		if n == 0 {
			t.Errorf("%s has no workers", set)
		}
	}
}

// An operation waits for its place before its task is published: the stream of tasks has no backlog, and a scaler that
// asks it would never add a worker.
func TestPoolsAreScaledByWhatWaitsForAPlace(t *testing.T) {
	o := release(t, "autoscaled")
	keda := fmt.Sprint(o.others["ScaledObject/m-worker-eu"])
	for _, want := range []string{`state=~"queued|running",pool="eu"`, "minReplicaCount:0", "threshold:10"} {
		if !strings.Contains(keda, want) {
			t.Errorf("the scaler of eu has no %s: %s", want, keda)
		}
	}
	h := o.scalers["m-worker-us"]
	if h == nil || h.Spec.Metrics[0].External.Metric.Name != "millipede_operations" ||
		h.Spec.Metrics[0].External.Target.AverageValue.Value() != 4 {
		t.Errorf("the scaler of us is %+v", h)
	}
	for _, name := range []string{"m-worker-eu", "m-worker-us"} {
		if o.sets[name].Spec.Replicas != nil {
			t.Errorf("an upgrade of the release would undo what the scaler of %s did", name)
		}
	}
}

func TestTheServersOfNATSAreInThreeZonesAndLeaveOneAfterTheOther(t *testing.T) {
	o := release(t, "smallest")
	s := o.sets["m-nats"]
	spread := s.Spec.Template.Spec.TopologySpreadConstraints
	if *s.Spec.Replicas != 3 || len(spread) != 2 || spread[0].TopologyKey != "topology.kubernetes.io/zone" ||
		spread[0].WhenUnsatisfiable != core.DoNotSchedule || !matches(spread[0].LabelSelector, s.Spec.Template.Labels) {
		t.Errorf("%d servers, spread by %+v", *s.Spec.Replicas, spread)
	}
	if o.budgets["m-nats"].Spec.MaxUnavailable.IntValue() != 1 {
		t.Error("two servers may leave at a time")
	}
}

func TestSelectorsFindThePodsAndNoOthers(t *testing.T) {
	for set := range sets(t) {
		o := release(t, set)
		for name, s := range o.sets {
			for other, p := range o.pods {
				if got := matches(s.Spec.Selector, p.Labels); got != (other == "StatefulSet/"+name) {
					t.Errorf("%s: the selector of %s matches the pods of %s: %t", set, name, other, got)
				}
			}
			if o.services[s.Spec.ServiceName] == nil {
				t.Errorf("%s: %s has no service %s", set, name, s.Spec.ServiceName)
			}
		}
	}
}
