// Package cloud keeps the objects that test providers create, one JSON file each.
//
// The file of an object is DIR/TYPE/ID.json, its form is Object. Tests may look into the directory, edit files (drift)
// and remove them (deletion out of band) at any time: providers read an object anew each time. All operations but
// ByName, IDs and All take the same time however many objects there are, and any number of processes may share a cloud.
// Two updates of one object at one time are the caller's mistake: one of them is lost.
package cloud

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Object is a thing that exists.
type Object struct {
	Type       string         `json:"type"`
	Name       string         `json:"name"`
	ID         string         `json:"id"` // the name, a dash and 12 hexadecimal digits by chance
	Region     string         `json:"region"`
	IP         string         `json:"ip"`
	Serial     int64          `json:"serial"`   // positive, below 2^31, by chance
	Revision   int64          `json:"revision"` // 1 when created, one more with each update
	Created    int64          `json:"created"`  // nanoseconds since 1970
	Updated    int64          `json:"updated"`
	Attributes map[string]any `json:"attributes"` // as JSON decodes them
}

// ErrGone says that there is no object of this type and id.
var ErrGone = errors.New("the object does not exist")

// Cloud is a directory of objects. It is safe for concurrent use.
type Cloud struct {
	dir    string
	chance io.Reader
	now    func() time.Time

	mu    sync.Mutex
	taken map[string]int // guarded by mu; how often each turn was taken, in a cloud without a directory
}

// Open returns the cloud in a directory, which is made when the first object is. An empty path gives a cloud that
// forgets: objects are created, but not kept, and Get finds none. The chance is read for
// ids and other random properties; it must be safe for concurrent use.
func Open(dir string, chance io.Reader, now func() time.Time) *Cloud {
	return &Cloud{dir: dir, chance: chance, now: now, taken: map[string]int{}}
}

// Forgets reports whether the cloud keeps nothing: objects exist in their states only, and nothing happens to them
// out of band.
func (c *Cloud) Forgets() bool { return c.dir == "" }

// Create makes an object. Nobody else can see it before it is complete.
func (c *Cloud) Create(typeName, name, region string, attributes map[string]any) (Object, error) {
	random := make([]byte, 13)
	if _, err := io.ReadFull(c.chance, random); err != nil {
		return Object{}, fmt.Errorf("choosing an id: %w", err)
	}
	now := c.now().UnixNano()
	o := Object{
		Type: typeName, Name: name, Region: region, Attributes: attributes,
		ID:       name + "-" + hex.EncodeToString(random[:6]),
		IP:       fmt.Sprintf("10.%d.%d.%d", random[6], random[7], random[8]),
		Serial:   int64(random[9]&0x7f)<<24 | int64(random[10])<<16 | int64(random[11])<<8 | int64(random[12]) | 1,
		Revision: 1,
		Created:  now,
		Updated:  now,
	}
	if c.Forgets() {
		return o, nil
	}
	return o, c.put(o)
}

// Get returns an object, or ErrGone.
func (c *Cloud) Get(typeName, id string) (Object, error) {
	if c.Forgets() {
		return Object{}, ErrGone
	}
	text, err := os.ReadFile(c.path(typeName, id))
	if errors.Is(err, fs.ErrNotExist) {
		return Object{}, ErrGone
	}
	if err != nil {
		return Object{}, fmt.Errorf("reading from the cloud: %w", err)
	}
	var o Object
	if err := json.Unmarshal(text, &o); err != nil {
		return Object{}, fmt.Errorf("reading %s %q from the cloud: %w", typeName, id, err)
	}
	return o, nil
}

// Refresh returns the present object, or ErrGone. A cloud that forgets returns the object that the caller knew last.
func (c *Cloud) Refresh(last Object) (Object, error) {
	if c.Forgets() {
		return last, nil
	}
	return c.Get(last.Type, last.ID)
}

