//go:build unix

package hostile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// ordinary is the configuration of the n-th of a series of ordinary runs. Its objects depend on each other, so that
// their order in the log is always the same.
func ordinary(n int) string {
	return fmt.Sprintf(`
locals { names = [for i in range(200) : format("name-%%03d", i + %d)] }
resource "terraform_data" "first" { input = join(",", local.names) }
resource "terraform_data" "second" { input = md5(terraform_data.first.output) }
resource "terraform_data" "third" {
  input = { number = %d, text = upper(terraform_data.second.output) }
  provisioner "local-exec" { command = "echo provisioned" }
}
output "digest" { value = terraform_data.second.output }
`, n, n)
}

// seen is what people see of a run: how it ended, and its log without times and IDs.
type seen struct {
	status client.RunStatus
	log    string
	took   time.Duration
}

// varying are the texts of a log that differ from run to run.
var varying = regexp.MustCompile(`run-[A-Za-z0-9]{16}|id=[0-9a-f-]{36}|"[0-9a-f-]{36}"|after [0-9.]+(ms|s)`)

// series makes a series of ordinary runs in several workspaces, at the same time, and returns what is seen of each. All
// are in one process, as the hostile ones are.
func series(t *testing.T, v *site.Service, workspaces, runs int) (all [][]seen) {
	t.Helper()
	all = make([][]seen, workspaces)
	var group sync.WaitGroup
	for i := range all {
		space := v.Workspace(fmt.Sprintf("ordinary-%d", i))
		dirs := make([]string, runs)
		for n := range dirs {
			dirs[n] = t.TempDir()
			if err := os.WriteFile(filepath.Join(dirs[n], "main.tf"), []byte(ordinary(n)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		group.Go(func() {
			for _, dir := range dirs {
				began := time.Now()
				r, err := carriedOut(t.Context(), v, space, dir, false)
				if err != nil {
					t.Error(err)
					return
				}
				all[i] = append(all[i], seen{r.Status, varying.ReplaceAllString(v.Logs(r), "..."), time.Since(began)})
			}
		})
	}
	group.Wait()
	return all
}

// carriedOut makes a run with the files of a directory, which is applied unless it only plans, and waits for its end.
func carriedOut(ctx context.Context, v *site.Service, space *client.Workspace, dir string, plans bool) (*client.Run,
	error) {
	cv, err := v.Upload(ctx, space, dir)
	if err != nil {
		return nil, err
	}
	applies := !plans
	r, err := v.Client.Runs.Create(ctx, client.RunCreateOptions{Workspace: space, ConfigurationVersion: cv,
		AutoApply: &applies, PlanOnly: &plans})
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for err == nil && !site.Over(r.Status) {
		select {
		case <-again.C:
			r, err = v.Client.Runs.Read(ctx, r.ID)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return r, err
}

// hostilities makes plans of hostile configurations, one after the other, until ctx ends. It closes begun when the
// first one is to begin, and returns how many have ended.
func hostilities(ctx context.Context, t *testing.T, v *site.Service, begun chan<- struct{}) (ended int) {
	t.Helper()
	space, outside := v.Workspace("hostile"), t.TempDir()
	close(begun)
	for ctx.Err() == nil {
		for _, c := range Cases() {
			if !few[c.Name] && !c.Confined {
				continue
			}
			c.secrets(t, outside)
			dir := t.TempDir()
			c.write(t, dir)
			if _, err := carriedOut(ctx, v, space, dir, true); err != nil {
				if ctx.Err() == nil {
					t.Error(err)
				}
				return ended
			}
			ended++
		}
	}
	return ended
}

// Nobody had compared the runs beside hostile ones with those of an undisturbed service: it was only known that the
// service survives.
func TestOrdinaryRunsAreTheSameBesideHostileOnes(t *testing.T) {
	workspaces, runs := 2, 12
	if *all {
		workspaces, runs = 4, 25
	}
	start := func() *site.Service { return site.New(t, "").Service("-engines=1", "-plans=3") }
	alone := start()
	undisturbed := series(t, alone, workspaces, runs)
	if err := alone.Kill(); err != nil { // so that the two do not compete for processors
		t.Fatal(err)
	}
	v := start()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	beside, begun := make(chan int, 1), make(chan struct{})
	go func() { beside <- hostilities(ctx, t, v, begun) }()
	<-begun
	disturbed := series(t, v, workspaces, runs)
	end()
	ended := <-beside
	var sums [2]time.Duration
	for i := range undisturbed {
		for n, want := range undisturbed[i] {
			if n >= len(disturbed[i]) {
				break // its error was reported
			}
			got := disturbed[i][n]
			sums[0], sums[1] = sums[0]+want.took, sums[1]+got.took
			if want.status != client.RunApplied || got.status != want.status || got.log != want.log {
				t.Errorf("run %d of workspace %d is %s beside hostile ones, and else %s; its logs are\n%s\nand\n%s", n, i,
					got.status, want.status, got.log, want.log)
			}
		}
	}
	count := time.Duration(workspaces * runs)
	t.Logf("%d runs took %v each, and %v beside hostile plans, of which %d ended meanwhile", count,
		(sums[0] / count).Round(time.Millisecond), (sums[1] / count).Round(time.Millisecond), ended)
}
