package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/internal/environ"
)

var (
	pipelineSeeds   = flag.Int("pipelines", 12, "how many pipelines to play")
	pipelineFrom    = flag.Uint64("pipelines-from", 1, "the first seed of the pipelines")
	pipelineProgram = flag.String("pipelines-program", "", "another program that plays the pipelines, to check the oracle")
)

// stateKey is one state: where it is, and the workspace. The place 0 is that of a configuration without a backend
// block; the others are paths of the local backend, which -backend-config gives.
type stateKey struct {
	place     int
	workspace string
}

const (
	places4     = 4
	pipelineLen = 25
	pipelineTF  = `
variable "n" { default = 1 }
variable "tag" { default = "a" }
resource "terraform_data" "x" {
  count = var.n
  input = var.tag
}
output "n" { value = var.n }
`
)

// path is the file of a state, relative to the directory.
func (k stateKey) path() string {
	base := ""
	if k.place > 0 {
		base = fmt.Sprintf("place%d/", k.place)
	}
	switch {
	case k.workspace == "default":
		return base + "terraform.tfstate"
	case k.place == 0:
		return "terraform.tfstate.d/" + k.workspace + "/terraform.tfstate"
	}
	return base + "d/" + k.workspace + "/terraform.tfstate"
}

// content is the content of a state: the objects by index, and the number of the version.
type content struct {
	Lineage string
	Serial  uint64
	Objects map[int]object
}

type object struct{ ID, Input string }

// savedPlan is a plan file: the state that it is for, as it was then, and the state after its changes.
type savedPlan struct {
	at    stateKey
	base  content
	n     int
	tag   string
	moved int  // how often the state had been moved elsewhere
	done  bool // it was applied, and has changed objects
}

// pipeline is a directory in which commands are run in random order, with the model of their permitted effects.
type pipeline struct {
	*testing.T
	dir    string
	env    []string
	shared estate.Connector
	random *rand.Rand

	block     bool // the configuration has a backend block
	recorded  int  // the place that init has recorded; 0 for none
	workspace string
	plans     map[string]savedPlan
	states    map[stateKey]content
	moved     map[stateKey]int // how often a state was moved elsewhere
	log       []string
}

// Pipelines switch the backend of one directory. The store was that of the directory, not of the backend. So after
// init -reconfigure to another path and back, a plan created everything again, and the apply overwrote the state; a
// plan for one backend was applied to another; and after rm -rf .terraform, init took the store of one backend for a
// local state, and offered to copy it over the state of another. This test plays such commands in random orders, and
// compares every state after every command with a model: a command changes at most the state that the configuration, or
// the plan, says, and keeps the objects in it.
func TestPipelinesThatSwitchBackendsChangeOnlyTheStateThatTheyName(t *testing.T) {
	var connector estate.Connector
	if *pipelineProgram == "" {
		connector = shared(t)
	}
	for seed := *pipelineFrom; seed < *pipelineFrom+uint64(*pipelineSeeds); seed++ {
		p := &pipeline{T: t, dir: t.TempDir(), shared: connector, random: rand.New(rand.NewPCG(seed, 29)),
			workspace: "default", plans: map[string]savedPlan{}, states: map[stateKey]content{}, moved: map[stateKey]int{},
			env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TF_CLI_CONFIG_FILE=" + os.DevNull,
				"TF_INPUT=0", "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1"}}
		p.write("main.tf", pipelineTF)
		p.setBlock(p.random.IntN(4) > 0)
		for range pipelineLen {
			p.step()
			if t.Failed() {
				t.Fatalf("seed %d:\n%s", seed, strings.Join(p.log, "\n"))
			}
		}
		if err := os.RemoveAll(p.dir); err != nil {
			t.Fatal(err)
		}
	}
}

