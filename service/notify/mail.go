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

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
)

// Mail is the server that takes notifications by mail. Make it with ParseMail.
type Mail struct {
	// From is the address that mails come from.
	From string

	host    string
	options []mail.Option
}

// ParseMail reads where mail goes: smtp://[USER@]HOST[:PORT], port 587, encrypted by STARTTLS where the server offers
// that, and always when there is a user; or smtps://[USER@]HOST[:PORT], port 465, encrypted from the beginning.
func ParseMail(address, from, password string) (*Mail, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "smtp" && u.Scheme != "smtps" || u.Path != "" ||
		u.RawQuery != "":
		return nil, errors.New("the mail server must be smtp://[USER@]HOST[:PORT] or smtps://[USER@]HOST[:PORT]")
	case withPassword(u):
		return nil, errors.New("the address of the mail server has a password, which every process of this machine may " +
			"read; it belongs into a file")
	case (u.User == nil) != (password == ""):
		return nil, errors.New("the user of the mail server and the file with the password belong together")
	}
	m := &Mail{host: u.Hostname()}
	sender, err := stdmail.ParseAddress(from)
	if err != nil {
		return nil, fmt.Errorf("%q is no address for mails to come from: %w", from, err)
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
	m.options = append(m.options, mail.WithPort(port), mail.WithTimeout(patience))
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

// mail sends a notification to people, one mail each, so that none learns of the others. It counts as taken when all
// were; after a failure that may pass all get it again.
func (s *Sender) mail(ctx context.Context, o service.Outgoing) (r record.Response, again bool) {
	r.SentAt = s.o.Now().UTC()
	if s.o.Mail == nil {
		r.Body = "the service has no mail server: serve -smtp names one"
		return r, false
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
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

// send returns the messages that it has made, with what came of each. The error tells whether any was not taken.
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

func subject(o service.Outgoing) string {
	return fmt.Sprintf("%s: %s/%s", o.Delivery.Message, o.Workspace.Organization, o.Workspace.Name)
}

// text is what a mail says.
func (s *Sender) text(o service.Outgoing) string {
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
	if d := o.Delivery; d.Trigger == service.TriggerDrift {
		line("Drifted", fmt.Sprintf("%d of %d objects", d.Drifted, d.Drifted+d.Undrifted))
	}
	line("Details", s.page(o))
	return b.String()
}
