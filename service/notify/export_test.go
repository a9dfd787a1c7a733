package notify

import (
	"crypto/tls"
	"crypto/x509"

	"github.com/wneessen/go-mail"
)

// Trust checks the certificate of the mail server against roots of the test.
func (m *Mail) Trust(roots *x509.CertPool) {
	m.options = append(m.options, mail.WithTLSConfig(&tls.Config{RootCAs: roots, ServerName: m.host}))
}
