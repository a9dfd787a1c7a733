// Package consul is a fake of a Consul agent for clients that store states: keys, transactions and sessions.
//
// It implements compare-and-set, locks of sessions, the TTL of a session (which ends after twice that time), the lock
// delay after the end of a session, blocking queries, and the limits of sizes. It is written from Consul's public
// documentation and from the calls of its Go client.
package consul

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millipede-iac/millipede/test/stage/clouds/faults"
)

// Limit is the maximum size of a value, and of the body of a transaction, in bytes.
const Limit = 512 << 10

// Pair is a key with its value, as the API shows it.
type Pair struct {
	LockIndex   uint64
	Key         string
	Flags       uint64
	Value       []byte
	Session     string `json:",omitempty"`
	CreateIndex uint64
	ModifyIndex uint64
}

type session struct {
	ID, Name, TTL string
	Behavior      string
	LockDelay     time.Duration
	ttl           time.Duration
	ends          time.Time
}

// Agent is the fake agent, an http.Handler. New makes a usable one.
type Agent struct {
	// Token, if it is not empty, is the token that each request must have. It must be set before the first request.
	Token string
	// Faults are injected into the requests to the agent that Serve starts.
	Faults faults.Faults

	mu       sync.Mutex // guards the fields below
	index    uint64
	pairs    map[string]*Pair
	removed  map[string]uint64 // by key: the index of its deletion
	sessions map[string]*session
	delays   map[string]time.Time // by key: the time until which nobody can acquire its lock
	changed  chan struct{}        // closed and replaced at each change
	requests []string
	failures []int
}

// New returns an agent without keys.
func New() *Agent {
	return &Agent{
		index: 1, pairs: map[string]*Pair{}, removed: map[string]uint64{}, sessions: map[string]*session{},
		delays: map[string]time.Time{}, changed: make(chan struct{}),
	}
}

// Serve starts a server with a new agent. It is closed at the end of the test.
func Serve(t testing.TB) (*Agent, *httptest.Server) {
	a := New()
	s := httptest.NewServer(a.Faults.Before(a))
	t.Cleanup(s.Close)
	return a, s
}

// Keys returns all keys, sorted.
func (a *Agent) Keys() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	keys := []string{}
	for k := range a.pairs {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Get returns the pair of a key, or the zero Pair if the key does not exist.
func (a *Agent) Get(key string) Pair {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.pairs[key]; p != nil {
		return *p
	}
	return Pair{}
}

// Put writes a key, like another client.
func (a *Agent) Put(key string, value []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.set(key, value, 0)
}

// Sessions returns the number of sessions.
func (a *Agent) Sessions() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire()
	return len(a.sessions)
}

// Destroy ends a session, as an administrator would.
func (a *Agent) Destroy(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end(id)
}

// Requests returns the requests until now, as "METHOD PATH".
func (a *Agent) Requests() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

// Fail sets the statuses of the next responses. A request with the status 0 is executed. A request with a negative
// status is executed, but its response is lost and replaced with the absolute value.
func (a *Agent) Fail(statuses ...int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures = statuses
}

// ServeHTTP implements http.Handler.
func (a *Agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = append(a.requests, r.Method+" "+r.URL.Path)
	a.expire()
	if len(a.failures) > 0 {
		status := a.failures[0]
		a.failures = a.failures[1:]
		if status > 0 {
			http.Error(w, "rpc error: No cluster leader", status)
			return
		}
		if status < 0 {
			answer := w
			w = httptest.NewRecorder()
			defer http.Error(answer, "rpc error: the answer was lost", -status)
		}
	}
	if a.Token != "" && r.Header.Get("X-Consul-Token") != a.Token {
		http.Error(w, "Permission denied", http.StatusForbidden)
		return
	}
	if len(body) > Limit {
		http.Error(w, fmt.Sprintf("Request body(%d bytes) too large, max size: %d bytes.", len(body), Limit),
			http.StatusRequestEntityTooLarge)
		return
	}
	switch path := r.URL.Path; {
	case strings.HasPrefix(path, "/v1/kv/"):
		a.kv(w, r, strings.TrimPrefix(path, "/v1/kv/"), body)
	case path == "/v1/txn" && r.Method == http.MethodPut:
		a.txn(w, body)
	case path == "/v1/session/create" && r.Method == http.MethodPut:
		a.create(w, body)
	case strings.HasPrefix(path, "/v1/session/renew/") && r.Method == http.MethodPut:
		s := a.sessions[strings.TrimPrefix(path, "/v1/session/renew/")]
		if s == nil {
			http.Error(w, "Session id not found", http.StatusNotFound)
			return
		}
		s.ends = time.Now().Add(2 * s.ttl)
		answer(w, []*session{s})
	case strings.HasPrefix(path, "/v1/session/destroy/") && r.Method == http.MethodPut:
		a.end(strings.TrimPrefix(path, "/v1/session/destroy/"))
		answer(w, true)
	default:
		http.Error(w, "the fake does not know this call", http.StatusNotImplemented)
	}
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // an error means that the client has closed the connection
}

