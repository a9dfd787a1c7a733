package notify_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/notifications"
	"github.com/millipede-iac/millipede/service/notify"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tables"
)

// post is a mail server that stores the accepted mails. It has one user, "millipede".
type post struct {
	address string

	mu      sync.Mutex // guards the fields below
	refuse  func(to string) error
	letters []letter
	signed  int // how often the user has proved who it is
}

type letter struct {
	to   string
	mail *mail.Message
	text string
}

func newPost(t *testing.T, encrypts *tls.Config) *post {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &post{address: l.Addr().String(), refuse: func(string) error { return nil }}
	server := smtp.NewServer(p)
	server.TLSConfig, server.ErrorLog = encrypts, slog.NewLogLogger(slog.DiscardHandler, 0)
	done := make(chan struct{})
	go func() { // ends with the test
		defer close(done)
		if err := server.Serve(l); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return p
}

func (p *post) NewSession(*smtp.Conn) (smtp.Session, error) { return &visit{post: p}, nil }

func (p *post) got() []letter {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.letters)
}

// visit handles one connection.
type visit struct {
	post *post
	to   string
}

func (v *visit) AuthMechanisms() []string { return []string{sasl.Plain} }

func (v *visit) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != "millipede" || password != "canary-password" {
			return errors.New("wrong")
		}
		v.post.mu.Lock()
		defer v.post.mu.Unlock()
		v.post.signed++
		return nil
	}), nil
}

func (v *visit) Mail(string, *smtp.MailOptions) error { return nil }

func (v *visit) Rcpt(to string, _ *smtp.RcptOptions) error {
	v.to = to
	v.post.mu.Lock()
	defer v.post.mu.Unlock()
	return v.post.refuse(to)
}

func (v *visit) Data(r io.Reader) error {
	m, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(m.Body)
	if err != nil {
		return err
	}
	v.post.mu.Lock()
	defer v.post.mu.Unlock()
	v.post.letters = append(v.post.letters, letter{v.to, m, string(text)})
	return nil
}

func (v *visit) Reset()        {}
func (v *visit) Logout() error { return nil }

