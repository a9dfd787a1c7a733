package containers

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// call is a call that a test provider has received.
type call struct {
	op, name, pool string
	began          int64 // Unix nanoseconds
	ended          bool
}

// calls reads the record of the providers: creations, updates and plans in the order of their starts. Processes of
// different containers, and those of a container before and after a restart, can have the same number.
func (p *users) calls() []call {
	p.Helper()
	text, err := os.ReadFile(p.record)
	if err != nil {
		p.Error(err)
		return nil
	}
	type key struct {
		worker    string
		pid, call int
	}
	open := map[key]int{}
	var out []call
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is still being written
		}
		var e struct {
			Time                          int64
			PID, Call                     int
			Op, Phase, Name, Worker, Pool string
		}
		if err := json.Unmarshal(line, &e); err != nil {
			p.Errorf("the record: %v in %s", err, line)
			return nil
		}
		if e.Op != "create" && e.Op != "update" && e.Op != "plan" {
			continue
		}
		k := key{e.Worker, e.PID, e.Call}
		if e.Phase == "start" {
			open[k] = len(out)
			out = append(out, call{op: e.Op, name: e.Name, pool: e.Pool, began: e.Time})
		} else if i, ok := open[k]; ok {
			out[i].ended = true
		}
	}
	return out
}

// working reports whether a provider works on a machine.
func (p *users) working(name string) bool {
	for _, c := range p.calls() {
		if c.op == "plan" || c.name != name || c.ended {
			continue
		}
		if died, _ := p.died.Load(c.pool); died == nil || died.(int64) < c.began {
			return true
		}
	}
	return false
}

// objects returns the machines in the cloud: name to ID. It reports those that exist twice.
func (p *users) objects() map[string]string {
	p.Helper()
	all, err := os.ReadDir(filepath.Join(p.cloud, "fleet_machine"))
	if err != nil && !os.IsNotExist(err) {
		p.Error(err)
	}
	out := map[string]string{}
	for _, e := range all {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || strings.HasPrefix(id, ".") {
			continue // its writer was killed
		}
		name := id[:strings.LastIndexByte(id, '-')]
		if out[name] != "" {
			p.Errorf("the cloud has %s twice: %s and %s", name, out[name], id)
		}
		out[name] = id
	}
	return out
}

// once checks that no machine was created again unless a person had resolved its creation as not done, that no machine
// was updated twice by one plan, that each region did its own, and that the cloud has every machine once.
func (p *users) once() {
	p.Helper()
	planned, created := map[string]bool{}, map[string]int{}
	for _, c := range p.calls() {
		if !strings.Contains(c.name, "-"+c.pool+"-") {
			p.Errorf("the pool %s was asked to %s %s", c.pool, c.op, c.name)
		}
		switch {
		case c.op == "plan":
			planned[c.name] = true
		case c.op == "create":
			created[c.name]++
		case !planned[c.name]:
			p.Errorf("the update of %s was started twice by one plan", c.name)
		default:
			planned[c.name] = false
		}
	}
	for _, name := range slices.Sorted(maps.Keys(created)) {
		if n, most := created[name], 1+p.forgiven[name]; n > most {
			p.Errorf("%s was created %d times, but its creation was resolved as not done %d times", name, n, most-1)
		}
	}
	if n, want := len(p.objects()), spaces*machines*len(regions); n != want {
		p.Errorf("the cloud has %d machines, not %d", n, want)
	}
}

// begun counts the calls of an operation.
func (p *users) begun(op string) (n int) {
	for _, c := range p.calls() {
		if c.op == op {
			n++
		}
	}
	return n
}
