package tfe_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/httpstate"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/tfe"
)

// flood is an upload without an end. It records how much of it was read, and the maximum memory in use meanwhile.
type flood struct {
	taken  int64
	sample int64
	most   uint64
}

const sampleEvery = 4 << 20

func (f *flood) Read(p []byte) (int, error) {
	if f.taken >= f.sample {
		f.sample += sampleEvery
		f.most = max(f.most, living())
	}
	for i := range p {
		p[i] = ' ' // which may stand before a document for as long as it likes
	}
	f.taken += int64(len(p))
	return len(p), nil
}

// living returns the memory in use after a garbage collection.
func living() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestUploadsOfTenGigabytesAreRefusedInBoundedMemory(t *testing.T) {
	const limit, spare = 24 << 20, 6 << 20
	s := newSite(t, func(o *service.Options) { o.MaxConfiguration, o.MaxState = limit, limit })
	w := s.NewWorkspace("one")
	cv := must(t, of(s.client.ConfigurationVersions.Create(s.ctx, w.ID, client.ConfigurationVersionCreateOptions{})))
	api := tfe.Handler(tfe.Options{Service: s.Service})
	foreign := httpstate.Handler(s.Service, slog.New(slog.DiscardHandler))
	second := s.NewWorkspace("two")
	must(t, of(s.client.Workspaces.Lock(s.ctx, second.ID, client.WorkspaceLockOptions{})))
	sv := must(t, of(s.client.StateVersions.Create(s.ctx, second.ID, client.StateVersionCreateOptions{
		Serial: client.Int64(1), MD5: client.String(service.Sum(nil)), Lineage: client.String("l"),
	})))
	for _, to := range []struct {
		handler         http.Handler
		method, address string
		limit           int64
	}{
		{api, http.MethodPut, cv.UploadURL, limit}, {api, http.MethodPut, sv.UploadURL, limit},
		{api, http.MethodPut, sv.JSONUploadURL, limit}, {foreign, http.MethodPost, "/state/acme/one", limit},
		{api, http.MethodPost, "/api/v2/organizations/acme/workspaces", 2 << 20},
	} {
		path := strings.TrimPrefix(to.address, s.server.URL)
		for said, size := range map[string]int64{"10 GB": 10 << 30, "nothing": -1} {
			f := &flood{}
			r := httptest.NewRequestWithContext(s.ctx, to.method, path, f)
			r.ContentLength = size
			r.Header.Set("Authorization", "Bearer "+s.Token)
			before := living()
			answer := httptest.NewRecorder()
			to.handler.ServeHTTP(answer, r)
			if answer.Code != http.StatusRequestEntityTooLarge {
				t.Errorf("%s, with the announced size %s: %d %s", path, said, answer.Code, answer.Body)
			}
			if size > 0 && f.taken > 0 || f.taken > to.limit+1<<20 {
				t.Errorf("%s, with the announced size %s: %d bytes were read", path, said, f.taken)
			}
			if f.most > before+spare+uint64(min(to.limit, 4<<20)) {
				t.Errorf("%s, with the announced size %s: %d MiB of memory", path, said, (f.most-before)>>20)
			}
		}
	}
}

// Addresses for uploads contain a secret. It must not be valid for ever, nor for other requests.
func TestAddressesEndAndAreGoodForOneThing(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	r := s.NewRun(w, nil)
	s.Await(r.ID, record.Planned)
	cv := must(t, of(s.client.ConfigurationVersions.Create(s.ctx, w.ID,
		client.ConfigurationVersionCreateOptions{AutoQueueRuns: client.Bool(false)})))
	p := must(t, of(s.client.Plans.Read(s.ctx, r.Plan.ID)))
	log := strings.TrimPrefix(p.LogReadURL, s.server.URL)
	if status, _, body := s.get(log, ""); status != http.StatusOK || !strings.Contains(body, "planning") {
		t.Fatalf("%d %q", status, body)
	}
	parts := strings.Split(strings.TrimPrefix(log, "/logs/"), ".")
	for what, address := range map[string]string{
		"a later end": parts[0] + ".9999999999." + parts[2], "another phase": r.Apply.ID + "." + parts[1] + "." + parts[2],
		"no signature": parts[0] + "." + parts[1] + ".", "a cut signature": strings.Join(parts, ".")[:60],
		"no end": parts[0] + ".." + parts[2], "a path": "..%2f..%2fservice.db", "nothing": ".",
	} {
		if status, _, body := s.get("/logs/"+address, ""); status != http.StatusNotFound {
			t.Errorf("%s: %d %q", what, status, body)
		}
	}
	if status, _, _ := s.get("/api/v2/plans/"+r.Plan.ID, strings.Join(parts, ".")); status != http.StatusUnauthorized {
		t.Errorf("the secret in the address of a log is accepted as a token: %d", status)
	}
	s.Later(26 * time.Hour)
	if status, _, _ := s.get(log, ""); status != http.StatusNotFound {
		t.Errorf("the address of a log is valid after a day: %d", status)
	}
	if status := s.put(cv.UploadURL, []byte("x")); status != http.StatusNotFound {
		t.Errorf("the address for an upload is valid after a day: %d", status)
	}
}

