package system

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// The size of the test of many people. `make people` runs it with twenty people for ten minutes.
var (
	peopleCount   = flag.Int("people", 4, "how many people use one service at once")
	peopleSpaces  = flag.Int("workspaces", 6, "how many workspaces they share")
	peopleActions = flag.Int("actions", 10, "how many actions each person performs, unless -lasting is set")
	peopleTime    = flag.Duration("lasting", 0, "how long the test runs; 0 means until all -actions are performed")
)

// shared is a configuration with an object for each person. Each run targets the object of one person.
func shared(people int) string {
	var names []string
	for i := range people {
		names = append(names, strconv.Quote(personName(i)))
	}
	return fmt.Sprintf(`
variable "n" { default = 0 }
resource "terraform_data" "of" {
  for_each = toset([%s])
  input    = var.n
}
`, strings.Join(names, ", "))
}

func personName(i int) string { return fmt.Sprintf("p%d", i) }

// people are the users of one service, with the writes that it has acknowledged.
type people struct {
	*testing.T
	v       *site.Service
	spaces  []*client.Workspace // the workspaces in which runs are queued
	configs []*client.ConfigurationVersion
	halves  sync.Once
	half    chan struct{} // closed when half of the work is done
	over    chan struct{} // closed when they are to stop

	mu       sync.Mutex // guards the fields below
	done     int
	known    map[string]int // the greatest acknowledged number of each key
	statuses map[int]int    // the number of responses, by status
	actions  map[string]int
}

// acknowledge records that the service has acknowledged that the key has the number n. A key's numbers only grow.
func (p *people) acknowledge(key string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[key] = max(p.known[key], n)
}

// acknowledged returns a copy of the greatest acknowledged numbers.
func (p *people) acknowledged() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]int{}
	for key, n := range p.known {
		out[key] = n
	}
	return out
}

// counted counts the responses by their status, and reports an error for those that no client should get.
type counted struct {
	*people
	next http.RoundTripper
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	reply, err := c.next.RoundTrip(r)
	if err != nil {
		c.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		return nil, err
	}
	c.mu.Lock()
	c.statuses[reply.StatusCode]++
	c.mu.Unlock()
	switch code := reply.StatusCode; code {
	case http.StatusNotFound, http.StatusConflict, http.StatusLocked: // no state exists yet; somebody else was faster
	default:
		if code >= http.StatusBadRequest {
			c.Errorf("%s %s: %s", r.Method, r.URL.Path, reply.Status)
		}
	}
	return reply, nil
}

// person is one of the people, and has a separate token.
type person struct {
	*people
	name   string
	token  string
	client *client.Client
	http   *http.Client
	rand   *rand.Rand
	n      int // the number that this person wrote last; each number is written once
}

// newPerson creates a team with one member, which has all permissions on the default project.
func (p *people) newPerson(i int) *person {
	p.Helper()
	ctx, name := p.Context(), personName(i)
	team, err := p.v.Client.Teams.Create(ctx, "main", client.TeamCreateOptions{Name: &name,
		OrganizationAccess: &client.OrganizationAccessOptions{ManageWorkspaces: client.Bool(true)}})
	if err != nil {
		p.Fatal(err)
	}
	token, err := p.v.Client.TeamTokens.Create(ctx, team.ID)
	if err != nil {
		p.Fatal(err)
	}
	h := &http.Client{Transport: &counted{p, p.v.HTTP.Transport}}
	c, err := client.NewClient(&client.Config{Address: p.v.Address, Token: token.Token, HTTPClient: h})
	if err != nil {
		p.Fatal(err)
	}
	return &person{people: p, name: name, token: token.Token, client: c, http: h,
		rand: rand.New(rand.NewPCG(1, uint64(i)))} //nolint:gosec // not for security
}

// action is an action that people perform.
type action struct {
	name string
	do   func(*person) error
}

var allActions = []action{
	{"apply", (*person).apply}, {"approve or discard", (*person).decide}, {"plan", (*person).plan},
	{"cancel", (*person).cancel}, {"set a variable", (*person).setVariable}, {"set a tag", (*person).setTag},
	{"write a state over HTTP", (*person).writeOverHTTP}, {"write a state by the API", (*person).writeByAPI},
	{"read everything", (*person).browse}, {"create and delete a workspace", (*person).passing},
}

// work performs one action after the other.
func (p *person) work() {
	all := slices.Clone(allActions)
	for i := 0; ; i++ {
		if i%len(all) == 0 {
			p.rand.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
		}
		d := all[i%len(all)]
		select {
		case <-p.over:
			return
		default:
		}
		if *peopleTime == 0 && i == *peopleActions {
			return
		}
		p.n++
		if err := d.do(p); err != nil {
			p.Errorf("%s: %s: %v", p.name, d.name, err)
			return
		}
		p.mu.Lock()
		p.actions[d.name]++
		p.done++
		half := *peopleTime == 0 && p.done >= *peopleCount**peopleActions/2
		p.mu.Unlock()
		if half {
			p.halves.Do(func() { close(p.half) })
		}
	}
}