// step runs one command.
func (p *pipeline) step() {
	switch p.random.IntN(16) {
	case 0, 1, 2:
		p.init()
	case 3:
		p.log = append(p.log, "rm -rf .terraform")
		if err := os.RemoveAll(filepath.Join(p.dir, ".terraform")); err != nil {
			p.Fatal(err)
		}
		p.recorded, p.workspace = 0, "default"
	case 4:
		p.setBlock(!p.block)
		p.init()
	case 5, 6, 7:
		p.apply()
	case 8, 9:
		p.plan()
	case 10, 11, 12:
		p.applyPlan()
	case 13:
		p.destroy()
	case 14:
		p.selectWorkspace()
	case 15:
		p.list()
	}
}

func (p *pipeline) write(name, text string) {
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
		p.Fatal(err)
	}
}

func (p *pipeline) setBlock(on bool) {
	p.block = on
	text := ""
	if on {
		text = "terraform {\n  backend \"local\" {}\n}\n"
	}
	p.write("backend.tf", text)
}

// run runs a command line, and requires the exit code, unless that is negative.
func (p *pipeline) run(want int, args ...string) (code int, out string) {
	p.log = append(p.log, strings.Join(args, " "))
	var stdout, stderr bytes.Buffer
	if *pipelineProgram != "" {
		c := exec.Command(*pipelineProgram, args...)
		c.Dir, c.Env, c.Stdout, c.Stderr = p.dir, p.env, &stdout, &stderr
		if err := c.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			p.Fatal(err)
		}
		code = c.ProcessState.ExitCode()
	} else {
		a := newApp(strings.NewReader(""), &stdout, &stderr, environ.Variables(p.env))
		a.Shared = p.shared
		code = a.Run(context.Background(), append([]string{"-chdir=" + p.dir}, args...))
	}
	p.log[len(p.log)-1] += fmt.Sprintf("  -> %d", code)
	if want >= 0 && code != want {
		p.Errorf("%s: exit status %d, not %d\n%s%s", args, code, want, &stdout, &stderr)
	}
	return code, stdout.String()
}

// at is the state that commands work on.
func (p *pipeline) at() stateKey { return stateKey{p.recorded, p.workspace} }

// ready reports whether the backend is initialized: otherwise commands fail.
func (p *pipeline) ready() bool { return p.block == (p.recorded != 0) }

// code returns the exit code of a command that needs an initialized backend.
func (p *pipeline) code() int {
	if p.ready() {
		return 0
	}
	return 1
}

// workspaces returns the workspaces of a place.
func (p *pipeline) workspaces(place int) []string {
	if _, err := os.Stat(filepath.Dir(filepath.Join(p.dir, stateKey{place, "w"}.path()))); errors.Is(err, fs.ErrNotExist) {
		return []string{"default"}
	}
	return []string{"default", "w"}
}

// init runs init in one of its modes, for one of the places.
func (p *pipeline) init() {
	to := 0
	args := []string{"init", "-no-color", "-input=false"}
	if p.block {
		to = 1 + p.random.IntN(places4-1)
		args = append(args, fmt.Sprintf("-backend-config=path=place%d/terraform.tfstate", to),
			fmt.Sprintf("-backend-config=workspace_dir=place%d/d", to))
	}
	mode := p.random.IntN(4)
	args = append(args, [][]string{{}, {"-reconfigure"}, {"-reconfigure"}, {"-migrate-state", "-force-copy"}}[mode]...)
	var full []string
	for _, w := range p.workspaces(p.recorded) {
		if len(p.states[stateKey{p.recorded, w}].Objects) > 0 {
			full = append(full, w)
		}
	}
	copies := mode == 3 && to != p.recorded
	want := 0
	switch {
	case *pipelineProgram != "" && (mode == 1 || mode == 2) && p.block && p.local():
		want = 1 // OpenTofu offers the state of the default local backend also with -reconfigure
	case to == p.recorded || mode != 0:
	case p.recorded != 0: // a changed backend
		want = 1
	case len(p.workspaces(0)) > 1 && len(full) > 0, slices.ContainsFunc(full, func(w string) bool {
		return !p.alike(stateKey{0, w}, stateKey{to, w})
	}): // a question that nobody answers
		want = 1
	}
	before := p.recorded
	p.run(want, args...)
	if want != 0 {
		p.unchanged()
		return
	}
	if *pipelineProgram == "" || p.block || mode == 0 || mode == 3 { // OpenTofu then keeps its record
		p.recorded = to
	}
	if p.block && !slices.Contains(p.workspaces(to), p.workspace) {
		p.workspace = "default"
	}
	if !copies {
		p.unchanged()
		return
	}
	var changed []stateKey
	for _, w := range full {
		if p.alike(stateKey{before, w}, stateKey{to, w}) {
			continue // nothing is copied
		}
		p.states[stateKey{to, w}] = p.states[stateKey{before, w}]
		changed = append(changed, stateKey{to, w})
		if before == 0 { // the state of no backend moves
			delete(p.states, stateKey{0, w})
			p.moved[stateKey{0, w}]++
			changed = append(changed, stateKey{0, w})
		}
	}
	p.compare(changed...)
}

