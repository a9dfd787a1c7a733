// Package pipelines tests the pipelines of this folder: it executes the lines of their scripts in bash, with a PATH
// that has the coordinator and nothing else. What GitHub and GitLab themselves do with the files it does not know.
package pipelines

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	yaml "github.com/zclconf/go-cty-yaml"
	"github.com/zclconf/go-cty/cty"
)

// runner executes the scripts of a pipeline in a checkout.
type runner struct {
	t       *testing.T
	bash    string
	path    string // the directory with the coordinator
	dir     string // the checkout
	env     []string
	summary string // GitHub's file
}

// bin is the directory of the coordinator, which is built once.
var bin = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "millipede-pipelines-")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", dir+"/", "../../cmd/coordinator").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the coordinator: %w\n%s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := bin(); err == nil && !testing.Short() {
		_ = os.RemoveAll(dir) // a temporary directory
	}
	os.Exit(code)
}

func newRunner(t *testing.T, configuration string) *runner {
	t.Helper()
	if testing.Short() {
		t.Skip("not in short mode: it builds the coordinator")
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash: ", err)
	}
	path, err := bin()
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{t: t, bash: bash, path: path, dir: filepath.Join(t.TempDir(), "checkout"),
		summary: filepath.Join(t.TempDir(), "summary")}
	temporary := t.TempDir()
	r.env = []string{"PATH=" + path, "HOME=" + t.TempDir(), "RUNNER_TEMP=" + temporary, "GITHUB_STEP_SUMMARY=" + r.summary,
		"CI_PROJECT_DIR=" + r.dir}
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.commit(configuration)
	return r
}

// commit changes the configuration of the checkout.
func (r *runner) commit(configuration string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, "main.tf"), []byte(configuration), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// script executes a script as a runner does, and reports whether it succeeded.
func (r *runner) script(text string, env ...string) (said string, succeeded bool) {
	r.t.Helper()
	c := exec.CommandContext(r.t.Context(), r.bash, "--noprofile", "--norc", "-eo", "pipefail", "-c", text)
	c.Dir, c.Env = r.dir, append(append([]string{}, r.env...), env...)
	out, err := c.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		r.t.Fatal(err)
	}
	if strings.Contains(string(out), "command not found") || strings.Contains(string(out), "No such file or directory") {
		r.t.Errorf("the script calls something else than the coordinator:\n%s", out)
	}
	return string(out), err == nil
}

// read reads a file of YAML.
func read(t *testing.T, path string) cty.Value {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	of, err := yaml.Standard.ImpliedType(text)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	v, err := yaml.Standard.Unmarshal(text, of)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return v
}

// github executes a job of the workflow: its steps, until one fails. It evaluates what the file uses of GitHub's
// expressions.
func (r *runner) github(event, host, token string) (said string, succeeded bool) {
	r.t.Helper()
	workflow := read(r.t, "github/millipede.yml")
	values := map[string]string{"vars.MILLIPEDE_HOST": host, "secrets.MILLIPEDE_TOKEN": token}
	var env []string
	for name, v := range workflow.GetAttr("env").AsValueMap() {
		text := regexp.MustCompile(`\$\{\{ *([^} ]*) *\}\}`).ReplaceAllStringFunc(v.AsString(), func(e string) string {
			return values[strings.Trim(e, "${ }")]
		})
		env = append(env, name+"="+text)
	}
	ran := 0
	for name, job := range workflow.GetAttr("jobs").AsValueMap() {
		condition := job.GetAttr("if").AsString()
		if condition != "github.event_name == '"+event+"'" {
			continue
		}
		ran++
		for _, step := range job.GetAttr("steps").AsValueSlice() {
			if step.Type().HasAttribute("uses") {
				if uses := step.GetAttr("uses").AsString(); !strings.HasPrefix(uses, "actions/checkout@") {
					r.t.Errorf("the job %s uses %s", name, uses)
				}
				continue
			}
			text, ok := r.script(step.GetAttr("run").AsString(), env...)
			if said += text; !ok {
				return said, false
			}
		}
	}
	if ran != 1 {
		r.t.Fatalf("%d jobs run on %s", ran, event)
	}
	return said, true
}

// gitlab executes a job of the pipeline: the lines of its script in one shell.
func (r *runner) gitlab(job string, env ...string) (said string, succeeded bool) {
	r.t.Helper()
	pipeline := read(r.t, "gitlab/.gitlab-ci.yml")
	for name, v := range pipeline.GetAttr("variables").AsValueMap() {
		env = append(env, name+"="+v.AsString())
	}
	var lines []string
	var flatten func(v cty.Value)
	flatten = func(v cty.Value) { // a script has lists in its list
		if v.Type() == cty.String {
			lines = append(lines, v.AsString())
			return
		}
		for _, e := range v.AsValueSlice() {
			flatten(e)
		}
	}
	flatten(pipeline.GetAttr(job).GetAttr("script"))
	return r.script(strings.Join(lines, "\n"), env...)
}

