package serving

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/state/log"
	"github.com/millipede-iac/millipede/state/recorded"
	"github.com/millipede-iac/millipede/state/seal"
	"github.com/millipede-iac/millipede/wire/jet"
)

// Remaking says how the log of a group is made from the data in a directory. No member runs.
type Remaking struct {
	Options // Group, Member, Data, KeyFile, Connector and Log
	// Recover goes on with the copies of a member whose group has lost its log, or the end of it: what is left of the log
	// is removed, and runs that had not ended are settled as after the restore of a backup. Otherwise the data are those
	// of a single service, and there must be no log.
	Recover bool
	// Tell gets what is done, and what is missing.
	Tell func(line string)
}

// remaking is one time of it.
type remaking struct {
	Remaking
	group *groupLog
	key   *seal.Key
	now   time.Time
}

// Remake makes the log of a group anew. It can be repeated after an error or a crash, which leave the data as they
// were.
func Remake(ctx context.Context, o Remaking) (err error) {
	if _, err := os.Stat(o.KeyFile); err != nil {
		return err // a new key could not open the data
	}
	secret, err := serviceSecret(o.KeyFile)
	if err != nil {
		return err
	}
	r := &remaking{Remaking: o, now: time.Now()}
	if r.key, err = seal.NewKey(secret); err != nil {
		return err
	}
	r.group = &groupLog{name: o.Group, member: o.Member, data: o.Data, secret: secret, boot: log.ThisBoot(),
		tell: o.Tell}
	if err := r.admissible(); err != nil {
		return err
	}
	if r.group.conn, err = connectGroup(ctx, &o.Options); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.group.close()) }()
	return r.remake(ctx)
}

// admissible checks what the directory has.
func (r *remaking) admissible() error {
	known, err := r.group.readMark()
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(r.Data, store.Database)); err != nil {
		return fmt.Errorf("the directory %s has no records of a service: %w", r.Data, err)
	}
	m := r.group.mark
	switch {
	case known && m.Group != r.Group:
		return fmt.Errorf("the directory %s has the data of the group %q", r.Data, m.Group)
	case r.Recover && !known:
		return fmt.Errorf("the directory %s has the data of a single service, and not of a member of a group", r.Data)
	case !r.Recover && known && !m.Remaking:
		return fmt.Errorf("the directory %s has the data of the group %q already", r.Data, m.Group)
	}
	return nil
}

func (r *remaking) remake(ctx context.Context) error {
	logs := r.group.conn.GroupLogs()
	before, err := logs.Open(ctx, r.Group)
	switch {
	case errors.Is(err, jet.ErrNoGroup):
	case r.Recover && err == nil:
		r.rescue(ctx, before)
	case err == nil && r.group.mark.Remaking && before.Incarnation().String() == r.group.mark.Incarnation:
	case err == nil:
		return fmt.Errorf("group %q: %w: choose another name", r.Group, jet.ErrGroupExists)
	default:
		return err
	}
	var incarnation log.ID
	_, _ = rand.Read(incarnation[:]) // never fails
	r.group.mark = groupMark{Group: r.Group, Incarnation: incarnation.String(), Remaking: true}
	if err := r.group.writeMark(); err != nil {
		return err
	}
	if err := logs.Remove(ctx, r.Group); err != nil {
		return err
	}
	if r.group.log, err = logs.Create(ctx, r.Group, incarnation, logBytes); err != nil {
		return err
	}
	if err := r.fill(ctx); err != nil {
		return err
	}
	r.group.mark.Made, r.group.mark.Remaking = true, false
	return r.group.writeMark()
}

