//go:build unix

package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"
	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/millipede-iac/millipede/provider/provisioner"
	"github.com/millipede-iac/millipede/test/stage/sshd"
	"github.com/millipede-iac/millipede/worker/remote"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// block returns a connection block; all other arguments are null.
func block(arguments map[string]any) cty.Value {
	vals := map[string]cty.Value{}
	for name, a := range provisioner.Connection.Attributes {
		switch v := arguments[name].(type) {
		case string:
			vals[name] = cty.StringVal(v)
		case int:
			vals[name] = cty.NumberIntVal(int64(v))
		case bool:
			vals[name] = cty.BoolVal(v)
		default:
			vals[name] = cty.NullVal(a.Type)
		}
	}
	return cty.ObjectVal(vals)
}

// to returns the arguments that every connection to a server has.
func to(t *testing.T, s *sshd.Server, more map[string]any) map[string]any {
	arguments := map[string]any{
		"host": s.Host, "port": s.Port, "user": s.User, "timeout": "300ms", "script_path": filepath.Join(t.TempDir(),
			"script_%RAND%.sh"),
	}
	for name, v := range more {
		arguments[name] = v
	}
	return arguments
}

// connect connects by a block, with the agent at a socket if there is one.
func connect(t *testing.T, arguments map[string]any, socket string) (*remote.Client, error) {
	t.Helper()
	settings, err := remote.NewSettings(block(arguments), socket, "")
	if err != nil {
		return nil, err
	}
	if arguments["timeout"] == "300ms" { // which is for what fails; what succeeds may take its time
		settings.Timeout = time.Minute
	}
	return remote.Connect(t.Context(), settings, nil)
}