// alike reports whether two states are copies of each other.
func (p *pipeline) alike(a, b stateKey) bool {
	return p.states[a].Lineage == p.states[b].Lineage && maps.Equal(p.states[a].Objects, p.states[b].Objects)
}

// local reports whether there is a state without a backend block.
func (p *pipeline) local() bool {
	return slices.ContainsFunc([]string{"default", "w"}, func(w string) bool {
		return len(p.states[stateKey{0, w}].Objects) > 0
	})
}

func (p *pipeline) values() (n int, tag string, args []string) {
	n, tag = 1+p.random.IntN(3), string(rune('a'+p.random.IntN(3)))
	return n, tag, []string{fmt.Sprintf("-var=n=%d", n), "-var=tag=" + tag}
}

// savedPlan is a plan for the present state.
func (p *pipeline) savedPlan(n int, tag string) savedPlan {
	return savedPlan{at: p.at(), base: p.states[p.at()], n: n, tag: tag, moved: p.moved[p.at()]}
}

func (p *pipeline) apply() {
	n, tag, args := p.values()
	p.run(p.code(), append([]string{"apply", "-no-color", "-auto-approve"}, args...)...)
	if p.ready() {
		p.became(p.savedPlan(n, tag))
	} else {
		p.unchanged()
	}
}

func (p *pipeline) plan() {
	n, tag, args := p.values()
	name := fmt.Sprintf("plan%d", p.random.IntN(3))
	p.run(p.code(), append([]string{"plan", "-no-color", "-out=" + name}, args...)...)
	p.unchanged()
	if p.ready() {
		p.plans[name] = p.savedPlan(n, tag)
	}
}

// applyPlan applies a plan: where it was made for, whatever the backend is now.
func (p *pipeline) applyPlan() {
	if len(p.plans) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(p.plans))
	name := names[p.random.IntN(len(names))]
	s := p.plans[name]
	now := p.states[s.at]
	// Objects that a plan creates may have been created since, and be elsewhere now: then the plan is stale.
	switch same := now.Lineage == s.base.Lineage && now.Serial == s.base.Serial && s.moved == p.moved[s.at]; {
	case s.at.workspace != p.workspace:
		code := 1
		if *pipelineProgram != "" {
			return // OpenTofu's treatment of the state of another workspace is no model
		}
		p.run(code, "apply", "-no-color", name)
		p.unchanged()
	case s.done && *pipelineProgram == "": // a plan is applied once, even if an old copy of the state is put back
		p.run(1, "apply", "-no-color", name)
		p.unchanged()
	case same:
		p.run(0, "apply", "-no-color", name)
		p.became(s)
	default: // the state has changed since; the plan may still fit
		if code, _ := p.run(-1, "apply", "-no-color", name); code == 0 {
			p.became(s)
		} else {
			p.unchanged()
		}
	}
	s.done = s.done || !maps.Equal(now.Objects, p.states[s.at].Objects)
	p.plans[name] = s
}

