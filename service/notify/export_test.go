package notify

import (
	"context"
	"crypto/tls"
	"crypto/x509"

	"github.com/wneessen/go-mail"

	"github.com/millipede-iac/millipede/service/notifications"
)

// Deliver sends one notification now.
func (s *Sender) Deliver(ctx context.Context, o notifications.Outgoing) { s.deliver(ctx, o) }

// Trust checks the certificate of the mail server against roots of the test.
func (m *Mail) Trust(roots *x509.CertPool) {
	m.options = append(m.options, mail.WithTLSConfig(&tls.Config{RootCAs: roots, ServerName: m.host}))
}