// Update gives an object other attributes, and the next revision. If it is gone, the error is ErrGone.
func (c *Cloud) Update(last Object, attributes map[string]any) (Object, error) {
	o, err := c.Refresh(last)
	if err != nil {
		return o, err
	}
	o.Attributes, o.Revision, o.Updated = attributes, o.Revision+1, c.now().UnixNano()
	if c.Forgets() {
		return o, nil
	}
	return o, c.put(o)
}

// Delete removes an object. If it is gone already, the error is ErrGone.
func (c *Cloud) Delete(typeName, id string) error {
	if c.Forgets() {
		return nil
	}
	err := os.Remove(c.path(typeName, id))
	if errors.Is(err, fs.ErrNotExist) {
		return ErrGone
	}
	if err != nil {
		return fmt.Errorf("deleting from the cloud: %w", err)
	}
	return nil
}

// ByName returns the objects of a type that have a name, in the order of their ids. It looks through the names of
// all files of that type.
func (c *Cloud) ByName(typeName, name string) ([]Object, error) {
	all, err := c.list(typeName, func(file string) bool {
		prefix, found := strings.CutSuffix(file, ".json")
		return found && strings.HasPrefix(prefix, url.PathEscape(name)+"-")
	})
	var named []Object
	for _, o := range all {
		if o.Name == name {
			named = append(named, o)
		}
	}
	return named, err
}

// IDs returns the IDs of a type's objects whose names begin with a text, in order. It reads none of the objects.
func (c *Cloud) IDs(typeName, prefix string) ([]string, error) {
	if c.Forgets() {
		return nil, nil
	}
	entries, err := os.ReadDir(filepath.Join(c.dir, typeName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing the cloud: %w", err)
	}
	var ids []string
	for _, entry := range entries {
		id, err := url.PathUnescape(strings.TrimSuffix(entry.Name(), ".json"))
		if err == nil && !strings.HasPrefix(id, ".") && strings.HasPrefix(id, prefix) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// All returns the objects of a type in the order of their ids.
func (c *Cloud) All(typeName string) ([]Object, error) {
	return c.list(typeName, func(string) bool { return true })
}

func (c *Cloud) list(typeName string, wanted func(file string) bool) ([]Object, error) {
	if c.Forgets() {
		return nil, nil
	}
	entries, err := os.ReadDir(filepath.Join(c.dir, typeName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the cloud: %w", err)
	}
	var objects []Object
	for _, entry := range entries {
		file := entry.Name()
		if strings.HasPrefix(file, ".") || !wanted(file) {
			continue
		}
		id, err := url.PathUnescape(strings.TrimSuffix(file, ".json"))
		if err != nil {
			return nil, fmt.Errorf("listing the cloud: %w", err)
		}
		o, err := c.Get(typeName, id)
		if errors.Is(err, ErrGone) {
			continue // deleted since the directory was read
		}
		if err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// TakeTurn takes one of a number of turns, of all processes together, and reports whether there was one left. The
// caller decides about their use.
func (c *Cloud) TakeTurn(what string, turns int) (bool, error) {
	if c.Forgets() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.taken[what]++
		return c.taken[what] <= turns, nil
	}
	dir := filepath.Join(c.dir, ".turns")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, fmt.Errorf("taking a turn: %w", err)
	}
	for i := range turns {
		file, err := os.OpenFile(filepath.Join(dir, url.PathEscape(what)+"."+strconv.Itoa(i+1)),
			os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("taking a turn: %w", err)
		}
		return true, file.Close()
	}
	return false, nil
}

// put writes an object's file in one step.
func (c *Cloud) put(o Object) error {
	text, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s %q: %w", o.Type, o.ID, err)
	}
	path := c.path(o.Type, o.ID)
	unfinished := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	err = os.WriteFile(unfinished, text, 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("writing to the cloud: %w", err)
		}
		err = os.WriteFile(unfinished, text, 0o644)
	}
	if err == nil {
		err = os.Rename(unfinished, path)
	}
	if err != nil {
		return fmt.Errorf("writing to the cloud: %w", err)
	}
	return nil
}

func (c *Cloud) path(typeName, id string) string {
	return filepath.Join(c.dir, typeName, url.PathEscape(id)+".json")
}
