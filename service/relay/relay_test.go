package relay_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service/relay"
)

// member is a member of a group that listens.
type member struct {
	*testing.T
	*relay.Relay
	name     string
	identity *relay.Identity
	server   *httptest.Server
	calls    atomic.Int64 // of its service
}

func identity(t *testing.T, secret, name string) *relay.Identity {
	t.Helper()
	i, err := relay.NewIdentity([]byte(secret), []byte("incarnation"), name)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// newMember starts a member that knows no leader.
func newMember(t *testing.T, name string, patience time.Duration) *member {
	m := &member{T: t, name: name, identity: identity(t, "secret", name)}
	transport := m.identity.Client()
	m.Relay = relay.New(relay.Options{Transport: transport, Logger: slog.New(slog.DiscardHandler), Patience: patience})
	m.server = serve(t, m.identity, m.Relay)
	t.Cleanup(transport.CloseIdleConnections)
	return m
}

// serve listens for clients and members.
func serve(t *testing.T, i *relay.Identity, h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS() // makes the certificate for clients
	own := s.TLS
	s.Close()
	s = httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.TLS = i.Server(own)
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func (m *member) address() string { return m.server.Listener.Addr().String() }

// leads has the member answer with f.
func (m *member) leads(f http.HandlerFunc) {
	m.Lead(m.name, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		m.calls.Add(1)
		f(w, q)
	}), func() bool { return true })
}

// follows has the member pass requests on to another one.
func (m *member) follows(other *member) { m.Follow(other.name, other.address()) }

// answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request to a member as a client.
func (m *member) ask(method, path, body string, header ...string) answer {
	m.Helper()
	q, err := http.NewRequestWithContext(m.Context(), method, m.server.URL+path, strings.NewReader(body))
	if err != nil {
		m.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	response, err := m.server.Client().Do(q)
	if err != nil {
		m.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		m.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(text)}
}

// echo answers with what the service is told about a request.
func echo(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	w.Header().Set("Answered", "yes")
	w.WriteHeader(http.StatusAccepted)
	_, _ = fmt.Fprintf(w, "%s %s %s|%s|%s|%s|%s", q.Method, q.URL, body, q.Host, q.RemoteAddr,
		q.Header.Get("X-Forwarded-For"), q.Header.Get("Millipede-Client"))
}

func TestARequestIsPassedOnAsTheClientHasSentIt(t *testing.T) {
	alice, bob := newMember(t, "alice", 0), newMember(t, "bob", 0)
	alice.leads(echo)
	bob.follows(alice)
	for _, m := range []*member{alice, bob} {
		got := m.ask(http.MethodPost, "/api/v2/runs?a=1", "content", "X-Forwarded-For", "192.0.2.7", "Millipede-Client",
			"203.0.113.9:1")
		fields := strings.Split(got.body, "|")
		if got.status != http.StatusAccepted || got.header.Get("Answered") != "yes" || len(fields) != 5 {
			t.Fatalf("%s: %+v", m.name, got)
		}
		if fields[0] != "POST /api/v2/runs?a=1 content" || fields[1] != m.address() || fields[3] != "192.0.2.7" {
			t.Errorf("%s: the service was told %q", m.name, fields)
		}
		// The address of the client, and not that of the member or of what the client claims.
		if !strings.HasPrefix(fields[2], "127.0.0.1:") || fields[2] == m.address() || fields[4] != "" {
			t.Errorf("%s: the client is %q, and the header between members %q", m.name, fields[2], fields[4])
		}
	}
	if n := alice.calls.Load(); n != 2 {
		t.Errorf("the service was asked %d times", n)
	}
}

func TestTheClientThatAMemberPassesOnIsKnownToTheLeader(t *testing.T) {
	alice := newMember(t, "alice", 0)
	alice.leads(echo)
	transport := identity(t, "secret", "bob").Client()
	defer transport.CloseIdleConnections()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+alice.address()+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Millipede-Client", "192.0.2.1:4711")
	response, err := transport.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if got, _ := io.ReadAll(response.Body); !strings.Contains(string(got), "|192.0.2.1:4711||") {
		t.Errorf("the service was told %q", got)
	}
}

func TestABodyIsSentAgainToTheMemberThatLeads(t *testing.T) {
	for what, size := range map[string]int{"small": 100, "empty": 0, "almost too large": 1<<20 - 1} {
		t.Run(what, func(t *testing.T) {
			alice, bob, carol := newMember(t, "alice", 0), newMember(t, "bob", 0), newMember(t, "carol", 0)
			body := strings.Repeat("x", size)
			asked := make(chan struct{})
			// Alice leads no more, which bob does not know yet.
			front := serve(t, alice.identity, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				alice.ServeHTTP(w, q)
				close(asked)
			}))
			carol.leads(echo)
			bob.Follow("alice", front.Listener.Addr().String())
			go func() {
				<-asked
				bob.follows(carol)
			}()
			got := bob.ask(http.MethodPost, "/", body)
			if got.status != http.StatusAccepted || !strings.HasPrefix(got.body, "POST / "+body+"|") {
				t.Errorf("%d, %d bytes", got.status, len(got.body))
			}
		})
	}
}

