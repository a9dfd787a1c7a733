package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/state/features"
	"github.com/millipede-iac/millipede/wire"
)

func TestADirectoryIsCheckedBeforeAnUpgradeAndRaisedAfterIt(t *testing.T) {
	t.Chdir(t.TempDir())
	run := func(args ...string) (string, int) {
		var out bytes.Buffer
		a := newApp(strings.NewReader(""), &out, &out, []string{"TF_CLI_CONFIG_FILE=" + os.DevNull})
		code := a.Run(t.Context(), args)
		return strings.Join(strings.Fields(out.String()), " "), code
	}
	if err := os.WriteFile("main.tf", []byte("resource \"terraform_data\" \"a\" {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init"}, {"apply", "-auto-approve"}} {
		if got, code := run(args...); code != 0 {
			t.Fatalf("%q: %s", args, got)
		}
	}
	if got, code := run("upgrade", "check"); code != 0 || !strings.Contains(got, "Nothing stands in the way") {
		t.Errorf("checked: %q, exit status %d", got, code)
	}
	if got, code := run("upgrade", "finish"); code != 0 || !strings.Contains(got, `"default" has level 1`) {
		t.Errorf("finished: %q, exit status %d", got, code)
	}
	stores, err := filepath.Glob(".millipede/states/*/state.db")
	if err != nil || len(stores) != 1 {
		t.Fatal(stores, err)
	}
	// A program of a later version has raised the store.
	db, err := bbolt.Open(stores[0], 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		later, _ := json.Marshal(features.Record{Level: features.Newest + 1, By: "9.9.9"})
		return tx.Bucket([]byte("meta")).Put([]byte("features"), later)
	})
	if err != nil || db.Close() != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"check", "finish"} {
		if got, code := run("upgrade", command); code != 1 || !strings.Contains(got, "Millipede 9.9.9") ||
			!strings.Contains(got, "Use that") {
			t.Errorf("%s in a directory of a later version: %q, exit status %d", command, got, code)
		}
	}
}

func TestAPoolIsAnObstacleOnlyIfNoneOfItsWorkersIsSuited(t *testing.T) {
	worker := func(name, pool string, version int) wire.Worker {
		return wire.Worker{Heartbeat: wire.Heartbeat{Worker: name, Pools: []string{pool}, Protocol: version,
			Version: "1.2.3"}}
	}
	got := unsuitedPools([]wire.Worker{worker("a", "eu", 3), worker("b", "eu", wire.ProtocolVersion),
		worker("d", "us", 3), worker("c", "us", 2), worker("e", "ap", wire.ProtocolVersion)})
	if len(got) != 1 || !strings.HasPrefix(got[0], `the pool "us" would have no worker: worker c is Millipede 1.2.3`) ||
		!strings.Contains(got[0], "worker d is") {
		t.Errorf("the obstacles are %q", got)
	}
}
