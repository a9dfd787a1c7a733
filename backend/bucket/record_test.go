package bucket_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/backendtest"
	"github.com/millipede-iac/millipede/backend/bucket"
	"github.com/millipede-iac/millipede/state/journal"
)

// tableRows are rows in memory: objects named KEY#COLUMN.
type tableRows struct{ *memory }

func (r tableRows) Get(ctx context.Context, key, column string) (string, error) {
	value, err := r.memory.Get(ctx, key+"#"+column)
	return string(value), err
}

func (r tableRows) Put(ctx context.Context, key, column, value string) error {
	return r.memory.Put(ctx, key+"#"+column, []byte(value))
}

func (r tableRows) Create(_ context.Context, key, column, value string) error {
	r.request("create", key+"#"+column)
	return r.create(key+"#"+column, []byte(value))
}

func (r tableRows) Delete(ctx context.Context, key string) error {
	for _, column := range []string{"Info", "Digest"} {
		if err := r.memory.Delete(ctx, key+"#"+column); err != nil {
			return err
		}
	}
	return nil
}

func (r tableRows) DeleteValue(ctx context.Context, key, column, value string) error {
	r.request("compare", key+"#"+column)
	if now, _ := r.Get(ctx, key, column); now != value {
		return bucket.ErrChanged
	}
	return r.Delete(ctx, key)
}

const (
	lockRow   = "states/key#Info"
	digestRow = "states/key-md5#Digest"
)

func locked() (s *bucket.Store, objects, rows *memory) {
	objects, rows = newMemory(), newMemory()
	return stores["a store that does not, with a table"](objects, rows), objects, rows
}

func TestATableHasTheRowsOfOpenTofu(t *testing.T) {
	s, _, rows := locked()
	_, err := s.Lock(t.Context(), "default", backendtest.Info("i", "OperationTypeApply"))
	ok(t, err)
	is(t, string(rows.objects[lockRow]), `{"ID":"i","Operation":"OperationTypeApply","Info":"","Who":"me@here",`+
		`"Version":"1.12.6","Created":"2026-11-22T04:54:54.319205105Z","Path":"states/key"}`)
	ok(t, s.Write(t.Context(), "default", []byte("{}\n")))
	is(t, string(rows.objects[digestRow]), "8a80554c91d9fca8acb82f023de02f11")
	ok(t, s.Close())
}

func TestALockIsRefusedWithWhatIsKnownOfItsHolder(t *testing.T) {
	for claim, c := range map[string]struct {
		record string
		holder string // empty if there is an error instead
		want   string // in the error
	}{
		"somebody's":     {record: string(backend.EncodeLock(backendtest.Info("theirs", "OperationTypePlan"))), holder: "theirs"},
		"unreadable one": {record: "?", want: "the holder of the lock cannot be read"},
	} {
		t.Run(claim, func(t *testing.T) {
			s, _, rows := locked()
			rows.set(lockRow, []byte(c.record))
			_, err := s.Lock(t.Context(), "default", backendtest.Info("mine", "OperationTypeApply"))
			var held *journal.Held
			switch {
			case c.holder == "" && (errors.As(err, &held) || err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("the error is %v, want one with %q", err, c.want)
			case c.holder != "" && (!errors.As(err, &held) || held.Holder.ID != c.holder):
				t.Errorf("the error is %v, want the holder %q", err, c.holder)
			}
			is(t, string(rows.objects[lockRow]), c.record)
		})
	}
}

func TestALockThatGoesWhileItsHolderIsAskedForIsStillRefused(t *testing.T) {
	s, _, rows := locked()
	rows.set(lockRow, backend.EncodeLock(backendtest.Info("theirs", "OperationTypePlan")))
	rows.before = func(request, object string) {
		if request == "get" {
			rows.mu.Lock()
			defer rows.mu.Unlock()
			delete(rows.objects, object)
		}
	}
	_, err := s.Lock(t.Context(), "default", backendtest.Info("mine", "OperationTypeApply"))
	var held *journal.Held
	if !errors.As(err, &held) || held.Holder.ID != "" || held.Holder.Path != "states/key" {
		t.Errorf("the error is %v", err)
	}
}

// The response to a lock request was lost, and the request repeated: the condition then failed because of the process's
// own lock, and the command failed and left the lock behind.
func TestALockWhoseAnswerWasLostIsOurs(t *testing.T) {
	s, _, _ := locked()
	for range 2 {
		lock, err := s.Lock(t.Context(), "default", backendtest.Info("1", "OperationTypeApply"))
		ok(t, err)
		is(t, lock.ID, "1")
	}
	ok(t, s.Unlock(t.Context(), "default", "1"))
}

func TestALockThatChangesWhileItIsReleasedIsKept(t *testing.T) {
	s, _, rows := locked()
	_, err := s.Lock(t.Context(), "default", backendtest.Info("1", "OperationTypeApply"))
	ok(t, err)
	theirs := backend.EncodeLock(backendtest.Info("2", "OperationTypePlan"))
	rows.before = func(request, _ string) {
		if request == "compare" {
			rows.set(lockRow, theirs)
		}
	}
	err = s.Unlock(t.Context(), "default", "1")
	if !errors.Is(err, backend.ErrNotLocked) || !strings.Contains(err.Error(), "in the meantime") {
		t.Errorf("the error is %v", err)
	}
	is(t, string(rows.objects[lockRow]), string(theirs))
}

func TestALockThatWasStolenIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, record := range [][]byte{nil, backend.EncodeLock(backendtest.Info("2", "OperationTypePlan"))} {
			s, _, rows := locked()
			lock, err := s.Lock(t.Context(), "default", backendtest.Info("1", "OperationTypeApply"))
			ok(t, err)
			held, err := lock.Held(t.Context())
			ok(t, err)
			is(t, held, true)
			rows.set(lockRow, record)
			<-lock.Lost
			ok(t, s.Close())
		}
	})
}

func TestAStateIsReadAgainUntilItMatchesItsDigest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, objects, _ := locked()
		ok(t, s.Write(t.Context(), "default", []byte("new")))
		objects.set("key", []byte("old"))
		begun, reads := time.Now(), 0
		objects.before = func(request, _ string) {
			if reads++; request == "get" && reads == 3 {
				objects.set("key", []byte("new"))
			}
		}
		data, err := s.Read(t.Context(), "default")
		ok(t, err)
		is(t, string(data), "new")
		is(t, time.Since(begun), 4*time.Second)
	})
}

func TestAStateThatNeverMatchesItsDigestIsRefusedAfterTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, objects, _ := locked()
		ok(t, s.Write(t.Context(), "default", []byte("{}\n")))
		objects.set("key", []byte("another"))
		begun := time.Now()
		_, err := s.Read(t.Context(), "default")
		if err == nil || !strings.Contains(err.Error(), "8a80554c91d9fca8acb82f023de02f11") ||
			!strings.Contains(err.Error(), `"states/key-md5"`) {
			t.Errorf("the error is %v", err)
		}
		is(t, time.Since(begun), 10*time.Second)
	})
}

func TestReadingEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, objects, _ := locked()
		ok(t, s.Write(t.Context(), "default", []byte("{}\n")))
		objects.set("key", []byte("another"))
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		objects.before = func(string, string) { cancel(why) }
		if _, err := s.Read(ctx, "default"); !errors.Is(err, why) {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestAStateWithoutADigestIsRead(t *testing.T) {
	s, objects, _ := locked()
	objects.set("key", []byte("{}\n"))
	data, err := s.Read(t.Context(), "default")
	ok(t, err)
	is(t, string(data), "{}\n")
}
