package versions

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"golang.org/x/mod/semver"

	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/state/bolt"
	statejournal "github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
	workerjournal "github.com/millipede-iac/millipede/worker/journal"
)

var recording = flag.String("record", "", "make the directory of this version")

func TestMain(m *testing.M) {
	flag.Parse()
	if *recording != "" {
		if err := Record(context.Background(), filepath.Join("testdata", "versions", *recording)); err != nil {
			fmt.Fprintln(os.Stderr, "recording "+*recording+": "+err.Error())
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// each calls test for each recorded version, with a copy of its directory: stores are opened for writing.
func each(t *testing.T, test func(t *testing.T, dir string)) {
	t.Helper()
	dirs, err := filepath.Glob("testdata/versions/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no version is recorded: %v", err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "version")
			if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			test(t, to)
		})
	}
}

func TestTheMessagesOfEveryVersionAreRead(t *testing.T) {
	all := messages()
	each(t, func(t *testing.T, dir string) {
		files, err := os.ReadDir(filepath.Join(dir, "messages"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, f := range files {
			i := slices.IndexFunc(all, func(m message) bool { return m.name == f.Name() })
			if i < 0 {
				t.Errorf("%s was a message, and none is like it", f.Name())
				continue
			}
			data, err := os.ReadFile(filepath.Join(dir, "messages", f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			got, err := all[i].decode(data)
			if other := (*wire.VersionError)(nil); errors.As(err, &other) && other.Peer < wire.LowestVersion &&
				strings.HasPrefix(f.Name(), "task-") {
				continue // a worker leaves it to others
			}
			if err != nil || !reflect.DeepEqual(got, all[i].sample) {
				t.Errorf("%s (%s) is read as\n%+v, %v\ninstead of\n%+v", f.Name(), sum(data), got, err, all[i].sample)
			}
		}
	})
}

func TestTheNewestVersionHasEachMessage(t *testing.T) {
	dirs, _ := filepath.Glob("testdata/versions/*")
	newest := slices.MaxFunc(dirs, func(a, b string) int {
		return semver.Compare("v"+filepath.Base(a), "v"+filepath.Base(b))
	})
	for _, m := range messages() {
		if _, err := os.Stat(filepath.Join(newest, "messages", m.name)); err != nil {
			t.Errorf("%s is not recorded in %s: record it when the next version is released", m.name, newest)
		}
	}
}

func TestTheStateStoresOfEveryVersionAreRead(t *testing.T) {
	each(t, func(t *testing.T, dir string) {
		ctx := t.Context()
		s, err := bolt.OpenOptions(filepath.Join(dir, "state.db"), statejournal.LockInfo{}, 0,
			bolt.Options{NoSync: true, Program: "the present one"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		if f := s.Features(); f.Level != 1 || f.By != "" && f.By != "0.1.0" {
			t.Errorf("its level is %+v", f)
		}
		st, err := s.Load(ctx, sampleRun.Workspace)
		if err != nil {
			t.Fatal(err)
		}
		a := st.Resources[thing.Abs()].Instances[thing.Key].Current
		b := mustInstance("test_thing.b")
		doubt := st.Resources[b.Abs()].Instances[b.Key].Current.Doubt
		if string(a.Attrs) != `{"id":"i-1"}` || a.SchemaVersion != 2 || string(a.Private) != "p" ||
			!a.CreateBeforeDestroy || doubt == nil || doubt.Attempt != "attempt-2" {
			t.Errorf("its objects are %+v and %+v", a, doubt)
		}
		if o := st.Outputs["o"]; o == nil || !o.Value.RawEquals(cty.StringVal("v")) || !o.Sensitive {
			t.Errorf("its output is %+v", o)
		}
		runs, err := s.Runs(ctx, sampleRun.Workspace)
		if err != nil || len(runs) != 1 || !reflect.DeepEqual(runs[0], sampleRun) {
			t.Errorf("its runs are %+v, %v", runs, err)
		}
		events, err := s.Events(ctx, sampleRun.ID)
		if err != nil || len(events) != len(sampleEvents) {
			t.Fatal(events, err)
		}
		for i := range events {
			events[i].At = events[i].At.UTC()
		}
		if !reflect.DeepEqual(events, sampleEvents) {
			t.Errorf("its events are\n%+v\ninstead of\n%+v", events, sampleEvents)
		}
		_, saved, err := s.RunPlan(ctx, sampleRun.ID)
		if err != nil {
			t.Fatal(err)
		}
		readsPlan(t, saved)
		if v, err := s.GetValue(ctx, "durations", "k"); err != nil || string(v) != "1s" {
			t.Errorf("its value is %q, %v", v, err)
		}
		versions, err := s.Versions(ctx, sampleRun.Workspace)
		if err != nil || len(versions) != 1 || versions[0].Cause != "apply" {
			t.Errorf("its versions are %+v, %v", versions, err)
		}
	})
}

// readsPlan reads the sample of a plan.
func readsPlan(t *testing.T, data []byte) {
	t.Helper()
	want := samplePlan()
	got, err := planfile.Decode(data)
	if err != nil || got.Plan.BaseLineage != want.Plan.BaseLineage || got.Plan.BaseSerial != want.Plan.BaseSerial ||
		!got.Plan.Timestamp.Equal(want.Plan.Timestamp) || !reflect.DeepEqual(got.Config, want.Config) {
		t.Errorf("the plan is read as %+v, %v", got, err)
	}
}

func TestTheSavedPlansOfEveryVersionAreRead(t *testing.T) {
	each(t, func(t *testing.T, dir string) {
		data, err := os.ReadFile(filepath.Join(dir, "saved.plan"))
		if err != nil {
			t.Fatal(err)
		}
		readsPlan(t, data)
	})
}

func TestTheDataOfServicesOfEveryVersionIsRead(t *testing.T) {
	each(t, func(t *testing.T, dir string) {
		key, err := serviceKey()
		if err != nil {
			t.Fatal(err)
		}
		s, err := store.OpenOptions(filepath.Join(dir, "service"), key, store.Options{Program: "the present one"})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.View(func(tx *store.Tx) error {
			got, err := tables.Workspaces.Find(tx, "name", "acme", "net")
			if err == nil && !reflect.DeepEqual(*got, sampleWorkspace) {
				t.Errorf("the workspace is read as %+v", got)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		r, err := s.Read("states/sv-1")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil || string(text) != sampleFile || r.Close() != nil {
			t.Errorf("the file is read as %q, %v", text, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestTheJournalsOfWorkersOfEveryVersionAreRead(t *testing.T) {
	each(t, func(t *testing.T, dir string) {
		j, cut, err := workerjournal.Open(filepath.Join(dir, "worker"))
		if err != nil {
			t.Fatal(err)
		}
		got := j.Pending()
		if len(got) != 1 || got[0].Ref != sampleRef || got[0].Status != workerjournal.Ended || got[0].Nonce != "nonce" ||
			!strings.HasPrefix(string(got[0].Message), "result") || cut != 0 {
			t.Errorf("it has %+v; %d bytes were cut", got, cut)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
}
