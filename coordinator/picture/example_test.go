package picture

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/millipede-iac/millipede/coordinator/timeline"
)

// exampleRun is a run of n operations in ten modules on four workers of eight slots; some operations fail, are skipped,
// are in doubt, or wait.
func exampleRun(n int) *timeline.Model {
	chance := rand.New(rand.NewPCG(1, 2))
	m := &timeline.Model{Head: timeline.Head{Run: "EXAMPLE", Workspace: "default", Command: "apply", Begun: 1.7e12,
		Outcome: "failed"}}
	free := make([]int64, 32)
	ended := make([]int64, n)
	kinds := []string{"aws_subnet", "aws_instance", "aws_security_group", "aws_db_instance"}
	for i := range n {
		kind, module := kinds[i%4], fmt.Sprintf("module.area%d", i*10/n)
		v := timeline.Vertex{Number: i, Module: module, Type: kind, Action: "create", Status: timeline.Done,
			Address: fmt.Sprintf("%s.%s.x%d[%d]", module, kind, i%3, i), Pool: "eu", Attempts: 1, Attempt: "ATTEMPT"}
		ready := int64(0)
		for range chance.IntN(3) {
			if i > 40 {
				d := i - 1 - chance.IntN(40)
				v.After = append(v.After, d)
				ready = max(ready, ended[d])
			}
		}
		slot := 0
		for s := range free {
			if free[s] < free[slot] {
				slot = s
			}
		}
		v.Worker = fmt.Sprintf("worker-%d", slot/8)
		v.Ready, v.Started = ready, max(ready, free[slot])
		v.Took = 2000 + chance.Int64N(4000)
		v.Ended = v.Started + v.Took
		if v.Started > v.Ready {
			v.Waits = []timeline.Wait{{Kind: timeline.ForPermit, Name: "aws/api", From: v.Ready, To: v.Started}}
		}
		switch i % 97 {
		case 50:
			v.Status, v.Failure = timeline.Failed, "Error creating it: <b>quota</b> exceeded"
		case 51:
			v.Status, v.Because, v.Started, v.Pool, v.Worker = timeline.Skipped, m.Vertices[i-1].Address, -1, "", ""
		case 52:
			v.Status, v.Doubtful = timeline.Doubt, "worker worker-1 has not been heard of"
		}
		ended[i], free[slot] = max(v.Ended, v.Started), max(v.Ended, free[slot])
		m.Head.Now = max(m.Head.Now, ended[i])
		m.Vertices = append(m.Vertices, v)
	}
	m.Head.Ended = m.Head.Now
	recorder := timeline.NewRecorder(m.Head)
	for _, v := range m.Vertices {
		recorder.Add(v)
	}
	return recorder.Model(m.Head.Now)
}

func TestAReportOfTwoThousandIsSmall(t *testing.T) {
	parts := map[int]string{}
	for i := range 2000 {
		parts[i] = fmt.Sprintf("# aws_instance.x[%d] will be created\n+ resource \"aws_instance\" \"x\" {\n"+
			"    + ami  = \"ami-%x\"\n    + name = \"instance-%d\"\n}\n", i, i*7919, i)
	}
	path := t.TempDir() + "/report.html"
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := (&Report{Model: exampleRun(2000), Parts: parts}).Write(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", info.Size())
	if info.Size() > 1_000_000 {
		t.Errorf("the report has %d bytes", info.Size())
	}
	if to := os.Getenv("REPORT_EXAMPLE"); to != "" {
		text, _ := os.ReadFile(path)
		_ = os.WriteFile(to, text, 0o600)
	}
}
