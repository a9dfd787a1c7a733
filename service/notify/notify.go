// Package notify sends notifications about runs to the receivers in notification configurations.
//
// The service stores pending notifications, so that a restart loses none; each is delivered at least once, and
// those of one configuration in order. A slow or unreachable receiver delays only its own notifications. The
// package makes no decisions about runs.
package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/service/notifications"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
)

// Options configure the sending of notifications.
type Options struct {
	Notifications *notifications.Notifications
	// Address is the address of the service for people, as https://HOST.
	Address string
	// Private permits receivers at addresses that are not public: loopback, private networks, link-local.
	Private bool
	Mail    *Mail // nil if there is none: mails are then not sent
	Now     func() time.Time
	Logger  *slog.Logger
	// Pauses are the pauses before each retry; default: six, from 10 seconds to an hour.
	Pauses []time.Duration
}

const (
	// most is how many notifications are sent at the same time; timeout is the time limit for a response, of
	// which maxBody bytes are kept.
	most    = 8
	timeout = 10 * time.Second
	maxBody = 1 << 10
)

// Sender sends notifications. New makes it; call Run once.
type Sender struct {
	o      Options
	client *http.Client

	mu   sync.Mutex // guards busy
	busy map[string]bool
}

// New returns a sender.
func New(o Options) *Sender {
	if o.Pauses == nil {
		o.Pauses = []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute,
			time.Hour}
	}
	dialer := &net.Dialer{Timeout: timeout}
	if !o.Private {
		dialer.Control = publicOnly
	}
	return &Sender{o: o, busy: map[string]bool{}, client: &http.Client{
		Timeout: timeout,
		// No proxy: with a proxy, the address of the receiver could not be checked.
		Transport: &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: timeout,
			MaxIdleConns: most, IdleConnTimeout: 30 * time.Second},
		// Redirects are not followed, because their targets were not configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// errPrivate refuses an address.
var errPrivate = errors.New("the receiver's address is not a public one; serve -notify-private allows those")

// shared is the address space between providers and their customers (RFC 6598).
var shared = netip.MustParsePrefix("100.64.0.0/10")

// publicOnly checks the address of a connection after the resolution of names, so that no name gives access to
// this machine or its private network.
func publicOnly(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return errPrivate
	}
	ip := at.Addr().Unmap()
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || shared.Contains(ip) {
		return errPrivate
	}
	return nil
}

// Run sends notifications until ctx ends. Notifications in progress are sent again after the next start, unless
// their response was recorded.
func (s *Sender) Run(ctx context.Context) {
	defer s.client.CloseIdleConnections()
	var sending sync.WaitGroup
	defer sending.Wait()
	slots := make(chan struct{}, most)
	done := make(chan struct{}, 1)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.o.Notifications.Outgoing():
		case <-done:
		case <-timer.C:
		}
		due, next, err := s.o.Notifications.Due(s.isBusy)
		if err != nil {
			s.o.Logger.Error("cannot read notifications; will retry", "error", err)
			next = s.o.Now().Add(10 * time.Second)
		}
		for _, o := range due {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			s.setBusy(o.Configuration.ID, true)
			sending.Go(func() {
				s.deliver(ctx, o)
				s.setBusy(o.Configuration.ID, false)
				<-slots
				select {
				case done <- struct{}{}: // another one may wait for the same receiver
				default:
				}
			})
		}
		if !next.IsZero() {
			timer.Reset(max(0, next.Sub(s.o.Now())))
		}
	}
}

func (s *Sender) isBusy(configuration string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy[configuration]
}

func (s *Sender) setBusy(configuration string, busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if busy {
		s.busy[configuration] = true
	} else {
		delete(s.busy, configuration)
	}
}

