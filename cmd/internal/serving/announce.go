package serving

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"github.com/millipede-iac/millipede/internal/wholefile"
)

// hostOf returns the host under which clients reach the service.
func hostOf(o Options, at net.Addr) string {
	if o.Address != "" {
		return strings.TrimSuffix(strings.TrimPrefix(o.Address, "https://"), "/")
	}
	_, port, err := net.SplitHostPort(at.String())
	if err != nil {
		port = ""
	}
	return "localhost:" + port
}

// announce prints the address of the service, and the commands that make a client trust it and log in.
func (s *serving) announce(o Options, at net.Addr, trust, token string) {
	host, handedOver := hostOf(o, at), ""
	if token != "" { // the file is there when a program reads the address
		handedOver = s.handOver(token)
	}
	fmt.Fprintf(s.Out, "Millipede serves https://%s, with its data in %s. Open this address in a browser to see the runs."+
		"\n\nTo make a client trust the service, and to log in:\n", host, o.Data)
	if trust != "" {
		fmt.Fprintf(s.Out, "  export SSL_CERT_FILE=%s\n", trust)
	}
	fmt.Fprintf(s.Out, "  tofu login %s\n", host)
	if token != "" {
		fmt.Fprintf(s.Out, "\nThe administrator is \"admin\". %s\n", handedOver)
	}
	fmt.Fprintln(s.Out)
}

// tokenFile is the file in the directory of the data that gets the administrator's first token.
const tokenFile = "admin.token"

// handOver returns the text that gives the administrator's first token to the operator. A journal or the log of a
// container is kept, and read by many, so the token is shown on terminals alone; otherwise a file gets it.
func (s *serving) handOver(token string) string {
	if s.Watched {
		return "The token, which is shown only once, is also a password to log in with:\n  " + token
	}
	file := filepath.Join(s.Data, tokenFile)
	if err := wholefile.Durable(file, wholefile.Private, wholefile.Bytes([]byte(token+"\n"))); err != nil {
		return fmt.Sprintf("The token, which is also a password to log in with, should be in a file, but writing that "+
			"failed (%s). It is shown only here:\n  %s", err, token)
	}
	return "The token, which is also a password to log in with, is in this file, which only the user of the service can " +
		"read. Remove it when you have the token:\n  " + file
}
