package operation_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/config"
	statemem "github.com/millipede-iac/millipede/state/mem"
)

// Plugins and provisioners had the environment of their worker's process, so two operations on one worker could not
// have different credentials.
func TestEachOperationOnAWorkerSeesItsOwnEnvironment(t *testing.T) {
	e := newEstate(t)
	const operations = 6
	dirs := make([]string, operations)
	var all sync.WaitGroup
	for i := range operations {
		dir := t.TempDir()
		dirs[i] = dir
		e.check(os.WriteFile(filepath.Join(dir, "main.tf"), []byte(`
resource "terraform_data" "a" {
  count = 3
  provisioner "local-exec" {
    command = "echo \"$AWS_PROFILE $HOME\" > seen${count.index}"
  }
}
`), 0o600))
		prior, err := e.store.Load(t.Context(), "default")
		e.check(err)
		tree, diags := config.NewLoader(config.OS{Base: dir}).LoadTree(config.TreeOptions{Locator: beside{}, Base: dir})
		e.clean(diags)
		s := e.session
		s.Tree, s.Dir, s.Cwd, s.Store = tree, dir, "", statemem.New(statemem.Options{})
		env := environ.Variables{fmt.Sprintf("AWS_PROFILE=team-%d", i), "PATH=" + os.Getenv("PATH")}
		s.Environment = operation.NewEnvironment(env, true)
		all.Go(func() {
			planned, diags := s.Plan(t.Context(), prior, plan.Options{})
			if diags.HasErrors() {
				t.Error(diags.Err())
				return
			}
			if _, diags = s.Apply(t.Context(), operation.ApplyOptions{Plan: planned.Plan}); diags.HasErrors() {
				t.Error(diags.Err())
			}
			if err := s.Environment.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i, dir := range dirs {
		for n := range 3 {
			text, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("seen%d", n)))
			if want := fmt.Sprintf("team-%d \n", i); err != nil || string(text) != want {
				t.Errorf("operation %d, command %d: the environment has %q, %v", i, n, text, err)
			}
		}
	}
}