// deliver sends one notification, and records the result.
func (s *Sender) deliver(ctx context.Context, o notifications.Outgoing) {
	r, again := record.Response{}, false
	if o.Configuration.Destination != "" { // otherwise it was removed meanwhile
		r, again = s.send(ctx, o)
		if ctx.Err() != nil {
			return // the next start retries it
		}
	}
	var next time.Time
	if again && o.Delivery.Attempts < len(s.o.Pauses) {
		next = s.o.Now().Add(s.o.Pauses[o.Delivery.Attempts])
	}
	if !r.Successful() {
		s.o.Logger.Warn("a notification was not accepted", "configuration", o.Configuration.ID, "run", o.Delivery.Run,
			"trigger", o.Delivery.Trigger, "code", r.Code, "attempt", o.Delivery.Attempts+1, "again", !next.IsZero())
	}
	if err := s.o.Notifications.Delivered(o, r, next); err != nil {
		s.o.Logger.Error("cannot record the result of a notification", "run", o.Delivery.Run, "error", err)
		_ = sleep.For(ctx, 10*time.Second) // it will be sent again, but not at once
	}
}

// Verify sends an empty notification, and returns the response of the receiver.
func (s *Sender) Verify(ctx context.Context, a *rights.Actor, configuration string) (*record.Response, error) {
	o, err := s.o.Notifications.Verification(a, configuration)
	if err != nil {
		return nil, err
	}
	o.Delivery.Trigger, o.Delivery.Message = "verification", "Verification of "+o.Configuration.Name
	r, _ := s.send(ctx, o)
	return &r, s.o.Notifications.Delivered(o, r, time.Time{})
}

// send sends one notification. again says whether to retry.
func (s *Sender) send(ctx context.Context, o notifications.Outgoing) (r record.Response, again bool) {
	if o.Configuration.Destination == notifications.DestinationEmail {
		return s.mail(ctx, o)
	}
	r.SentAt = s.o.Now().UTC()
	body, err := json.Marshal(s.payload(o))
	if err != nil {
		panic("notify: a payload cannot be written: " + err.Error())
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, o.Configuration.URL, bytes.NewReader(body))
	if err != nil {
		r.Body = "the address cannot be read"
		return r, false
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "Millipede")
	if o.Configuration.Token != "" {
		mac := hmac.New(sha512.New, []byte(o.Configuration.Token))
		mac.Write(body)
		request.Header.Set("X-TFE-Notification-Signature", hex.EncodeToString(mac.Sum(nil)))
	}
	answer, err := s.client.Do(request)
	if err != nil {
		var u *url.Error // its text has the address, which may hold a secret
		if errors.As(err, &u) {
			err = u.Err
		}
		r.Body = clip(err.Error())
		return r, !errors.Is(err, errPrivate)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxBody)) // as much as was received
	r.Code, r.Body = answer.StatusCode, clip(string(text))
	r.Headers = map[string][]string{}
	for _, name := range []string{"Content-Type", "Date", "Server", "Retry-After"} {
		if v := answer.Header.Values(name); len(v) > 0 {
			r.Headers[strings.ToLower(name)] = []string{clip(v[0])}
		}
	}
	return r, r.Code >= 500 || r.Code == http.StatusTooManyRequests || r.Code == http.StatusRequestTimeout
}

func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxBody)], "\ufffd") }

// page returns the address of the page about the subject of a notification; empty if there is none.
func (s *Sender) page(o notifications.Outgoing) string {
	workspace := fmt.Sprintf("%s/app/%s/%s", strings.TrimSuffix(s.o.Address, "/"),
		url.PathEscape(o.Workspace.Organization), url.PathEscape(o.Workspace.Name))
	switch {
	case o.Run.ID != "":
		return workspace + "/runs/" + o.Run.ID
	case o.Delivery.Trigger == record.TriggerDrift, o.Delivery.Trigger == record.TriggerUnread:
		return workspace + "/state?action=drift"
	}
	return ""
}