func TestABodyThatIsTooLargeToBeKeptIsSentOnce(t *testing.T) {
	alice, bob := newMember(t, "alice", 0), newMember(t, "bob", time.Second)
	body := strings.Repeat("x", 3<<20)
	alice.leads(func(w http.ResponseWriter, q *http.Request) {
		n, _ := io.Copy(io.Discard, q.Body)
		_, _ = fmt.Fprint(w, n)
	})
	bob.follows(alice)
	if got := bob.ask(http.MethodPut, "/", body); got.body != fmt.Sprint(len(body)) {
		t.Errorf("the leader got %s bytes", got.body)
	}
	alice.Follow("", "") // it does not lead, and has the body already
	if got := bob.ask(http.MethodPut, "/", body); got.status != http.StatusServiceUnavailable {
		t.Errorf("%+v", got)
	}
}

// breaking is a leader that ends after it got the first request, without an answer.
func breaking(t *testing.T, calls *atomic.Int64) string {
	i := identity(t, "secret", "alice")
	s := serve(t, i, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		_, _ = fmt.Fprint(w, "done")
	}))
	return s.Listener.Addr().String()
}

func TestOnlyWhatChangesNothingIsRepeatedWhenTheAnswerIsLost(t *testing.T) {
	for method, again := range map[string]bool{http.MethodGet: true, http.MethodPost: false, http.MethodPut: false,
		http.MethodPatch: false, http.MethodDelete: false} {
		t.Run(method, func(t *testing.T) {
			var calls atomic.Int64
			bob := newMember(t, "bob", 5*time.Second)
			bob.Follow("alice", breaking(t, &calls))
			got := bob.ask(method, "/", "")
			if again && (got.status != http.StatusOK || got.body != "done" || calls.Load() != 2) {
				t.Errorf("%+v after %d requests", got, calls.Load())
			}
			if !again && (got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "" ||
				calls.Load() != 1 || !strings.Contains(got.body, "it is not known whether")) {
				t.Errorf("%+v after %d requests", got, calls.Load())
			}
		})
	}
}

func TestARequestThatReachedNobodyIsSentToTheNextLeader(t *testing.T) {
	alice, bob := newMember(t, "alice", 0), newMember(t, "bob", 5*time.Second)
	bob.follows(alice)
	alice.server.Close()
	carol := newMember(t, "carol", 0)
	carol.leads(echo)
	time.AfterFunc(50*time.Millisecond, func() { bob.follows(carol) })
	if got := bob.ask(http.MethodPost, "/", "content"); got.status != http.StatusAccepted {
		t.Errorf("%+v", got)
	}
}

func TestARequestWaitsForALeader(t *testing.T) {
	bob := newMember(t, "bob", 150*time.Millisecond)
	began := time.Now()
	got := bob.ask(http.MethodPost, "/", "content")
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" ||
		time.Since(began) < 150*time.Millisecond || !strings.Contains(got.body, `"status":"503"`) {
		t.Errorf("nobody leads: %+v after %s", got, time.Since(began))
	}
	patient := newMember(t, "carol", 20*time.Second)
	time.AfterFunc(50*time.Millisecond, func() { patient.leads(echo) })
	if got := patient.ask(http.MethodPost, "/", "content"); got.status != http.StatusAccepted ||
		!strings.HasPrefix(got.body, "POST / content|") {
		t.Errorf("it leads itself: %+v", got)
	}
}

func TestALeaderThatDoesNotHearTheLogAnswersOnceItDoes(t *testing.T) {
	alice := newMember(t, "alice", 20*time.Second)
	var fresh atomic.Bool
	alice.Lead("alice", http.HandlerFunc(echo), fresh.Load)
	if got := alice.ask(http.MethodGet, "/readyz", ""); got.status != http.StatusServiceUnavailable {
		t.Errorf("it is ready: %+v", got)
	}
	time.AfterFunc(50*time.Millisecond, func() { fresh.Store(true) })
	if got := alice.ask(http.MethodPost, "/", "content"); !strings.HasPrefix(got.body, "POST / content|") {
		t.Errorf("%+v", got)
	}
}

func TestReadinessSaysWhoLeads(t *testing.T) {
	alice, bob := newMember(t, "alice", 0), newMember(t, "bob", 0)
	if got := bob.ask(http.MethodGet, "/readyz", ""); got.status != http.StatusServiceUnavailable {
		t.Errorf("nobody leads: %+v", got)
	}
	alice.leads(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "ready") })
	bob.follows(alice)
	got := bob.ask(http.MethodGet, "/readyz", "")
	if got.status != http.StatusOK || got.body != "standby: alice leads\n" {
		t.Errorf("%+v", got)
	}
	if got := alice.ask(http.MethodGet, "/readyz", ""); got.body != "ready" {
		t.Errorf("%+v", got)
	}
	bob.Follow("", "")
	if got := bob.ask(http.MethodGet, "/healthz", ""); got.status != http.StatusOK {
		t.Errorf("it is alive: %+v", got)
	}
}

