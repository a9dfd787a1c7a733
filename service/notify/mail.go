package notify

import (
	"context"
	"errors"
	"fmt"
	stdmail "net/mail"
	"net/url"
	"strconv"
	"strings"

	"github.com/wneessen/go-mail"

	"github.com/millipede-iac/millipede/service/notifications"
	"github.com/millipede-iac/millipede/service/record"
)

// Mail is the server for notifications by mail. ParseMail makes it.
type Mail struct {
	// From is the sender of mails.
	From string

	host    string
	options []mail.Option
}

// ParseMail parses the address of a mail server: smtp://[USER@]HOST[:PORT], port 587, with STARTTLS if the
// server offers it, and always if there is a user; or smtps://[USER@]HOST[:PORT], port 465, with implicit TLS.
func ParseMail(address, from, password string) (*Mail, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "smtp" && u.Scheme != "smtps" || u.Path != "" ||
		u.RawQuery != "":
		return nil, errors.New("the mail server must be smtp://[USER@]HOST[:PORT] or smtps://[USER@]HOST[:PORT]")
	case withPassword(u):
		return nil, errors.New("the address of the mail server has a password, which every process on this machine may " +
			"read; put it into a file")
	case (u.User == nil) != (password == ""):
		return nil, errors.New("the user of the mail server and the file with the password belong together")
	}
	m := &Mail{host: u.Hostname()}
	sender, err := stdmail.ParseAddress(from)
	if err != nil {
		return nil, fmt.Errorf("%q is not a valid sender address: %w", from, err)
	}
	m.From = sender.String()
	port := 587
	if u.Scheme == "smtps" {
		port = 465
		m.options = append(m.options, mail.WithSSL())
	}
	if text := u.Port(); text != "" {
		if port, err = strconv.Atoi(text); err != nil || port < 1 || port > 65535 {
			return nil, fmt.Errorf("%s is no port", text)
		}
	}
	m.options = append(m.options, mail.WithPort(port), mail.WithTimeout(timeout))
	if u.User == nil {
		m.options = append(m.options, mail.WithTLSPolicy(mail.TLSOpportunistic))
		return m, nil
	}
	m.options = append(m.options, mail.WithTLSPolicy(mail.TLSMandatory), mail.WithUsername(u.User.Username()),
		mail.WithPassword(password), mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover))
	return m, nil
}

func withPassword(u *url.URL) bool {
	if u.User == nil {
		return false
	}
	_, has := u.User.Password()
	return has
}

// mail sends a notification to all recipients, in one mail each, so that they do not see each other. It
// succeeds if the server accepts all; after a temporary failure all get it again.
func (s *Sender) mail(ctx context.Context, o notifications.Outgoing) (r record.Response, again bool) {
	r.SentAt = s.o.Now().UTC()
	if s.o.Mail == nil {
		r.Body = "the service has no mail server: set one with serve -smtp"
		return r, false
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	messages, err := s.o.Mail.send(ctx, o.Recipients, subject(o), s.text(o))
	if err == nil {
		r.Code, r.Body = 250, fmt.Sprintf("taken for %d recipients", len(o.Recipients))
		return r, false
	}
	r.Body, again = clip(err.Error()), true // as long as the server has refused none of the mails
	for i, message := range messages {
		var refused *mail.SendError
		if errors.As(message.SendError(), &refused) {
			r.Code = refused.ErrorCode()
			r.Body = clip(fmt.Sprintf("%s: %s", o.Recipients[i], refused))
			if again = refused.IsTemp(); again {
				break
			}
		}
	}
	return r, again
}

// send returns the messages with the result of each. The error says that some were not accepted.
func (m *Mail) send(ctx context.Context, to []string, subject, text string) ([]*mail.Msg, error) {
	messages := make([]*mail.Msg, len(to))
	for i, address := range to {
		message := mail.NewMsg(mail.WithNoDefaultUserAgent())
		if err := errors.Join(message.From(m.From), message.To(address)); err != nil {
			return nil, err
		}
		message.Subject(subject)
		message.SetDate()
		message.SetMessageID()
		message.SetBodyString(mail.TypeTextPlain, text)
		messages[i] = message
	}
	client, err := mail.NewClient(m.host, m.options...)
	if err != nil {
		return nil, err
	}
	return messages, client.DialAndSendWithContext(ctx, messages...)
}

func subject(o notifications.Outgoing) string {
	return fmt.Sprintf("%s: %s/%s", o.Delivery.Message, o.Workspace.Organization, o.Workspace.Name)
}

// text returns the text of a mail.
func (s *Sender) text(o notifications.Outgoing) string {
	var b strings.Builder
	line := func(what, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-10s %s\n", what+":", value)
		}
	}
	fmt.Fprintf(&b, "%s\n\n", o.Delivery.Message)
	line("Workspace", o.Workspace.Organization+"/"+o.Workspace.Name)
	line("Run", o.Run.ID)
	line("Status", string(o.Delivery.Status))
	line("Message", o.Run.Message)
	if d := o.Delivery; d.Trigger == record.TriggerDrift {
		line("Drifted", fmt.Sprintf("%d of %d objects", d.Drifted, d.Drifted+d.Undrifted))
	}
	line("Details", s.page(o))
	return b.String()
}