// payload returns the body: the API's payload (version 1), or a message for people.
func (s *Sender) payload(o notifications.Outgoing) any {
	address := s.page(o)
	switch o.Configuration.Destination {
	case "slack":
		return map[string]any{"text": line(o, address, "<%s|%s>")}
	case "microsoft-teams":
		return map[string]any{"@type": "MessageCard", "@context": "https://schema.org/extensions",
			"summary": o.Delivery.Message, "text": line(o, address, "[%[2]s](%[1]s)")}
	}
	if d := o.Delivery; d.Trigger == record.TriggerDrift || d.Trigger == record.TriggerUnread {
		return assessment(o, s.o.Address)
	}
	return payload{
		PayloadVersion: 1, Configuration: o.Configuration.ID, RunURL: orNull(address), Run: orNull(o.Run.ID),
		Message: orNull(o.Run.Message), CreatedAt: moment(o.Run.CreatedAt), CreatedBy: orNull(o.Run.CreatedBy),
		Workspace: orNull(o.Workspace.ID), WorkspaceName: orNull(o.Workspace.Name),
		Organization: orNull(o.Workspace.Organization),
		Notifications: []notification{{Message: o.Delivery.Message, Trigger: o.Delivery.Trigger,
			Status: orNull(string(o.Delivery.Status)), UpdatedAt: moment(o.Delivery.At), UpdatedBy: orNull(o.Delivery.By)}},
	}
}

// assessment returns the body about drift: the API's payload (version 2). There are no assessments with
// addresses of their own.
func assessment(o notifications.Outgoing, address string) any {
	d, base := o.Delivery, strings.TrimSuffix(address, "/")
	return map[string]any{
		"payload_version": "2", "notification_configuration_id": o.Configuration.ID,
		"notification_configuration_url": base + "/api/v2/notification-configurations/" + o.Configuration.ID,
		"trigger_scope":                  "assessment", "trigger": d.Trigger, "message": d.Message,
		"details": map[string]any{
			"new_assessment_result": map[string]any{
				"id": nil, "url": nil, "succeeded": d.Trigger == record.TriggerDrift, "drifted": d.Drifted > 0,
				"resources_drifted": d.Drifted, "resources_undrifted": d.Undrifted, "created_at": moment(d.At),
			},
			"prior_assessment_result": nil,
			"workspace_id":            o.Workspace.ID, "workspace_name": o.Workspace.Name,
			"organization_name": o.Workspace.Organization,
		},
	}
}

// line returns a sentence, with a link to the run in the form for the receiver.
func line(o notifications.Outgoing, address, link string) string {
	plain := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	where := plain.Replace(o.Workspace.Organization + "/" + o.Workspace.Name)
	if address == "" {
		return plain.Replace(o.Delivery.Message) + ": " + where
	}
	if o.Run.ID == "" {
		return fmt.Sprintf("%s: %s", plain.Replace(o.Delivery.Message), fmt.Sprintf(link, address, where))
	}
	text := fmt.Sprintf("%s: %s in %s", o.Delivery.Message, fmt.Sprintf(link, address, o.Run.ID), where)
	if o.Run.Message != "" {
		text += " (" + plain.Replace(o.Run.Message) + ")"
	}
	return text
}

type payload struct {
	PayloadVersion int            `json:"payload_version"`
	Configuration  string         `json:"notification_configuration_id"`
	RunURL         *string        `json:"run_url"`
	Run            *string        `json:"run_id"`
	Message        *string        `json:"run_message"`
	CreatedAt      *string        `json:"run_created_at"`
	CreatedBy      *string        `json:"run_created_by"`
	Workspace      *string        `json:"workspace_id"`
	WorkspaceName  *string        `json:"workspace_name"`
	Organization   *string        `json:"organization_name"`
	Notifications  []notification `json:"notifications"`
}

type notification struct {
	Message   string  `json:"message"`
	Trigger   string  `json:"trigger"`
	Status    *string `json:"run_status"`
	UpdatedAt *string `json:"run_updated_at"`
	UpdatedBy *string `json:"run_updated_by"`
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func moment(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return orNull(t.UTC().Format("2006-01-02T15:04:05.000Z"))
}