// create creates a session.
func (a *Agent) create(w http.ResponseWriter, body []byte) {
	var in struct{ Name, TTL, LockDelay, Behavior string }
	if err := json.Unmarshal(body, &in); err != nil {
		http.Error(w, "Request decode failed: "+err.Error(), http.StatusBadRequest)
		return
	}
	ttl, err := time.ParseDuration(in.TTL)
	if err != nil || ttl < 10*time.Second || ttl > 24*time.Hour {
		http.Error(w, "Invalid Session TTL '"+in.TTL+"', must be between [10s=24h0m0s]", http.StatusBadRequest)
		return
	}
	delay, err := time.ParseDuration(in.LockDelay)
	if err != nil || in.Behavior != "" && in.Behavior != "release" && in.Behavior != "delete" {
		http.Error(w, "Request decode failed", http.StatusBadRequest)
		return
	}
	s := &session{
		ID: uuid.NewString(), Name: in.Name, TTL: in.TTL, Behavior: in.Behavior, LockDelay: delay,
		ttl: ttl, ends: time.Now().Add(2 * ttl),
	}
	a.sessions[s.ID] = s
	answer(w, map[string]string{"ID": s.ID})
}

// expire ends the sessions that were not renewed for twice their TTL.
func (a *Agent) expire() {
	for id, s := range a.sessions {
		if !time.Now().Before(s.ends) {
			a.end(id)
		}
	}
}

// end ends a session: its locks are released, or their keys are deleted, and cannot be acquired during the lock delay.
func (a *Agent) end(id string) {
	s := a.sessions[id]
	if s == nil {
		return
	}
	delete(a.sessions, id)
	for key, p := range a.pairs {
		if p.Session != id {
			continue
		}
		a.delays[key] = time.Now().Add(s.LockDelay)
		if s.Behavior == "delete" {
			a.remove(key)
			continue
		}
		p.Session, p.ModifyIndex = "", a.next()
	}
}

// next returns the index of a new change, and wakes the blocking queries.
func (a *Agent) next() uint64 {
	a.index++
	close(a.changed)
	a.changed = make(chan struct{})
	return a.index
}

func (a *Agent) set(key string, value []byte, flags uint64) *Pair {
	at := a.next()
	p := a.pairs[key]
	if p == nil {
		p = &Pair{Key: key, CreateIndex: at}
		a.pairs[key] = p
	}
	p.Value, p.Flags, p.ModifyIndex = value, flags, at
	return p
}

func (a *Agent) remove(key string) {
	if a.pairs[key] != nil {
		delete(a.pairs, key)
		a.removed[key] = a.next()
	}
}

// acquire locks a key for a session. ok is false if another session holds the lock, or during the lock delay.
func (a *Agent) acquire(key string, value []byte, flags uint64, id string) (ok bool, err error) {
	if a.sessions[id] == nil {
		return false, fmt.Errorf("invalid session %q", id)
	}
	p := a.pairs[key]
	if p != nil && p.Session != "" && p.Session != id || time.Now().Before(a.delays[key]) {
		return false, nil
	}
	again := p != nil && p.Session == id
	p = a.set(key, value, flags)
	p.Session = id
	if !again {
		p.LockIndex++
	}
	return true, nil
}