func TestAnErrorOfAMemberThatLeadsNoMoreIsNoAnswer(t *testing.T) {
	alice := newMember(t, "alice", 0)
	fails := func(over bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if over {
				alice.Follow("", "")
			}
			http.Error(w, "the change was refused", http.StatusInternalServerError)
		}
	}
	alice.leads(fails(false))
	if got := alice.ask(http.MethodPost, "/", ""); got.status != http.StatusInternalServerError {
		t.Errorf("while it leads: %+v", got)
	}
	alice.leads(fails(true))
	got := alice.ask(http.MethodPost, "/", "")
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" ||
		strings.Contains(got.body, "refused") {
		t.Errorf("afterwards: %+v", got)
	}
}

// stream begins to read lines from a member.
func (m *member) stream(ctx context.Context) *bufio.Scanner {
	m.Helper()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, m.server.URL+"/stream", nil)
	if err != nil {
		m.Fatal(err)
	}
	response, err := m.server.Client().Do(q)
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { _ = response.Body.Close() })
	return bufio.NewScanner(response.Body)
}

func TestStreamsAreFlushedAndEndWhenAnotherMemberLeads(t *testing.T) {
	alice, bob, carol := newMember(t, "alice", 0), newMember(t, "bob", 0), newMember(t, "carol", 0)
	next, ended := make(chan string), make(chan struct{})
	alice.leads(func(w http.ResponseWriter, q *http.Request) {
		defer close(ended)
		for {
			select {
			case line := <-next:
				_, _ = fmt.Fprintln(w, line)
				_ = http.NewResponseController(w).Flush()
			case <-q.Context().Done():
				return
			}
		}
	})
	bob.follows(alice)
	go func() { next <- "one" }()
	lines := bob.stream(t.Context())
	for _, want := range []string{"one", "two", "three"} {
		if want != "one" {
			next <- want
		}
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("%q, %v", lines.Text(), lines.Err())
		}
	}
	bob.follows(alice) // told again of the same one
	next <- "four"
	if !lines.Scan() || lines.Text() != "four" {
		t.Fatalf("%q, %v", lines.Text(), lines.Err())
	}
	bob.follows(carol) // alice is frozen: it does not end the stream
	began := time.Now()
	if lines.Scan() {
		t.Errorf("a line of a former leader: %q", lines.Text())
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the stream has ended after %s", took)
	}
	<-ended
}

func TestDrainingWaitsForWhatIsAnswered(t *testing.T) {
	alice := newMember(t, "alice", 0)
	reached, release := make(chan struct{}), make(chan struct{})
	alice.leads(func(w http.ResponseWriter, _ *http.Request) {
		close(reached)
		<-release
		_, _ = fmt.Fprint(w, "done")
	})
	answered := make(chan answer, 1)
	go func() { answered <- alice.ask(http.MethodPost, "/", "") }()
	<-reached
	began := time.Now()
	alice.Drain(50 * time.Millisecond)
	if time.Since(began) < 50*time.Millisecond {
		t.Error("a request in progress was not waited for")
	}
	close(release)
	alice.Drain(time.Minute)
	if got := <-answered; got.body != "done" {
		t.Errorf("%+v", got)
	}
}

func TestOnlyMembersOfTheGroupReachAMemberAsOne(t *testing.T) {
	alice := newMember(t, "alice", 0)
	alice.leads(echo)
	request := func(transport *http.Transport) error {
		defer transport.CloseIdleConnections()
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+alice.address()+"/", nil)
		if err != nil {
			return err
		}
		response, err := transport.RoundTrip(q)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	bare := identity(t, "secret", "bob").Client()
	bare.TLSClientConfig.Certificates = nil
	blind := identity(t, "another", "bob").Client()
	blind.TLSClientConfig.RootCAs, blind.TLSClientConfig.InsecureSkipVerify = nil, true //nolint:gosec // an attacker's
	for what, transport := range map[string]*http.Transport{"without a certificate": bare,
		"of another group": identity(t, "another", "bob").Client(), "of another group that trusts all": blind} {
		if err := request(transport); err == nil {
			t.Errorf("a client %s is answered", what)
		}
	}
	if n := alice.calls.Load(); n != 0 {
		t.Errorf("the service was asked %d times", n)
	}
	if err := request(identity(t, "secret", "bob").Client()); err != nil {
		t.Errorf("a member: %v", err)
	}
	// A member knows that it does not speak with one of another group.
	var unknown *tls.CertificateVerificationError
	if err := request(identity(t, "another", "bob").Client()); !errors.As(err, &unknown) {
		t.Errorf("%v", err)
	}
}

func TestAMemberThatDoesNotLeadSaysSoToMembersAtOnce(t *testing.T) {
	alice, bob := newMember(t, "alice", time.Minute), newMember(t, "bob", 300*time.Millisecond)
	alice.follows(bob) // each thinks that the other one leads
	bob.follows(alice)
	got := bob.ask(http.MethodPost, "/", "content", "Millipede-Not-Leading", "true")
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("%+v", got)
	}
}
