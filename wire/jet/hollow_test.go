package jet_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millipede-iac/millipede/test/stage/proxy"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
)

// The server's power failed after it had stored the parts of a blob and before it acknowledged the description. The
// client removed the parts, but the description was stored: the blob seemed to exist, but no worker could fetch it.
func TestABlobThatLostItsPartsIsStoredAgain(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e := embed(t, t.TempDir())
	t.Cleanup(func() { closeAll(t, e) })
	c := must(e.Connect(ctx, jet.Options{}))(t)
	t.Cleanup(func() { closeAll(t, c) })
	data := bytes.Repeat([]byte("x"), 1<<20)
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	bucket := func() jetstream.Stream {
		return must(c.JetStream().(jetstream.JetStream).Stream(ctx, "OBJ_BLOB"))(t)
	}
	for _, lose := range []string{"all", "one"} {
		if err := errors.Join(c.PutBlob(ctx, name, data), c.NameBlob(ctx, "n", name)); err != nil {
			t.Fatal(err)
		}
		for _, object := range []string{name, "name/n"} {
			meta := must(bucket().GetLastMsgForSubject(ctx, "$O.BLOB.M."+
				base64.URLEncoding.EncodeToString([]byte(object))))(t)
			info := new(jetstream.ObjectInfo)
			if err := json.Unmarshal(meta.Data, info); err != nil {
				t.Fatal(err)
			}
			var keep []jetstream.StreamPurgeOpt
			if lose == "one" && info.Chunks > 1 {
				keep = append(keep, jetstream.WithPurgeKeep(uint64(info.Chunks)-1))
			}
			if err := bucket().Purge(ctx, append(keep, jetstream.WithPurgeSubject("$O.BLOB.C."+info.NUID))...); err != nil {
				t.Fatal(err)
			}
		}
		if there, err := c.HasBlob(ctx, name); err != nil || there {
			t.Errorf("with %s of its parts lost, the blob exists: %t, %v", lose, there, err)
		}
		if _, err := c.LookupBlob(ctx, "n"); !errors.Is(err, wire.ErrNotFound) {
			t.Errorf("with %s of its parts lost, looking up its name: %v", lose, err)
		}
		if _, err := c.GetBlob(ctx, name); lose == "all" && !errors.Is(err, wire.ErrNotFound) {
			t.Errorf("with %s of its parts lost, fetching it: %v", lose, err)
		}
		if err := errors.Join(c.PutBlob(ctx, name, data), c.NameBlob(ctx, "n", name)); err != nil {
			t.Fatal(err)
		}
		if got, err := c.GetBlob(ctx, name); err != nil || !bytes.Equal(got, data) {
			t.Errorf("after it was stored again, the blob has %d bytes, %v", len(got), err)
		}
		if got, err := c.LookupBlob(ctx, "n"); err != nil || got != name {
			t.Errorf("after it was named again, the name refers to %q, %v", got, err)
		}
	}
}

// slow connects through a proxy that the test can hold for longer than a request may take, and directly.
func slow(t *testing.T) (c *jet.Conn, hold func() (mended chan struct{}), direct *jet.Conn) {
	t.Helper()
	const timeout = time.Second
	url := listen(t)
	p := must(proxy.Start(strings.TrimPrefix(url, "nats://")))(t)
	t.Cleanup(func() { closeAll(t, p) })
	o := jet.Options{URL: url, User: "coordinator", Password: "c", Provision: true, Log: logTo(t)}
	direct = must(jet.Connect(t.Context(), o))(t)
	o.URL, o.Timeout = "nats://"+p.Address(), timeout
	c = must(jet.Connect(t.Context(), o))(t)
	t.Cleanup(func() { closeAll(t, c, direct) })
	return c, func() chan struct{} {
		p.Hold()
		mended := make(chan struct{})
		time.AfterFunc(timeout*6/5, func() {
			p.Mend()
			close(mended)
		})
		return mended
	}, direct
}

// A server on a busy machine did not acknowledge the name of a provider package in time. The run that stored it failed,
// and so did another, because the name had been stored without its part.
func TestABlobIsPublishedAgainWhenItsAcknowledgmentIsLate(t *testing.T) {
	ctx := t.Context() // with a deadline, the client would wait for it
	c, hold, _ := slow(t)
	if err := c.NameBlob(ctx, "first", "sum"); err != nil { // which creates the bucket
		t.Fatal(err)
	}
	for i := range 4 { // the first is held at its first request, the others at a later one, or not at all
		name := fmt.Sprint("n", i)
		ended := make(chan error, 1)
		go func() { ended <- c.NameBlob(ctx, name, "sum") }()
		for range i * 400 {
			runtime.Gosched()
		}
		mended := hold()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		<-mended
		if sum, err := c.LookupBlob(ctx, name); err != nil || sum != "sum" {
			t.Errorf("the name refers to %q, %v", sum, err)
		}
	}
}

// A batch of parts had to arrive within the time-out as a whole: a line with less than 0.8 MB/s could not fetch
// provider packages at all, and a busy server failed a run.
func TestABlobIsReadOnWhereTheLineWasSlow(t *testing.T) {
	c, hold, direct := slow(t)
	data := bytes.Repeat([]byte("x"), 6<<20)
	hash := sha256.Sum256(data)
	sum := hex.EncodeToString(hash[:])
	if err := direct.PutBlob(t.Context(), sum, data); err != nil {
		t.Fatal(err)
	}
	var mended chan struct{}
	got, err := c.GetBlobIf(t.Context(), sum, func(int64) error {
		mended = hold()
		return nil
	})
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d of %d bytes of the blob were fetched: %v", len(got), len(data), err)
	}
	select {
	case <-mended:
	default:
		t.Error("the blob was fetched over a link that transmits nothing")
	}
}

// Two coordinators shared a provider package at the same time. One of them replaced the name that the other had stored,
// and a worker that was just reading the old entry got the error that the name does not exist.
func TestANameThatIsStoredAgainWhileItIsReadIsFound(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e := embed(t, t.TempDir())
	t.Cleanup(func() { closeAll(t, e) })
	c := must(e.Connect(ctx, jet.Options{}))(t)
	t.Cleanup(func() { closeAll(t, c) })
	data := []byte("package")
	hash := sha256.Sum256(data)
	sum := hex.EncodeToString(hash[:])
	if err := errors.Join(c.PutBlob(ctx, sum, data), c.NameBlob(ctx, "n", sum)); err != nil {
		t.Fatal(err)
	}
	store := must(c.JetStream().(jetstream.JetStream).ObjectStore(ctx, "BLOB"))(t)
	times := 0
	got, err := c.GetBlobIf(ctx, sum, func(int64) error {
		if times++; times > 1 {
			return nil
		}
		_, err := store.PutBytes(ctx, sum, data) // which removes the part that is about to be read
		return err
	})
	if err != nil || !bytes.Equal(got, data) || times != 2 {
		t.Errorf("the name refers to %q after %d lookups, %v", got, times, err)
	}
	before := must(store.GetInfo(ctx, "name/n"))(t)
	if err := c.NameBlob(ctx, "n", sum); err != nil {
		t.Fatal(err)
	}
	if now := must(store.GetInfo(ctx, "name/n"))(t); now.NUID != before.NUID {
		t.Error("the same name was stored again")
	}
	if err := c.NameBlob(ctx, "n", strings.Repeat("0", 64)); err != nil {
		t.Fatal(err)
	}
	if now, err := c.LookupBlob(ctx, "n"); err != nil || now != strings.Repeat("0", 64) {
		t.Errorf("the other name refers to %q, %v", now, err)
	}
}