// kv handles the requests about one key.
func (a *Agent) kv(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	q := r.URL.Query()
	number := func(name string) uint64 {
		n, _ := strconv.ParseUint(q.Get(name), 10, 64) // an invalid number counts as 0
		return n
	}
	current := func() uint64 {
		if p := a.pairs[key]; p != nil {
			return p.ModifyIndex
		}
		return max(1, a.removed[key])
	}
	switch {
	case key == "" && !q.Has("keys"):
		http.Error(w, "Missing key name", http.StatusBadRequest)
	case r.Method == http.MethodGet && q.Has("keys"):
		a.list(w, key, q.Get("separator"))
	case r.Method == http.MethodGet:
		if q.Has("index") {
			a.await(r, q.Get("wait"), func() bool { return current() > number("index") })
		}
		w.Header().Set("X-Consul-Index", strconv.FormatUint(current(), 10))
		p := a.pairs[key]
		if p == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		answer(w, []*Pair{p})
	case r.Method == http.MethodPut && q.Has("acquire"):
		ok, err := a.acquire(key, body, number("flags"), q.Get("acquire"))
		if err != nil {
			http.Error(w, "rpc error: "+err.Error(), http.StatusInternalServerError)
			return
		}
		answer(w, ok)
	case r.Method == http.MethodPut && q.Has("release"):
		p := a.pairs[key]
		if p == nil || p.Session != q.Get("release") {
			answer(w, false)
			return
		}
		a.set(key, body, number("flags")).Session = ""
		answer(w, true)
	case r.Method == http.MethodPut:
		a.set(key, body, number("flags"))
		answer(w, true)
	case r.Method == http.MethodDelete && q.Has("recurse"):
		for k := range a.pairs {
			if strings.HasPrefix(k, key) {
				a.remove(k)
			}
		}
		answer(w, true)
	case r.Method == http.MethodDelete && q.Has("cas"):
		p := a.pairs[key]
		same := p == nil || p.ModifyIndex == number("cas")
		if same {
			a.remove(key)
		}
		answer(w, same)
	case r.Method == http.MethodDelete:
		a.remove(key)
		answer(w, true)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// await waits until a condition holds or the time is up. It unlocks the mutex meanwhile.
func (a *Agent) await(r *http.Request, text string, until func() bool) {
	limit, err := time.ParseDuration(text)
	if err != nil || limit <= 0 {
		limit = 5 * time.Minute
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	tick := time.NewTicker(time.Second) // sessions can expire without a request
	defer tick.Stop()
	for !until() {
		changed := a.changed
		a.mu.Unlock()
		var over bool
		select {
		case <-changed:
		case <-tick.C:
		case <-timer.C:
			over = true
		case <-r.Context().Done():
			over = true
		}
		a.mu.Lock()
		a.expire()
		if over {
			return
		}
	}
}

// list returns the keys that have a prefix, each truncated after the first separator that follows the prefix.
func (a *Agent) list(w http.ResponseWriter, prefix, separator string) {
	keys := []string{}
	for k := range a.pairs {
		if !strings.HasPrefix(k, prefix) {
			continue
		}
		if i := strings.Index(k[len(prefix):], separator); separator != "" && i >= 0 {
			k = k[:len(prefix)+i+len(separator)]
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	slices.Sort(keys)
	answer(w, slices.Compact(keys))
}

// txn executes all operations of a transaction, or none.
func (a *Agent) txn(w http.ResponseWriter, body []byte) {
	type operation struct {
		Verb, Key, Session string
		Value              []byte
		Flags, Index       uint64
	}
	var ops []struct{ KV operation }
	if err := json.Unmarshal(body, &ops); err != nil {
		http.Error(w, "Failed to parse body: "+err.Error(), http.StatusBadRequest)
		return
	}
	type failure struct {
		OpIndex int
		What    string
	}
	type result struct{ KV Pair }
	// Each transaction uses a key only once, so all conditions can be checked before the first operation.
	var failures []failure
	for i, op := range ops {
		p, k := a.pairs[op.KV.Key], op.KV
		var what string
		switch k.Verb {
		case "set", "delete":
		case "cas":
			if p == nil && k.Index != 0 || p != nil && p.ModifyIndex != k.Index {
				what = fmt.Sprintf("failed to set key %q, index is stale", k.Key)
			}
		case "delete-cas":
			if p != nil && p.ModifyIndex != k.Index {
				what = fmt.Sprintf("failed to delete key %q, index is stale", k.Key)
			}
		case "check-session":
			switch {
			case p == nil:
				what = fmt.Sprintf("failed to check session, key %q doesn't exist", k.Key)
			case p.Session != k.Session:
				what = fmt.Sprintf("failed session check for key %q, current session %q != %q", k.Key,
					p.Session, k.Session)
			}
		default:
			what = fmt.Sprintf("unknown KV verb %q", k.Verb)
		}
		if what != "" {
			failures = append(failures, failure{OpIndex: i, What: what})
		}
	}
	if len(failures) > 0 {
		w.WriteHeader(http.StatusConflict)
		answer(w, map[string]any{"Results": nil, "Errors": failures})
		return
	}
	results := []result{}
	for _, op := range ops {
		switch k := op.KV; k.Verb {
		case "set", "cas":
			p := *a.set(k.Key, k.Value, k.Flags)
			p.Value = nil
			results = append(results, result{p})
		case "delete", "delete-cas":
			a.remove(k.Key)
		case "check-session":
			p := *a.pairs[k.Key]
			p.Value = nil
			results = append(results, result{p})
		}
	}
	answer(w, map[string]any{"Results": results, "Errors": nil})
}
