package jet_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/millipede-iac/millipede/test/stage/nats"
	"github.com/millipede-iac/millipede/wire/jet"
)

// admitted checks that a server accepts a connection with the options, and none without credentials.
func admitted(t *testing.T, o server.Options, with jet.Options) {
	t.Helper()
	o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", -1, true, true
	ns := startServer(t, o)
	with.URL, with.Log = ns.ClientURL(), logTo(t)
	c, err := jet.Connect(t.Context(), with)
	if err != nil {
		t.Fatal(err)
	}
	closeAll(t, c)
	with.User, with.Password, with.Token, with.NKeyFile, with.CredentialsFile, with.CertificateFile, with.KeyFile = "",
		"", "", "", "", "", ""
	if c, err := jet.Connect(t.Context(), with); err == nil {
		closeAll(t, c)
		t.Error("a connection without credentials is accepted")
	}
}

// secret writes a file with a secret.
func secret(t *testing.T, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAUserATokenAndAnNKeyAreAdmitted(t *testing.T) {
	admitted(t, server.Options{Username: "u", Password: "p"}, jet.Options{User: "u", Password: "p"})
	admitted(t, server.Options{Authorization: "t"}, jet.Options{Token: "t"})
	pair := must(nkeys.CreateUser())(t)
	admitted(t, server.Options{Nkeys: []*server.NkeyUser{{Nkey: must(pair.PublicKey())(t)}}},
		jet.Options{NKeyFile: secret(t, must(pair.Seed())(t))})
}

// A server in operator mode has no list of users: it accepts users that were signed by an account that the operator has
// signed.
func TestACredentialsFileIsAdmittedByAServerInOperatorMode(t *testing.T) {
	operator, account, system, user := must(nkeys.CreateOperator())(t), must(nkeys.CreateAccount())(t),
		must(nkeys.CreateAccount())(t), must(nkeys.CreateUser())(t)
	claims := jwt.NewOperatorClaims(must(operator.PublicKey())(t))
	claims.SystemAccount = must(system.PublicKey())(t)
	resolver := &server.MemAccResolver{}
	for _, a := range []nkeys.KeyPair{account, system} {
		name := must(a.PublicKey())(t)
		if err := resolver.Store(name, must(jwt.NewAccountClaims(name).Encode(operator))(t)); err != nil {
			t.Fatal(err)
		}
	}
	signed := must(jwt.NewUserClaims(must(user.PublicKey())(t)).Encode(account))(t)
	file := must(jwt.FormatUserConfig(signed, must(user.Seed())(t)))(t)
	must(claims.Encode(operator))(t)
	admitted(t, server.Options{TrustedOperators: []*jwt.OperatorClaims{claims}, AccountResolver: resolver,
		SystemAccount: claims.SystemAccount},
		jet.Options{CredentialsFile: secret(t, file)})
}

func TestOverTLSBothSidesShowACertificateOfTheAuthority(t *testing.T) {
	files, err := nats.MakeCertificates(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	own := must(tls.LoadX509KeyPair(files.ServerCert, files.ServerKey))(t)
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(must(os.ReadFile(files.CA))(t))
	o := server.Options{
		TLS: true, TLSVerify: true, TLSTimeout: 5,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert,
			ClientCAs: authorities},
	}
	with := jet.Options{CAFile: files.CA, CertificateFile: files.ClientCert, KeyFile: files.ClientKey}
	admitted(t, o, with)

	stranger, err := nats.MakeCertificates(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", -1, true, true
	with.URL, with.CAFile = startServer(t, o).ClientURL(), stranger.CA
	if c, err := jet.Connect(t.Context(), with); err == nil {
		closeAll(t, c)
		t.Error("a server of another authority is trusted")
	}
}