// A token was accepted as long as its hash was stored, even if its owner had been deleted or it had expired.
func TestATokenEndsWithItsOwnerAndItsTime(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	team := must(t, of(s.Teams.Create(s.Admin, record.Team{Organization: "acme", Name: "devs"})))
	must(t, of(s.TeamAccess.Create(s.Admin, record.Access{Team: team.ID, On: w.ID, Role: "admin"})))
	ofTeam, _, err := s.Tokens.Create(s.Admin, record.TokenTeam, team.ID, "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	short, _, err := s.Tokens.Create(s.Admin, record.TokenUser, s.Admin.ID(), "", time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	path := "/api/v2/workspaces/" + w.ID
	for what, token := range map[string]string{"the team's": ofTeam, "the short one": short} {
		if status, _, _ := s.get(path, token); status != http.StatusOK {
			t.Errorf("%s, while it is valid: %d", what, status)
		}
		for _, other := range []string{token[:len(token)-1], token + "0", strings.ToUpper(token), " "} {
			if status, _, _ := s.get(path, other); status != http.StatusUnauthorized {
				t.Errorf("%s, changed: %d", what, status)
			}
		}
		if status, _, _ := s.get(path+"?access_token="+token+"&token="+token, ""); status != http.StatusUnauthorized {
			t.Errorf("%s, in the address: %d", what, status)
		}
	}
	if err := s.Teams.Delete(s.Admin, team.ID); err != nil {
		t.Fatal(err)
	}
	s.Later(2 * time.Hour)
	for what, token := range map[string]string{"a team that is gone": ofTeam, "its time": short} {
		if status, _, _ := s.get(path, token); status != http.StatusUnauthorized {
			t.Errorf("after %s: %d", what, status)
		}
	}
}

// Data that a client sends is returned in headers and in addresses.
func TestNobodyWritesHeadersOfAnswers(t *testing.T) {
	s := newSite(t)
	w := s.NewWorkspace("one")
	for _, path := range []string{
		"/api/v2/organizations/acme/workspaces/one%0d%0aSet-Cookie:%20a=b", "/logs/x%0d%0aSet-Cookie:%20a=b",
		"/api/v2/workspaces/" + w.ID + "?include=x%0d%0aSet-Cookie:%20a=b",
	} {
		_, header, _ := s.get(path, s.Token)
		if header.Get("Set-Cookie") != "" || len(header.Values("Content-Type")) != 1 {
			t.Errorf("%s: %v", path, header)
		}
	}
	if _, err := s.client.Workspaces.Update(s.ctx, "acme", "one",
		client.WorkspaceUpdateOptions{Name: client.String("two\r\nSet-Cookie: a=b")}); err == nil {
		t.Error("a name with a line end was accepted")
	}
}

// A user with all permissions on one workspace requests the state of another over the http backend.
func TestTheHTTPBackendTellsNothingOfOtherWorkspaces(t *testing.T) {
	s := newSite(t)
	theirs, mine := s.NewWorkspace("theirs"), s.NewWorkspace("mine")
	r := s.NewRun(theirs, func(r *record.Run) { r.AutoApply = true })
	s.Await(r.ID, record.Applied)
	token := s.teamToken(mine.ID, "admin")
	h := httpstate.Handler(s.Service, slog.New(slog.DiscardHandler))
	for _, method := range []string{"GET", "POST", "PUT", "DELETE", "LOCK", "UNLOCK"} {
		for _, path := range []string{"/state/acme/theirs", "/state/acme/mine%2f..%2ftheirs", "/state/acme/theirs/lock"} {
			r := httptest.NewRequestWithContext(s.ctx, method, path, bytes.NewReader([]byte(`{"ID":"x","serial":9}`)))
			r.SetBasicAuth("anybody", token)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if text, _ := io.ReadAll(w.Body); w.Code < 400 && w.Code/100 != 3 || strings.Contains(string(text), "lineage") {
				t.Errorf("%s %s: %d %s", method, path, w.Code, text)
			}
		}
	}
	if v, err := s.Workspaces.Find(s.Admin, theirs.ID); err != nil || v.Lock.Held() {
		t.Errorf("the workspace of others was locked: %+v, %v", v.Lock, err)
	}
}