// somewhere returns a random workspace, and its index.
func (p *person) somewhere() (*client.Workspace, int) {
	i := p.rand.IntN(len(p.spaces))
	return p.spaces[i], i
}

// run queues a run for the object of this person.
func (p *person) run(change func(*client.RunCreateOptions)) (*client.Run, *client.Workspace, error) {
	w, i := p.somewhere()
	o := client.RunCreateOptions{Workspace: w, ConfigurationVersion: p.configs[i],
		TargetAddrs: []string{fmt.Sprintf("terraform_data.of[%q]", p.name)},
		Variables:   []*client.RunVariable{{Key: "n", Value: strconv.Itoa(p.n)}}}
	change(&o)
	r, err := p.client.Runs.Create(p.Context(), o)
	return r, w, err
}

// until waits until a run has one of the statuses, or has ended.
func (p *person) until(id string, statuses ...client.RunStatus) (*client.Run, error) {
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	ctx := site.Waiting(p.T)
	for {
		r, err := p.client.Runs.Read(ctx, id)
		if err != nil || site.Over(r.Status) || slices.Contains(statuses, r.Status) {
			return r, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return r, fmt.Errorf("the run %s is still %s", id, r.Status)
		}
	}
}

// applied checks that a run was applied, and that the current state has its result.
func (p *person) applied(r *client.Run, w *client.Workspace) error {
	if r.Status != client.RunApplied {
		return fmt.Errorf("the run %s is %s", r.ID, r.Status)
	}
	p.acknowledge("object "+w.Name+" "+p.name, p.n)
	if got, err := objectsOf(p.people, p.client, w); err != nil || got[p.name] < p.n {
		return fmt.Errorf("after the run %s the state of %s has %d, not %d: %w", r.ID, w.Name, got[p.name], p.n, err)
	}
	return nil
}

func (p *person) apply() error {
	r, w, err := p.run(func(o *client.RunCreateOptions) { o.AutoApply = client.Bool(true) })
	if err != nil {
		return err
	}
	if r, err = p.until(r.ID); err != nil {
		return err
	}
	return p.applied(r, w)
}

// decide approves the plan of a run, or discards it.
func (p *person) decide() error {
	r, w, err := p.run(func(*client.RunCreateOptions) {})
	if err == nil {
		r, err = p.until(r.ID, client.RunPlanned)
	}
	if err != nil || r.Status != client.RunPlanned {
		return fmt.Errorf("waiting for the plan of the run %+v: %w", r, err)
	}
	if p.rand.IntN(3) == 0 {
		return p.client.Runs.Discard(p.Context(), r.ID, client.RunDiscardOptions{Comment: client.String("no")})
	}
	if err := p.client.Runs.Apply(p.Context(), r.ID, client.RunApplyOptions{Comment: client.String("go")}); err != nil {
		return err
	}
	if r, err = p.until(r.ID); err != nil {
		return err
	}
	return p.applied(r, w)
}

func (p *person) plan() error {
	r, _, err := p.run(func(o *client.RunCreateOptions) { o.PlanOnly = client.Bool(true) })
	if err != nil {
		return err
	}
	log, err := p.client.Plans.Logs(p.Context(), r.Plan.ID)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if _, err := text.ReadFrom(log); err != nil || !strings.Contains(text.String(), "terraform_data.of") {
		return fmt.Errorf("the log is %q: %w", text.String(), err)
	}
	r, err = p.until(r.ID)
	if err == nil && r.Status != client.RunPlannedAndFinished {
		err = fmt.Errorf("the plan %s is %s", r.ID, r.Status)
	}
	return err
}

// cancel cancels a run while it plans, or after it has ended.
func (p *person) cancel() error {
	r, _, err := p.run(func(o *client.RunCreateOptions) { o.PlanOnly = client.Bool(true) })
	if err != nil {
		return err
	}
	if err := p.client.Runs.Cancel(p.Context(), r.ID, client.RunCancelOptions{}); err != nil {
		p.Logf("%s was too late to cancel a plan: %v", p.name, err)
	}
	_, err = p.until(r.ID)
	return err
}

