package regions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/test/stage/process"
	"github.com/millipede-iac/millipede/test/stage/proxy"
	"github.com/millipede-iac/millipede/test/stage/site"
)

// land is a hub and three regions. Each has a server, a worker, and a line to the hub.
type land struct {
	*site.Site
	hub     *process.Process
	regions map[string]*region
}

type region struct {
	t         *testing.T
	name      string
	namespace string // empty on loopback
	line      *proxy.Proxy
	server    *process.Process
	worker    *site.Worker
	url       string
}

var names = []string{"eu", "us", "ap"}

// command executes something in the region.
func (r *region) prefix() []string {
	if r.namespace == "" {
		return nil
	}
	return []string{"ip", "netns", "exec", r.namespace}
}

// cut cuts the region off from the hub: in a namespace its packets are lost, on loopback its connections are closed.
func (r *region) cut() {
	r.t.Helper()
	if r.namespace == "" {
		r.line.Cut()
		return
	}
	ip(r.t, "link", "set", r.outside(), "down")
}

func (r *region) mend() {
	r.t.Helper()
	if r.namespace == "" {
		r.line.Mend()
		return
	}
	ip(r.t, "link", "set", r.outside(), "up")
}

func (r *region) outside() string { return "mp-" + r.name }

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// enclose gives the region a namespace, and returns the addresses of the hub's and of the region's end of its line.
func (r *region) enclose(number int) (hub, inside string) {
	t := r.t
	t.Helper()
	r.namespace = fmt.Sprintf("mp-%d-%s", os.Getpid(), r.name)
	hub, inside = fmt.Sprintf("10.213.%d.1", number), fmt.Sprintf("10.213.%d.2", number)
	ip(t, "netns", "add", r.namespace)
	t.Cleanup(func() { ip(t, "netns", "del", r.namespace) })
	ip(t, "link", "add", r.outside(), "type", "veth", "peer", "name", "hub", "netns", r.namespace)
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", r.outside()).Run() }) // it goes with the namespace, too
	ip(t, "addr", "add", hub+"/24", "dev", r.outside())
	ip(t, "link", "set", r.outside(), "up")
	ip(t, "-n", r.namespace, "addr", "add", inside+"/24", "dev", "hub")
	ip(t, "-n", r.namespace, "link", "set", "hub", "up")
	ip(t, "-n", r.namespace, "link", "set", "lo", "up")
	return hub, inside
}

const root = `
module "eu" {
  source = "./many"
  place  = "eu"
  n      = var.n
  ms     = var.ms
}
module "us" {
  source = "./many"
  place  = "us"
  n      = var.n
  ms     = var.ms
}
module "ap" {
  source = "./many"
  place  = "ap"
  n      = var.n
  ms     = var.ms
}
variable "n" { type = number }
variable "ms" { type = number }
`

const many = `
terraform {
  required_providers {
    fleet = { source = "millipede/fleet" }
  }
}
variable "place" { type = string }
variable "n" { type = number }
variable "ms" { type = number }
resource "fleet_machine" "all" {
  count     = var.n
  name      = "${var.place}-${count.index}"
  create_ms = var.ms
}
`

// found starts everything, and sets the store of each pool.
func found(t *testing.T) *land {
	t.Helper()
	l := &land{Site: site.New(t, root), regions: map[string]*region{}}
	l.Write("many/main.tf", many)
	rules := ""
	for _, name := range names {
		rules += fmt.Sprintf("pool %q {\n  modules = [\"module.%s\"]\n}\n", name, name)
	}
	l.Write("millipede.hcl", rules)
	dir := t.TempDir()
	shipped := filepath.Join(site.Built.Root, "deploy", "nats", "regions")
	if err := os.CopyFS(dir, os.DirFS(shipped)); err != nil {
		t.Fatal(err)
	}
	leaves, clients := free(t), free(t)
	l.put(filepath.Join(dir, "hub.conf"), strings.NewReplacer(
		`"127.0.0.1:7422"`, fmt.Sprintf("%q", leaves), `"127.0.0.1:4222"`, fmt.Sprintf("%q", clients),
		`"/var/lib/nats"`, fmt.Sprintf("%q", filepath.Join(dir, "hub"))).Replace(l.text(filepath.Join(dir, "hub.conf"))))
	l.hub = l.serve("hub", nil, filepath.Join(dir, "hub.conf"))
	l.NATS = "nats://coordinator:coordinator@" + clients
	for i, name := range names {
		r := &region{t: t, name: name}
		l.regions[name] = r
		at, inside := "127.0.0.1", ""
		if *namespaces {
			at, inside = r.enclose(i + 1)
			inside += ":4222"
		}
		var err error
		if r.line, err = proxy.StartAt(at+":0", leaves); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.line.Close() })
		if !*namespaces {
			inside = free(t)
		}
		config := filepath.Join(dir, "region-"+name+".conf")
		l.put(config, strings.NewReplacer(`"127.0.0.1:4222"`, fmt.Sprintf("%q", inside), `"/var/lib/nats"`,
			fmt.Sprintf("%q", filepath.Join(dir, "store-"+name))).Replace(
			l.of(filepath.Join(shipped, "region-eu.conf"), "eu", name)))
		r.url = "nats://" + inside
		r.server = l.serve(name, r.prefix(), config,
			fmt.Sprintf("MILLIPEDE_HUB=nats-leaf://region-%s:region-%s@%s", name, name, r.line.Address()))
		site.Eventually(t, "the domain of "+name+" is set", func() bool {
			return l.Run("pools", "set", name, "-domain="+name).Code == 0
		})
		r.worker = l.NewWorker(name)
		r.worker.URL, r.worker.Prefix = r.url, r.prefix()
		r.worker.Args = []string{"-domain=" + name}
		r.worker.Env = []string{"NATS_USER=worker-" + name, "NATS_PASSWORD=worker-" + name}
		r.worker.Start()
	}
	l.Must("init", "-no-color")
	return l
}

