package notify

import (
	"crypto/tls"
	"crypto/x509"

	"github.com/wneessen/go-mail"
)

// Trust has the certificate of the mail server checked against roots of the test.
func (m *Mail) Trust(roots *x509.CertPool) {
	m.options = append(m.options, mail.WithTLSConfig(&tls.Config{RootCAs: roots, ServerName: m.host}))
}