const (
	one   = "resource \"terraform_data\" \"a\" {\n  input = \"one\"\n}\n"
	wrong = "resource \"terraform_data\" \"a\" {\n  input = var.missing\n}\n"
)

func (r *runner) wants(text string, parts ...string) {
	r.t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			r.t.Errorf("there is no %q in:\n%s", p, text)
		}
	}
}

func TestGitHubGetsTheSummaryOfAPlanAnnotationsAndAnApply(t *testing.T) {
	r := newRunner(t, one)
	said, ok := r.github("pull_request", "", "")
	if !ok {
		t.Fatalf("the plan failed:\n%s", said)
	}
	summary, err := os.ReadFile(r.summary)
	if err != nil {
		t.Fatal(err)
	}
	r.wants(string(summary), "## Plan", "Plan: 1 to add", "terraform_data.a will be created")

	r.commit(wrong)
	if said, ok = r.github("pull_request", "", ""); ok {
		t.Error("the job of a wrong configuration succeeds")
	}
	r.wants(said, "\n::error file=main.tf,line=2::Reference to undeclared input variable\n")

	r.commit(one)
	if said, ok = r.github("push", "", ""); !ok {
		t.Errorf("the apply failed")
	}
	r.wants(said, "Apply complete! Resources: 1 added")
}

func TestGitLabGetsTheNumbersOfAPlanAndAnApply(t *testing.T) {
	r := newRunner(t, one)
	if said, ok := r.gitlab("plan"); !ok {
		t.Fatalf("the plan failed:\n%s", said)
	}
	numbers, err := os.ReadFile(filepath.Join(r.dir, "tfplan.json"))
	if err != nil || string(numbers) != "{\"create\":1,\"update\":0,\"delete\":0}\n" {
		t.Errorf("the numbers are %q, %v", numbers, err)
	}
	said, ok := r.gitlab("apply")
	if !ok {
		t.Error("the apply failed")
	}
	r.wants(said, "Apply complete! Resources: 1 added")
	r.commit(wrong)
	if said, ok := r.gitlab("plan"); ok {
		t.Errorf("the job of a wrong configuration succeeds:\n%s", said)
	}
}

func TestBothUseAService(t *testing.T) {
	first := newRunner(t, "")
	host, token, authority := service(t, first.path)
	for name, pipeline := range map[string]struct {
		plan, apply func(r *runner) (string, bool)
	}{
		"github": {
			func(r *runner) (string, bool) { return r.github("pull_request", host, token) },
			func(r *runner) (string, bool) { return r.github("push", host, token) },
		},
		"gitlab": {
			func(r *runner) (string, bool) {
				return r.gitlab("plan", "MILLIPEDE_HOST="+host, "MILLIPEDE_TOKEN="+token)
			},
			func(r *runner) (string, bool) {
				return r.gitlab("apply", "MILLIPEDE_HOST="+host, "MILLIPEDE_TOKEN="+token)
			},
		},
	} {
		r := newRunner(t, fmt.Sprintf("terraform {\n  cloud {\n    hostname     = %q\n    organization = \"main\"\n    "+
			"workspaces { name = %q }\n  }\n}\n", host, name)+one)
		r.env = append(r.env, "SSL_CERT_FILE="+authority)
		said, ok := pipeline.plan(r)
		if !ok {
			t.Fatalf("%s: the plan failed:\n%s", name, said)
		}
		r.wants(said, "1 to add")
		if said, ok = pipeline.apply(r); !ok {
			t.Fatalf("%s: the apply failed:\n%s", name, said)
		}
		r.wants(said, "1 added")
	}
}

// service starts a service, and returns its host, the administrator's token and the file of its authority.
func service(t *testing.T, path string) (host, token, authority string) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	var mu sync.Mutex
	var said bytes.Buffer
	c := exec.Command(filepath.Join(path, "coordinator"), "serve", "-listen=127.0.0.1:0", "-data="+data,
		"-key-file="+filepath.Join(t.TempDir(), "key"), "-engines=1")
	c.Env = []string{"HOME=" + t.TempDir(), "PATH=" + path}
	w := writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return said.Write(p)
	})
	c.Stdout, c.Stderr = w, w
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt) // it may have ended
		_ = c.Wait()
		if t.Failed() {
			t.Logf("the service said:\n%s", said.String())
		}
	})
	for began := time.Now(); time.Since(began) < 2*time.Minute; {
		mu.Lock()
		found := regexp.MustCompile(`tofu login (\S+)`).FindStringSubmatch(said.String())
		mu.Unlock()
		if found != nil {
			text, err := os.ReadFile(filepath.Join(data, "admin.token"))
			if err != nil {
				t.Fatal(err)
			}
			return found[1], strings.TrimSpace(string(text)), filepath.Join(data, "tls", "ca.pem")
		}
		select {
		case <-t.Context().Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatal("the service does not start")
	return "", "", ""
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