// fill puts the stores and the files into the new log; the records last, which say what there is.
func (r *remaking) fill(ctx context.Context) error {
	names, err := r.stores()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := r.adopt(ctx, name, nil); err != nil {
			return err
		}
	}
	files, err := r.files()
	if err != nil {
		return err
	}
	for _, name := range files {
		if err := r.group.files(1).Keep(ctx, name, filepath.Join(r.Data, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	r.Tell(fmt.Sprintf("The log has %d stores of workspaces, and %d files.", len(names), len(files)))
	return r.adopt(ctx, recordsStore, func(tx *recorded.Tx) error { return r.settle(store.Over(tx, r.key), names) })
}

// adopt takes a store over.
func (r *remaking) adopt(ctx context.Context, name string, change func(*recorded.Tx) error) error {
	a, err := r.group.access(name, true)
	if err != nil {
		return err
	}
	o, err := a.options(r.group.log, r.group.tell)
	if err != nil {
		return err
	}
	path := filepath.Join(r.Data, filepath.FromSlash(name))
	if name == recordsStore {
		path = filepath.Join(r.Data, store.Database)
	}
	return log.Adopt(ctx, path, o, change)
}

// settle has the records name the stores that the log has, and, if the end of the log was lost, settles runs.
func (r *remaking) settle(tx *store.Tx, names []string) error {
	var lost []string
	for s, err := range tables.LogStores.All(tx) {
		if err != nil {
			return err
		}
		if s.Made && !slices.Contains(names, s.Name) {
			lost = append(lost, s.Name)
		}
	}
	for _, name := range lost {
		r.Tell("This directory has no copy of the store " + name + ", which begins anew: the journals of its runs are lost.")
		if err := tables.LogStores.Delete(tx, name); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := tables.LogStores.Put(tx, &record.LogStore{Name: name, Made: true}); err != nil {
			return err
		}
	}
	if !r.Recover {
		return nil
	}
	return tx.MarkRestored(r.now)
}

// stores returns the names of the stores of workspaces in the directory.
func (r *remaking) stores() (names []string, err error) {
	err = filepath.WalkDir(filepath.Join(r.Data, "workspaces"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), store.RemovedHome) {
			return filepath.SkipDir // of a workspace that is being removed
		}
		if errors.Is(err, fs.ErrNotExist) || err == nil && d.Name() != "state.db" {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(r.Data, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	return names, err
}

// files returns the names of the files that members keep beside the log.
func (r *remaking) files() (names []string, err error) {
	for _, dir := range append(slices.Clone(cached), "tls") {
		err := filepath.WalkDir(filepath.Join(r.Data, dir), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || err == nil && (d.IsDir() || derived(d.Name())) {
				return nil
			}
			if err != nil {
				return err
			}
			name, err := filepath.Rel(r.Data, path)
			names = append(names, filepath.ToSlash(name))
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

// derived reports whether a file can be made again, so that it is not kept.
func derived(name string) bool {
	return strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".redacted") || strings.HasSuffix(name, ".outline")
}

// rescue fetches what the log that is given up still has, and this directory lacks: newer entries of its stores, and
// files. What cannot be fetched is lost.
func (r *remaking) rescue(ctx context.Context, before *jet.GroupLog) {
	if before.Incarnation().String() != r.group.mark.Incarnation {
		r.Tell("Nothing of the log that is left can be used.")
		return
	}
	r.group.log = before
	names := []string{recordsStore}
	if stored, err := r.known(); err == nil {
		names = append(names, stored...)
	}
	for _, name := range names {
		path := filepath.Join(r.Data, filepath.FromSlash(name))
		if name == recordsStore {
			path = filepath.Join(r.Data, store.Database)
		}
		if err := r.follow(ctx, name, path); err != nil {
			r.Tell(fmt.Sprintf("The store %s stays as this directory has it: %s.", name, err))
		}
	}
	files, err := r.group.files(0).Names(ctx)
	for _, name := range files {
		path := filepath.Join(r.Data, filepath.FromSlash(name))
		if _, there := os.Stat(path); there == nil {
			continue
		}
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), r.group.files(0).Fetch(ctx, name, path))
	}
	if err != nil {
		r.Tell(fmt.Sprintf("Files could not be fetched: %s.", err))
	}
}

// follow brings a copy up to the end of the log that is given up. A log that has lost its end does not continue the
// copy, which then stays.
func (r *remaking) follow(ctx context.Context, name, path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return r.group.follow(ctx, name, path)
	}
	a, err := r.group.access(name, false)
	if err != nil {
		return err
	}
	o, err := a.options(r.group.log, r.group.tell)
	if err != nil {
		return err
	}
	c, err := log.OpenCopy(path, o)
	if err != nil {
		return err
	}
	applied, followed := c.Continues(ctx)
	for applied && followed == nil {
		applied, followed = c.Step(ctx, 0)
	}
	return errors.Join(followed, c.Close())
}

// known returns the stores of workspaces that the records of the directory name.
func (r *remaking) known() (names []string, err error) {
	err = log.View(filepath.Join(r.Data, store.Database), func(tx *recorded.Tx) error {
		for s, err := range tables.LogStores.All(store.Over(tx, r.key)) {
			if err != nil {
				return err
			}
			if s.Made {
				names = append(names, s.Name)
			}
		}
		return nil
	})
	return names, err
}