func (p *pipeline) destroy() {
	p.run(p.code(), "destroy", "-no-color", "-auto-approve")
	if p.ready() {
		p.became(p.savedPlan(0, ""))
	} else {
		p.unchanged()
	}
}

func (p *pipeline) selectWorkspace() {
	args, want := []string{"workspace", "select", "default"}, p.code()
	to := "default"
	if p.random.IntN(3) > 0 {
		args, to = []string{"workspace", "select", "-or-create", "w"}, "w"
	}
	p.run(want, args...)
	if want == 0 {
		p.workspace = to
	}
	p.unchanged()
}

// list reads the state.
func (p *pipeline) list() {
	objects := len(p.states[p.at()].Objects)
	want := -1 // without a state there is nothing to list
	if objects > 0 {
		want = p.code()
	}
	code, out := p.run(want, "state", "list")
	if got := strings.Count(out, "terraform_data.x["); code == 0 && got != objects {
		p.Errorf("state list shows %d objects, and there are %d:\n%s", got, objects, out)
	}
	p.unchanged()
}

// read reads a state from its file.
func (p *pipeline) read(k stateKey) content {
	text, err := os.ReadFile(filepath.Join(p.dir, k.path()))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 {
		return content{}
	}
	var file struct {
		Lineage   string
		Serial    uint64
		Resources []struct {
			Instances []struct {
				IndexKey   int `json:"index_key"`
				Attributes struct {
					ID    string
					Input struct{ Value string }
				}
			}
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil {
		p.Fatalf("%s: %v", k.path(), err)
	}
	out := content{file.Lineage, file.Serial, map[int]object{}}
	for _, r := range file.Resources {
		for _, i := range r.Instances {
			out.Objects[i.IndexKey] = object{i.Attributes.ID, i.Attributes.Input.Value}
		}
	}
	return out
}

// compare compares the objects of all states with the model, and the versions of those that may not have changed.
func (p *pipeline) compare(changed ...stateKey) {
	for place := range places4 {
		for _, w := range []string{"default", "w"} {
			k := stateKey{place, w}
			got, want := p.read(k), p.states[k]
			if !maps.Equal(got.Objects, want.Objects) {
				p.Errorf("%s has %v, not %v", k.path(), got.Objects, want.Objects)
			}
			if !slices.Contains(changed, k) && (got.Lineage != want.Lineage || got.Serial != want.Serial) {
				p.Errorf("%s has become the version %s %d, and was %s %d", k.path(), got.Lineage, got.Serial,
					want.Lineage, want.Serial)
			}
			p.states[k] = got
		}
	}
}

// unchanged requires that no state has changed.
func (p *pipeline) unchanged() { p.compare() }

// became requires that a state is as a plan makes it: the changes of the plan are made, all other objects are still the
// same, and so are all other states.
func (p *pipeline) became(s savedPlan) {
	k := s.at
	want := maps.Clone(p.states[k].Objects)
	if want == nil {
		want = map[int]object{}
	}
	got := p.read(k)
	for i := range s.n {
		switch o, existed := s.base.Objects[i]; {
		case !existed:
			o.ID, o.Input = got.Objects[i].ID, s.tag
			p.isNew(k, i, o.ID)
			want[i] = o
		case o.Input != s.tag:
			o.Input = s.tag
			want[i] = o
		}
	}
	for i := range s.base.Objects {
		if i >= s.n {
			delete(want, i)
		}
	}
	p.states[k] = content{Objects: want}
	p.compare(k)
}

// isNew requires that an object is in no state yet.
func (p *pipeline) isNew(k stateKey, index int, id string) {
	for other, c := range p.states {
		for _, old := range c.Objects {
			if old.ID == id {
				p.Errorf("the new object %d of %s is one of %s", index, k.path(), other.path())
			}
		}
	}
}