// free returns an address on loopback that nobody uses.
func free(t *testing.T) string {
	t.Helper()
	in, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	return in.Addr().String()
}

func (l *land) text(file string) string {
	l.T.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		l.T.Fatal(err)
	}
	return string(text)
}

// of returns a file for one pool as that of another one.
func (l *land) of(file, pool, other string) string {
	return strings.NewReplacer(pool, other, strings.ToUpper(pool), strings.ToUpper(other)).Replace(l.text(file))
}

func (l *land) put(file, text string) {
	l.T.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		l.T.Fatal(err)
	}
}

// serve starts a NATS server.
func (l *land) serve(name string, prefix []string, config string, env ...string) *process.Process {
	l.T.Helper()
	call := slices.Concat(prefix, []string{site.Built.NATSServer, "-c", config})
	c := exec.Command(call[0], call[1:]...)
	c.Env = append(os.Environ(), env...)
	for variable, user := range map[string]string{"COORDINATOR": "coordinator", "OBSERVER": "observer",
		"REGION_EU": "region-eu", "REGION_US": "region-us", "REGION_AP": "region-ap", "WORKER_EU": "worker-eu",
		"WORKER_US": "worker-us", "WORKER_AP": "worker-ap"} {
		c.Env = append(c.Env, "MILLIPEDE_"+variable+"_PASSWORD="+user)
	}
	p := site.Started(l.T, "nats-server of "+name, c)
	if _, err := p.Await(site.Waiting(l.T), "Server is ready"); err != nil {
		l.T.Fatal(err)
	}
	return p
}

// apply starts an apply of n operations in each region.
func (l *land) apply(n int, lasts time.Duration, parallelism int) *process.Process {
	l.T.Helper()
	return l.Start("apply", "-auto-approve", "-no-color", fmt.Sprintf("-parallelism=%d", parallelism),
		fmt.Sprintf("-var=n=%d", n), fmt.Sprintf("-var=ms=%d", lasts.Milliseconds()))
}

func (l *land) destroy(n int, lasts time.Duration) {
	l.T.Helper()
	l.Must("destroy", "-auto-approve", "-no-color", "-parallelism=60", fmt.Sprintf("-var=n=%d", n),
		fmt.Sprintf("-var=ms=%d", lasts.Milliseconds()))
}

// creation is a creation in the providers' record.
type creation struct {
	began, ended time.Time // ended is zero while it runs
}

// creations reads the record: the creations of each pool, in the order of their starts.
func (l *land) creations() map[string][]creation {
	l.T.Helper()
	text, err := os.ReadFile(l.Record)
	if err != nil && !os.IsNotExist(err) {
		l.T.Fatal(err)
	}
	out := map[string][]creation{}
	open, keyed := map[string]int{}, map[string]string{}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var e struct {
			Time            int64
			PID, Call       int
			Op, Phase, Name string
		}
		if err := json.Unmarshal(line, &e); err != nil {
			l.T.Fatalf("the record: %v in %s", err, line)
		}
		if e.Op != "create" {
			continue
		}
		pool, _, _ := strings.Cut(e.Name, "-")
		at, key := time.Unix(0, e.Time), fmt.Sprint(e.PID, " ", e.Call)
		if e.Phase == "start" {
			open[key], keyed[key] = len(out[pool]), pool
			out[pool] = append(out[pool], creation{began: at})
			continue
		}
		out[keyed[key]][open[key]].ended = at
	}
	return out
}