func parsed(t *testing.T, address, password string) *notify.Mail {
	t.Helper()
	m, err := notify.ParseMail(address, "Millipede <iac@example.org>", password)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func mailer(h *servicetest.Harness, m *notify.Mail) *notify.Sender {
	return notify.New(notify.Options{Notifications: h.Notifications, Address: "https://tofu.example",
		Mail: m, Now: time.Now,
		Logger: slog.New(slog.DiscardHandler), Pauses: []time.Duration{time.Millisecond, time.Millisecond}})
}

func withMail(o *service.Options) { o.Mail = true }

// byMail creates a configuration whose notifications are sent by mail.
func byMail(t *testing.T, h *servicetest.Harness, w *service.WorkspaceView, users ...string) *record.Notification {
	t.Helper()
	n, err := h.Notifications.Create(h.Admin, record.Notification{Workspace: w.ID, Name: "mail",
		Destination: notifications.DestinationEmail, Users: users, Emails: []string{"team@example.org"}, Enabled: true,
		Triggers: all})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestEachWhoMaySeeAWorkspaceGetsAMailOfTheirOwn(t *testing.T) {
	h := servicetest.New(t, withMail)
	w := h.NewWorkspace("one")
	stranger, err := h.Users.Create(h.Admin, "stranger", "stranger@example.org", false)
	if err != nil {
		t.Fatal(err)
	}
	administrator, err := h.Users.Create(h.Admin, "administrator", "administrator@example.org", true)
	if err != nil {
		t.Fatal(err)
	}
	byMail(t, h, w, stranger.ID, administrator.ID)
	p := newPost(t, nil)
	s := mailer(h, parsed(t, "smtp://"+p.address, ""))
	sent := run(t, s)
	r := h.NewRun(w, func(r *record.Run) { r.Message = "why\r\nBcc: other@example.org\r\n\r\n.\r\n" })
	h.Await(r.ID, record.Planned)
	until(t, func() bool { return len(p.got()) == 6 }) // three events for two people
	sent()
	var to, subjects []string
	for _, l := range p.got() {
		to = append(to, l.to)
		subjects = append(subjects, l.mail.Header.Get("Subject"))
		if l.mail.Header.Get("To") != "<"+l.to+">" || l.mail.Header.Get("Bcc") != "" ||
			l.mail.Header.Get("From") != `"Millipede" <iac@example.org>` {
			t.Errorf("%v", l.mail.Header)
		}
		if !strings.Contains(l.text, "https://tofu.example/app/acme/one/runs/"+r.ID) ||
			!strings.Contains(l.text, "acme/one") || !strings.Contains(l.text, "why") {
			t.Errorf("the text of the mail is:\n%s", l.text)
		}
	}
	if want := []string{"administrator@example.org", "team@example.org"}; !slices.Equal(to,
		slices.Concat(want, want, want)) {
		t.Errorf("mails went to %q", to)
	}
	if len(subjects) != 6 || subjects[4] != "Run Needs Attention: acme/one" {
		t.Errorf("their subjects are %q", subjects)
	}
}

func TestAMailIsSentAgainWhereTheServerRefusesItForTheMoment(t *testing.T) {
	for _, c := range []struct {
		what        string
		refusal     error
		code, tries int
	}{
		{"for the moment", &smtp.SMTPError{Code: 451, Message: "busy"}, 451, 3},
		{"for good", &smtp.SMTPError{Code: 550, Message: "there is no such person"}, 550, 1},
	} {
		t.Run(c.what, func(t *testing.T) {
			h := servicetest.New(t, withMail)
			w := h.NewWorkspace("one")
			n := byMail(t, h, w)
			p := newPost(t, nil)
			tries := 0
			p.refuse = func(string) error { tries++; return c.refusal }
			if _, err := h.Runs.Create(h.Admin, w.ID, record.Run{PlanOnly: true,
				Configuration: h.NewConfiguration(w, true)}); err != nil {
				t.Fatal(err)
			}
			end := run(t, mailer(h, parsed(t, "smtp://"+p.address, "")))
			until(t, func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return tries >= 3*c.tries // three events
			})
			end()
			now, err := h.Notifications.Find(h.Admin, n.ID)
			if err != nil || now.Last.Code != c.code || !strings.Contains(now.Last.Body, "team@example.org") {
				t.Errorf("%+v, %v", now.Last, err)
			}
			if tries != 3*c.tries {
				t.Errorf("the mail was sent %d times", tries)
			}
		})
	}
}

// An attacker on the network who removes the offer of encryption from the server's answer would get the password.
func TestAPasswordIsNeverSentInTheClear(t *testing.T) {
	h := servicetest.New(t, withMail)
	n := byMail(t, h, h.NewWorkspace("one"))
	clear := newPost(t, nil)
	r, err := mailer(h, parsed(t, "smtp://millipede@"+clear.address, "canary-password")).Verify(t.Context(), h.Admin, n.ID)
	if err != nil || r.Successful() || !strings.Contains(r.Body, "STARTTLS") || clear.signed != 0 {
		t.Errorf("%+v, %v; the password came %d times", r, err, clear.signed)
	}
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	encrypted := newPost(t, &tls.Config{Certificates: certified.TLS.Certificates})
	m := parsed(t, "smtp://millipede@"+encrypted.address, "canary-password")
	if r, err = mailer(h, m).Verify(t.Context(), h.Admin, n.ID); err != nil || r.Successful() {
		t.Errorf("a server with an untrusted certificate was accepted: %+v, %v", r, err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	m.Trust(roots)
	if r, err = mailer(h, m).Verify(t.Context(), h.Admin, n.ID); err != nil || !r.Successful() || encrypted.signed != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestNoMailIsPromisedThatCannotBeSent(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	n := record.Notification{Workspace: w.ID, Name: "mail", Destination: notifications.DestinationEmail, Triggers: all}
	if _, err := h.Notifications.Create(h.Admin, n); err != nil {
		t.Errorf("creating a disabled configuration: %v", err)
	}
	n.Enabled = true
	if _, err := h.Notifications.Create(h.Admin, n); !errors.Is(err, tables.ErrInvalid) ||
		!strings.Contains(err.Error(), "serve -smtp") {
		t.Errorf("without a mail server: %v", err)
	}
	n.Enabled, n.Emails = false, []string{"a@example.org\r\nRCPT TO:<b@example.org>"}
	if _, err := h.Notifications.Create(h.Admin, n); !errors.Is(err, tables.ErrInvalid) {
		t.Errorf("an address that contains a command: %v", err)
	}
	n.Emails, n.Users = nil, []string{"user-nobody"}
	if _, err := h.Notifications.Create(h.Admin, n); !errors.Is(err, tables.ErrInvalid) {
		t.Errorf("an unknown user: %v", err)
	}
}

func TestAMailServerIsNamedByAnAddress(t *testing.T) {
	for _, c := range []struct{ address, from, password, want string }{
		{"smtp://mail.example.org", "iac@example.org", "", ""},
		{"smtps://iac@mail.example.org:2465", "Infrastructure <iac@example.org>", "secret", ""},
		{"mail.example.org:25", "iac@example.org", "", "smtp://"},
		{"http://mail.example.org", "iac@example.org", "", "smtp://"},
		{"smtp://mail.example.org/path", "iac@example.org", "", "smtp://"},
		{"smtp://mail.example.org:70000", "iac@example.org", "", "port"},
		{"smtp://iac:secret@mail.example.org", "iac@example.org", "", "password"},
		{"smtp://iac@mail.example.org", "iac@example.org", "", "belong together"},
		{"smtp://mail.example.org", "iac@example.org", "secret", "belong together"},
		{"smtp://mail.example.org", "", "", "no address"},
	} {
		_, err := notify.ParseMail(c.address, c.from, c.password)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s from %q: %v", c.address, c.from, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("a secret is shown: %v", err)
		}
	}
}

// until waits until a condition holds.
func until(t *testing.T, holds func() bool) {
	t.Helper()
	ctx := timeout(t)
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatal("the condition was not true in time")
		}
	}
}