// works checks that a connection to a server can be made.
func works(t *testing.T, arguments map[string]any, socket string) {
	t.Helper()
	c, err := connect(t, arguments, socket)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := c.Run("echo here", &out); err != nil || strings.TrimSpace(out.String()) != "here" {
		t.Errorf("the output of a command is %q: %v", out.String(), err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// fails checks that no connection can be made, and returns the error.
func fails(t *testing.T, arguments map[string]any, socket string, part string) {
	t.Helper()
	settings, err := remote.NewSettings(block(arguments), socket, "")
	if err == nil {
		_, err = remote.Connect(t.Context(), settings, nil)
	}
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("got %v, want %q in it", err, part)
	}
}

func TestAKeyItsCertificateAndAnAgentOpenTheDoor(t *testing.T) {
	sshd.Each(t, func(t *testing.T, s *sshd.Server) {
		works(t, to(t, s, map[string]any{"private_key": s.PrivateKey}), "")
		key, signer := sshd.NewKey(t)
		works(t, to(t, s, map[string]any{"private_key": key, "certificate": s.Certify(t, signer.PublicKey())}), "")
		works(t, to(t, s, nil), startAgent(t, key, s.PrivateKey))
		works(t, to(t, s, map[string]any{"private_key": key}), startAgent(t, s.PrivateKey)) // one after the other

		fails(t, to(t, s, map[string]any{"private_key": key}), "", "SSH authentication failed")
		fails(t, to(t, s, nil), startAgent(t, key), "SSH authentication failed")
		fails(t, to(t, s, map[string]any{"agent": false}), startAgent(t, s.PrivateKey), "SSH authentication failed")
		fails(t, to(t, s, map[string]any{"agent": true}), "", "SSH_AUTH_SOCK")
	})
}

func TestAPasswordOpensTheDoorToo(t *testing.T) {
	s := sshd.Start(t)
	works(t, to(t, s, map[string]any{"password": s.Password}), "")
	fails(t, to(t, s, map[string]any{"password": "battery staple"}), "", "SSH authentication failed")
}

// An agent with more keys than a server permits attempts is useless unless the right key comes first.
func TestTheIdentityThatIsNamedIsTriedFirst(t *testing.T) {
	sshd.Each(t, func(t *testing.T, s *sshd.Server) {
		var keys []string
		for range 8 {
			key, _ := sshd.NewKey(t)
			keys = append(keys, key)
		}
		socket := startAgent(t, append(keys, s.PrivateKey)...)
		file := filepath.Join(t.TempDir(), "id")
		signer, err := ssh.ParsePrivateKey([]byte(s.PrivateKey))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file+".pub", []byte(sshd.Public(signer)), 0o600); err != nil {
			t.Fatal(err)
		}
		works(t, to(t, s, map[string]any{"agent_identity": file}), socket)
		works(t, to(t, s, map[string]any{"agent_identity": "key 8"}), socket) // its comment
		fails(t, to(t, s, map[string]any{"agent_identity": "key 0"}), socket, "SSH authentication failed")
	})
}

// startAgent starts an SSH agent with keys, and returns its socket. The comment of a key is its number.
func startAgent(t *testing.T, keys ...string) string {
	t.Helper()
	ring := agent.NewKeyring()
	for i, text := range keys {
		key, err := ssh.ParseRawPrivateKey([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := ring.Add(agent.AddedKey{PrivateKey: key, Comment: fmt.Sprint("key ", i)}); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "agent") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			agent.ServeAgent(ring, conn) // it ends when the client hangs up
			conn.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func TestTheHostMustShowTheKeyThatIsKnown(t *testing.T) {
	sshd.Each(t, func(t *testing.T, s *sshd.Server) {
		works(t, to(t, s, map[string]any{"private_key": s.PrivateKey, "host_key": s.HostKey}), "")
		_, other := sshd.NewKey(t)
		fails(t, to(t, s, map[string]any{"private_key": s.PrivateKey, "host_key": sshd.Public(other)}), "",
			"not the one of the connection block")
		fails(t, to(t, s, map[string]any{"private_key": s.PrivateKey, "host_key": "nonsense"}), "",
			"reading the host key")
	})
}

func TestABastionLiesInBetween(t *testing.T) {
	sshd.Each(t, func(t *testing.T, s *sshd.Server) {
		bastion := sshd.Start(t)
		through := func(more map[string]any) map[string]any {
			arguments := to(t, s, map[string]any{
				"private_key": s.PrivateKey, "bastion_host": bastion.Host, "bastion_port": bastion.Port,
				"bastion_user": "gate", "bastion_password": bastion.Password, "bastion_host_key": bastion.HostKey,
			})
			for name, v := range more {
				arguments[name] = v
			}
			return arguments
		}
		works(t, through(nil), "")
		fails(t, through(map[string]any{"bastion_password": "wrong"}), "", "connecting to the bastion")
		fails(t, through(map[string]any{"bastion_host_key": s.HostKey}), "", "connecting to the bastion")
		// The bastion has the machine's arguments unless it has others.
		works(t, to(t, s, map[string]any{"private_key": s.PrivateKey, "bastion_host": "127.0.0.1"}), "")
	})
}

func TestAProxyLiesInBetween(t *testing.T) {
	s := sshd.Start(t)
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := (&http.Request{
			Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).BasicAuth()
		asked = append(asked, r.Method+" "+r.Host+" "+user)
		if password != "pw" {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		tunnel(w, r.Host)
	}))
	t.Cleanup(proxy.Close)
	host, portText, _ := net.SplitHostPort(proxy.Listener.Addr().String())
	port, _ := strconv.Atoi(portText)
	arguments := to(t, s, map[string]any{"password": s.Password, "proxy_host": host, "proxy_port": port,
		"proxy_user_name": "me", "proxy_user_password": "pw"})
	works(t, arguments, "")
	if want := fmt.Sprintf("CONNECT %s:%d me", s.Host, s.Port); len(asked) != 1 || asked[0] != want {
		t.Errorf("the proxy got the requests %q, want %q", asked, want)
	}
	arguments["proxy_user_password"] = "wrong"
	fails(t, arguments, "", "407")
}

// tunnel connects a request to an address, until either end hangs up.
func tunnel(w http.ResponseWriter, address string) {
	there, err := net.Dial("tcp", address)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	here, in, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	fmt.Fprint(here, "HTTP/1.1 200 OK\r\n\r\n")
	done := make(chan struct{})
	go func() {
		defer close(done)
		in.WriteTo(there) // either end may hang up
		there.Close()
	}()
	buffer := make([]byte, 1<<16)
	for {
		n, err := there.Read(buffer)
		if _, werr := here.Write(buffer[:n]); err != nil || werr != nil {
			break
		}
	}
	here.Close()
	there.Close()
	<-done
}

func TestConnectingIsTriedUntilTheTimeIsOver(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	settings, err := remote.NewSettings(block(map[string]any{"host": "127.0.0.1", "port": port, "timeout": "1200ms"}),
		"", "")
	if err != nil {
		t.Fatal(err)
	}
	tries := 0
	_, err = remote.Connect(t.Context(), settings, func(string) { tries++ })
	if err == nil || !strings.HasPrefix(err.Error(), "timeout - last error:") || tries != 2 {
		t.Errorf("after %d tries: %v", tries, err)
	}
	stopped, stop := context.WithCancel(t.Context())
	settings.Timeout = time.Hour
	_, err = remote.Connect(stopped, settings, func(string) { stop() })
	if err == nil || !strings.HasPrefix(err.Error(), "interrupted - last error:") {
		t.Errorf("after the context has ended: %v", err)
	}
}

func TestATryIsAnnouncedAsOpenTofuDoes(t *testing.T) {
	s := sshd.Start(t)
	settings, err := remote.NewSettings(block(to(t, s, map[string]any{"password": s.Password, "host_key": s.HostKey})),
		"", "")
	if err != nil {
		t.Fatal(err)
	}
	settings.Timeout = time.Minute
	var said []string
	c, err := remote.Connect(t.Context(), settings, func(text string) { said = append(said, text) })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want := "Connecting to remote host via SSH...\n  Host: 127.0.0.1\n  User: " + s.User +
		"\n  Password: true\n  Private key: false\n" +
		"  Certificate: false\n  SSH Agent: false\n  Checking Host Key: true\n  Target Platform: unix"
	if len(said) != 2 || said[0] != want || said[1] != "Connected!" {
		t.Errorf("said %q", said)
	}
}

func TestACommandThatFailsTellsItsStatusAndOneThatIsStoppedEnds(t *testing.T) {
	sshd.Each(t, func(t *testing.T, s *sshd.Server) {
		settings, err := remote.NewSettings(block(to(t, s, map[string]any{"private_key": s.PrivateKey})), "", "")
		if err != nil {
			t.Fatal(err)
		}
		settings.Timeout = time.Minute
		ctx, stop := context.WithCancel(t.Context())
		c, err := remote.Connect(ctx, settings, nil)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err = c.RunScript([]byte("echo so far\nexit 7\n"), &out)
		failed := (*remote.CommandError)(nil)
		if !errors.As(err, &failed) || !strings.HasSuffix(err.Error(), "Process exited with status 7") ||
			strings.TrimSpace(out.String()) != "so far" {
			t.Errorf("got %v and %q", err, out.String())
		}
		left, err := os.ReadFile(failed.Command)
		if err != nil || len(left) > 0 {
			t.Errorf("the script is left behind: %q %v", left, err)
		}
		err = c.Run("echo begun; exec sleep 60", writerFunc(func([]byte) { stop() }))
		if err == nil {
			t.Error("a canceled command has succeeded")
		}
		c.Close()
	})
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

func TestFilesAndDirectoriesAreCopiedAsScpDoes(t *testing.T) {
	tree := func() *remote.Tree {
		return &remote.Tree{Name: "conf", Dir: true, Entries: []*remote.Tree{
			remote.Bytes("a.txt", []byte("one")),
			{Name: "deep", Dir: true, Entries: []*remote.Tree{remote.Bytes("b c.txt", nil)}},
		}}
	}
	sshd.Each(t, func(t *testing.T, s *sshd.Server) {
		c, err := connect(t, to(t, s, map[string]any{"private_key": s.PrivateKey}), "")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		dir := filepath.Join(t.TempDir(), "it's here")
		for _, name := range []string{dir, filepath.Join(dir, "contents")} {
			if err := os.Mkdir(name, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		no := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		no(c.Copy(filepath.Join(dir, "file"), remote.Bytes("other name", []byte("text"))))
		no(c.CopyDir(dir, tree(), false))                           // into what is there
		no(c.CopyDir(filepath.Join(dir, "new"), tree(), false))     // as what is not
		no(c.CopyDir(filepath.Join(dir, "contents"), tree(), true)) // only what is in it
		for path, want := range map[string]string{
			"file": "text", "conf/a.txt": "one", "conf/deep/b c.txt": "", "new/a.txt": "one", "contents/a.txt": "one",
			"contents/deep/b c.txt": "",
		} {
			got, err := os.ReadFile(filepath.Join(dir, path))
			if err != nil || string(got) != want {
				t.Errorf("%s: %q %v", path, got, err)
			}
		}
		if err := c.Copy(filepath.Join(dir, "missing", "missing too", "file"),
			remote.Bytes("", []byte("text"))); err == nil {
			t.Error("a file was copied into a directory that does not exist")
		}
	})
}

func TestWhatABlockCannotMeanIsSaid(t *testing.T) {
	for want, arguments := range map[string]map[string]any{
		"host for provisioner cannot be empty":                             {"host": ""},
		"connection type 'telnet' not supported":                           {"host": "h", "type": "telnet"},
		"connections of the type winrm are not supported":                  {"host": "h", "type": "winrm"},
		"target_platform for provisioner has to be either unix or windows": {"host": "h", "target_platform": "amiga"},
		"port must be a port number":                                       {"host": "h", "port": 70000},
		"Failed to read ssh private key: no key found":                     {"host": "h", "private_key": "x"},
	} {
		fails(t, arguments, "", want)
	}
}

func TestWhatABlockDoesNotSayHasADefault(t *testing.T) {
	s, err := remote.NewSettings(block(map[string]any{"host": "[::1]", "bastion_host": "b", "password": "p",
		"timeout": "soon", "proxy_host": "x"}), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if s.Target.Host != "::1" || s.Target.User != "root" || s.Target.Port != 22 || s.Timeout != 5*time.Minute ||
		s.ScriptPath != "/tmp/terraform_%RAND%.sh" {
		t.Errorf("got %+v", s)
	}
	if s.Bastion.User != "root" || s.Bastion.Port != 22 || s.Bastion.Password != "p" || s.Proxy.Scheme != "http" ||
		s.Proxy.Port != 80 {
		t.Errorf("got %+v", s)
	}
	s, err = remote.NewSettings(block(map[string]any{"host": "w", "target_platform": "windows"}), "", "")
	if err != nil || s.ScriptPath != "C:/windows/temp/terraform_%RAND%.cmd" {
		t.Errorf("got %+v %v", s, err)
	}
}