func (p *person) setVariable() error {
	w, _ := p.somewhere()
	value, category := strconv.Itoa(p.n), client.CategoryEnv
	all, err := p.client.Variables.List(p.Context(), w.ID, nil)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all.Items, func(v *client.Variable) bool { return v.Key == p.name })
	if i < 0 {
		_, err = p.client.Variables.Create(p.Context(), w.ID, client.VariableCreateOptions{Key: &p.name, Value: &value,
			Category: &category})
	} else {
		_, err = p.client.Variables.Update(p.Context(), w.ID, all.Items[i].ID, client.VariableUpdateOptions{Value: &value})
	}
	if err == nil {
		p.acknowledge("variable "+w.Name+" "+p.name, p.n)
	}
	return err
}

func (p *person) setTag() error {
	w, _ := p.somewhere()
	_, err := p.client.Workspaces.AddTagBindings(p.Context(), w.ID, client.WorkspaceAddTagBindingsOptions{
		TagBindings: []*client.TagBinding{{Key: p.name, Value: strconv.Itoa(p.n)}}})
	if err == nil {
		p.acknowledge("tag "+w.Name+" "+p.name, p.n)
	}
	return err
}

// browse sends the requests of a page or of a script that reads.
func (p *person) browse() error {
	w, _ := p.somewhere()
	for _, path := range []string{
		"organizations/main/workspaces?search[name]=shared&page[size]=50&include=current_run", "workspaces/" + w.ID + "/runs",
		"workspaces/" + w.ID + "/state-versions?page[size]=5", "organizations/main/runs/queue", "organizations/main/capacity",
		"workspaces/" + w.ID + "/current-state-version-outputs", "workspaces/" + w.ID + "/all-vars",
	} {
		if _, err := p.ask(http.MethodGet, "/api/v2/"+path, ""); err != nil {
			return err
		}
	}
	return nil
}

// passing creates a workspace that nobody else uses, and deletes it.
func (p *person) passing() error {
	name := fmt.Sprintf("passing-%s-%d", p.name, p.n)
	w, err := p.client.Workspaces.Create(p.Context(), "main", client.WorkspaceCreateOptions{Name: &name})
	if err != nil {
		return err
	}
	return p.client.Workspaces.SafeDeleteByID(p.Context(), w.ID)
}

// ask sends a request with the token as a password or a bearer token, and returns the body of the response.
func (p *person) ask(method, path, body string) (string, error) {
	r, err := http.NewRequestWithContext(p.Context(), method, p.v.Address+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	if r.Header.Set("Authorization", "Bearer "+p.token); strings.HasPrefix(path, "/state/") {
		r.SetBasicAuth(p.name, p.token)
	}
	reply, err := p.http.Do(r)
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(reply.Body)
	if err == nil && reply.StatusCode >= http.StatusBadRequest {
		err = &refusal{reply.StatusCode, text.String()}
	}
	return text.String(), err
}

// refusal is the error of a response.
type refusal struct {
	code int
	text string
}

func (r *refusal) Error() string { return fmt.Sprintf("%d: %s", r.code, r.text) }

// Many people write to one service. No request fails. The service, and a backup that is made meanwhile, have all writes
// that were acknowledged before. With -lasting, the memory of the service does not grow: at first, each run that ended
// quickly left subscriptions of half a MiB.
func TestManyPeopleUseOneService(t *testing.T) {
	s := site.New(t, "")
	p := &people{T: t, v: s.Service(), half: make(chan struct{}), over: make(chan struct{}), known: map[string]int{},
		statuses: map[int]int{}, actions: map[string]int{}}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(shared(*peopleCount)), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range *peopleSpaces {
		w := p.v.Workspace(fmt.Sprintf("shared-%d", i))
		cv, err := p.v.Upload(t.Context(), w, dir)
		if err != nil {
			t.Fatal(err)
		}
		p.spaces, p.configs = append(p.spaces, w), append(p.configs, cv)
	}
	for _, name := range []string{"plain", "own"} {
		if _, err := p.v.Client.Workspaces.Create(t.Context(), "main", client.WorkspaceCreateOptions{Name: &name,
			ExecutionMode: client.String("local")}); err != nil {
			t.Fatal(err)
		}
	}
	var everybody sync.WaitGroup
	for i := range *peopleCount {
		one := p.newPerson(i)
		everybody.Go(one.work)
	}
	memory := p.watchMemory(&everybody)

	<-p.half
	before := p.acknowledged()
	file := filepath.Join(t.TempDir(), "backup.tar")
	s.Env = p.v.Environ()
	s.Must("service", "backup", "-address="+p.v.Address, "-out="+file)
	everybody.Wait()
	p.report(<-memory)
	p.check("at the end", p.acknowledged(), true)

	if err := p.v.Kill(); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	key := filepath.Join(p.v.Home, ".config", "millipede", "service.key")
	s.Must("service", "restore", "-data="+filepath.Join(home, ".local", "share", "millipede"), "-key-file="+key,
		"-in="+file)
	s.Env = nil
	p.v.Move(home, "-key-file="+key)
	p.check("in the backup", before, false)
}
