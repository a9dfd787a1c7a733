package plugin

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/zclconf/go-cty/cty"
	"google.golang.org/grpc"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/tfplugin6"
)

// temporaryFiles is an environment that names the directory for temporary files, as that of the tests does.
func temporaryFiles() []string { return []string{"TMPDIR=" + os.TempDir()} }

func newHost(t *testing.T, o Options) *Host {
	t.Helper()
	if o.Env == nil {
		o.Env = temporaryFiles()
	}
	h := NewHost(o)
	t.Cleanup(h.Close)
	return h
}

func acquire(t *testing.T, h *Host, p Package, digest string, configure Configure) *Lease {
	t.Helper()
	l, diags := h.Acquire(t.Context(), p, digest, configure)
	for _, d := range diags {
		t.Fatalf("acquiring: %s", d.Error())
	}
	t.Cleanup(l.Release)
	return l
}

// pid asks the plugin for its process id.
func pid(t *testing.T, l *Lease) int {
	t.Helper()
	_, diags := l.Provider().ValidateProviderConfig(t.Context(), cty.EmptyObjectVal)
	if len(diags) != 1 {
		t.Fatalf("diagnostics: %v", diags)
	}
	n, err := strconv.Atoi(diags[0].Summary)
	if err != nil {
		t.Fatal(diags.Err())
	}
	return n
}

func runs(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestPluginsOfBothVersionsAreStartedAndEnded(t *testing.T) {
	for version, role := range map[int]string{5: "serve 5", 6: "serve 6"} {
		for _, plain := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, without TLS: %v", role, plain), func(t *testing.T) {
				h := NewHost(Options{Env: temporaryFiles(), DisableTLS: plain})
				l := acquire(t, h, playing(t, role), "", nil)
				s, diags := l.Provider().Schemas(t.Context())
				if diags.HasErrors() || s.ProtocolVersion != version {
					t.Errorf("schemas %+v, %v", s, diags)
				}
				process := l.member.process.(*started)
				answer := stranger(t, process)
				if refused := strings.Contains(answer.Error(), "certificate required"); refused == plain {
					t.Errorf("to a client without a certificate it answers: %v", answer)
				}
				h.Close()
				if process.alive() || runs(process.runner.cmd.Process.Pid) {
					t.Error("the process outlived its host")
				}
			})
		}
	}
}

// stranger connects to a plugin over TLS, without a certificate, and returns the error with which that ends.
func stranger(t *testing.T, s *started) error {
	t.Helper()
	at := s.client.ReattachConfig().Addr
	conn, err := (&net.Dialer{}).DialContext(t.Context(), at.Network(), at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() // the plugin has closed it
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, err = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).Read(make([]byte, 1)) //nolint:gosec // as strangers do
	if err == nil {
		t.Fatal("it has answered")
	}
	return err
}

func TestFailedStartNamesProviderAndLastWords(t *testing.T) {
	for role, words := range map[string]string{
		"crash when it starts":  "it ended before the handshake (exit status 2)",
		"hang in the handshake": "it did not finish the handshake within 300ms",
		"speak version 7":       "it speaks no version of the plugin protocol that is supported",
		"print nonsense":        "its answer is not a handshake",
	} {
		t.Run(role, func(t *testing.T) {
			h := newHost(t, Options{StartTimeout: timeoutFor(role)})
			l, diags := h.Acquire(t.Context(), playing(t, role), "", nil)
			if l != nil || len(diags) != 1 {
				t.Fatalf("lease %v, diagnostics %v", l, diags)
			}
			d := diags[0]
			if d.Summary != `Failed to instantiate provider "example.com/test/thing"` {
				t.Errorf("the summary is %q", d.Summary)
			}
			for _, want := range []string{"example.com/test/thing 1.2.3", words, "this is a plugin that will " + role} {
				if !strings.Contains(d.Detail, want) {
					t.Errorf("the detail lacks %q:\n%s", want, d.Detail)
				}
			}
			if role == "crash when it starts" && !strings.Contains(d.Detail, "panic: no good") {
				t.Errorf("the detail lacks the panic:\n%s", d.Detail)
			}
		})
	}
}

func timeoutFor(role string) time.Duration {
	if role == "hang in the handshake" {
		return 300 * time.Millisecond
	}
	return time.Minute
}

func TestFileThatIsNoProgramIsAReasonOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t, Options{})
	p := Package{Source: "example.com/test/thing", Dir: dir}
	_, diags := h.Acquire(t.Context(), p, "", nil)
	if err := diags.Err(); err == nil ||
		!strings.Contains(err.Error(), "holds no file named terraform-provider-thing") {
		t.Errorf("in an empty package: %v", err)
	}
	for _, name := range []string{"terraform-provider-thingamajig", "terraform-provider-thing_v1.2.3"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("no program"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, diags = h.Acquire(t.Context(), p, "", nil)
	if err := diags.Err(); err == nil ||
		!strings.Contains(err.Error(), "terraform-provider-thing_v1.2.3: permission denied") {
		t.Errorf("with a file that may not be executed: %v", err)
	}
}

func TestStartEndsWithTheContextOfTheLastWhoWaits(t *testing.T) {
	h := newHost(t, Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("changed my mind"))
	_, diags := h.Acquire(ctx, playing(t, "hang in the handshake"), "", nil)
	if err := diags.Err(); err == nil || !strings.Contains(err.Error(), "changed my mind") {
		t.Errorf("the error is %v", err)
	}
	h.Close() // returns only when the process is gone
}

// go-plugin waits for the end of a plugin's output, which a child of the plugin can hold open for ever.
func TestChildOfADeadPluginDoesNotKeepTheHostWaiting(t *testing.T) {
	h := newHost(t, Options{})
	_, diags := h.Acquire(t.Context(), playing(t, "leave a child behind"), "", nil)
	err := diags.Err()
	if err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Fatalf("the error is %v", err)
	}
	_, rest, _ := strings.Cut(err.Error(), "  child ")
	child, convErr := strconv.Atoi(strings.Fields(rest)[0])
	if convErr != nil {
		t.Fatalf("no child is named in: %s", err)
	}
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

func TestCrashedProcessIsReplacedAndItsLastWordsAreShown(t *testing.T) {
	h := newHost(t, Options{})
	p := playing(t, "serve 6")
	first := acquire(t, h, p, "", nil)
	before := pid(t, first)
	diags := first.Provider().Configure(t.Context(), cty.EmptyObjectVal, "crash")
	if len(diags) != 1 || diags[0].Summary != "Plugin did not respond" {
		t.Fatalf("diagnostics: %v", diags)
	}
	if _, lost := diags[0].Extra.(*provider.Lost); !lost {
		t.Error("the call does not count as lost")
	}
	for _, want := range []string{"example.com/test/thing", "exit status 2", "it will hurt",
		"panic: configured to death"} {
		if !strings.Contains(diags[0].Detail, want) {
			t.Errorf("the detail lacks %q:\n%s", want, diags[0].Detail)
		}
	}
	if after := pid(t, acquire(t, h, p, "", nil)); after == before {
		t.Error("the dead process was leased again")
	}
}

func TestProcessGetsTheEnvironmentOfHostAndPackageAndTheDirectoryThatIsAskedFor(t *testing.T) {
	h := newHost(t, Options{Env: []string{"MILLIPEDE_TEST_COLOUR=red", "PLUGIN_PROTOCOL_VERSIONS=5"}})
	p := playing(t, "serve 6")
	p.Env = append(p.Env, "MILLIPEDE_TEST_COLOUR=green")
	own, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	other, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// one process each: the second is not served by the first
	for dir, want := range map[string]string{"": own, other: other} {
		p.WorkDir = dir
		_, diags := acquire(t, h, p, "", nil).Provider().ValidateProviderConfig(t.Context(), cty.EmptyObjectVal)
		if len(diags) != 1 || diags[0].Detail != "green in "+want {
			t.Errorf("asked to run in %q: diagnostics %v", dir, diags)
		}
	}
}

// A restarted service removed the directory of a run just when a worker on its machine started the plugin there: the
// operation failed as if the plugin were missing.
func TestPluginWhoseDirectoryIsGoneRunsInThatOfItsHost(t *testing.T) {
	h := newHost(t, Options{Env: []string{"PLUGIN_PROTOCOL_VERSIONS=5"}})
	p := playing(t, "serve 6")
	p.WorkDir = filepath.Join(t.TempDir(), "gone")
	own, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	_, diags := acquire(t, h, p, "", nil).Provider().ValidateProviderConfig(t.Context(), cty.EmptyObjectVal)
	if len(diags) != 1 || !strings.HasSuffix(diags[0].Detail, " in "+own) {
		t.Errorf("diagnostics %v", diags)
	}
}

func TestPluginIsToldWhichOfItsLogLinesSomebodyReads(t *testing.T) {
	p := Package{Source: "example.com/test/big-thing", Env: []string{"A=2"}}
	for claim, c := range map[string]struct {
		env  []string
		log  hclog.Level
		want string
	}{
		"warnings, for the last words": {[]string{"A=1"}, hclog.Off, "A=1 TF_LOG_SDK=warn " +
			"TF_LOG_PROVIDER_BIG_THING=warn A=2"},
		"what the log takes": {nil, hclog.Debug,
			"TF_LOG_SDK=debug TF_LOG_PROVIDER_BIG_THING=debug A=2"},
		"what the environment says": {[]string{"TF_LOG_SDK=TRACE"}, hclog.Off, "TF_LOG_SDK=TRACE " +
			"TF_LOG_PROVIDER_BIG_THING=warn A=2"},
		"a variable that is empty says none": {[]string{"TF_LOG_SDK="}, hclog.Off, "TF_LOG_SDK= TF_LOG_SDK=warn " +
			"TF_LOG_PROVIDER_BIG_THING=warn A=2"},
	} {
		t.Run(claim, func(t *testing.T) {
			o := Options{Env: append([]string{}, c.env...),
				Log: hclog.New(&hclog.LoggerOptions{Level: c.log, Output: io.Discard})}
			if got := strings.Join(environment(o, p), " "); got != c.want {
				t.Errorf("the environment is %s", got)
			}
		})
	}
}

// hostOne is a host in a separate process: it prints its plugin's process ID and waits to be killed.
func hostOne() {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	h := NewHost(Options{Env: temporaryFiles()})
	l, diags := h.Acquire(context.Background(), Package{
		Source: "example.com/test/thing", Executable: self, Env: []string{roleVariable + "=serve 6"},
	}, "", nil)
	if diags.HasErrors() {
		panic(diags.Err())
	}
	fmt.Println(l.member.process.(*started).runner.ID())
	select {}
}

func TestPluginDiesWithAHostThatIsKilled(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host := exec.Command(self)
	host.Env = append(os.Environ(), roleVariable+"=host a plugin")
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	plugin, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	host.Wait() // an error, since it was killed
	for deadline := time.Now().Add(10 * time.Second); runs(plugin); {
		if stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", plugin)); strings.Contains(string(stat), ") Z ") {
			break // dead, and nobody has asked for its exit status yet
		}
		if time.Now().After(deadline) {
			syscall.Kill(plugin, syscall.SIGKILL)
			t.Fatal("the plugin survived its host")
		}
	}
}

func TestReattachedProcessIsUsedAndLeftAlone(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	tfplugin6.RegisterProviderServer(server, &server6{})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	all, err := ParseReattach(
		fmt.Sprintf(`{"example.com/test/thing":{"Protocol":"grpc","ProtocolVersion":6,"Pid":%d,"Test":true,`+
			`"Addr":{"Network":"unix","String":%q}}}`,
			os.Getpid(), listener.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	p := Package{Source: "example.com/test/thing", Reattach: all[addr.Provider{Host: "example.com", Namespace: "test",
		Type: "thing"}]}
	h := NewHost(Options{Env: temporaryFiles()})
	var configured []string
	with := func(name string) *Lease {
		return acquire(t, h, p, name, func(ctx context.Context, p provider.Provider) diag.List {
			configured = append(configured, name)
			return p.Configure(ctx, cty.EmptyObjectVal, "1.12.6")
		})
	}
	with("a")
	with("a")
	with("b") // the process has one configuration: that of a is gone,
	with("a") // and must be made again
	if got := strings.Join(configured, " "); got != "a b a" {
		t.Errorf("configured %s", got)
	}
	if n := pid(t, with("a")); n != os.Getpid() {
		t.Errorf("process %d answered", n)
	}
	h.Close()

	again := newHost(t, Options{})
	if n := pid(t, acquire(t, again, p, "", nil)); n != os.Getpid() {
		t.Error("the process was not left alone")
	}
}

func TestReattachedProcessThatIsNotThereIsLost(t *testing.T) {
	h := newHost(t, Options{})
	p := Package{Source: "example.com/test/thing", Reattach: &Reattach{ProtocolVersion: 5, Network: "unix",
		Address: filepath.Join(t.TempDir(), "none"), PID: 7}}
	_, diags := acquire(t, h, p, "", nil).Provider().Schemas(t.Context())
	if len(diags) != 1 || diags[0].Summary != "Plugin did not respond" ||
		!strings.Contains(diags[0].Detail, "process id 7") {
		t.Errorf("diagnostics: %v", diags)
	}
}

func TestReattachValueIsReadOrRefused(t *testing.T) {
	entry := func(version int, network string) string {
		return fmt.Sprintf(`{"test/thing":{"Protocol":"grpc","ProtocolVersion":%d,"Pid":1,"Test":true,`+
			`"Addr":{"Network":%q,"String":"x"}}}`, version, network)
	}
	for claim, c := range map[string]struct {
		text    string
		version int // 0: refused
	}{
		"version 6":                         {entry(6, "unix"), 6},
		"version 5 over TCP":                {entry(5, "tcp"), 5},
		"no version, which means version 5": {entry(0, "unix"), 5},
		"version 4":                         {entry(4, "unix"), 0},
		"another network":                   {entry(6, "carrier pigeon"), 0},
		"no JSON":                           {`{`, 0},
		"no provider address":               {`{"a/b/c/d":{}}`, 0},
	} {
		t.Run(claim, func(t *testing.T) {
			all, err := ParseReattach(c.text)
			if (err != nil) != (c.version == 0) {
				t.Fatalf("the error is %v", err)
			}
			for _, r := range all {
				if r.ProtocolVersion != c.version || r.Address != "x" {
					t.Errorf("read %+v", r)
				}
			}
		})
	}
	if all, err := ParseReattach(""); len(all) != 0 || err != nil {
		t.Errorf("an empty variable gives %v, %v", all, err)
	}
}

func TestLinesOfPluginsGoToTheLogThatTheEnvironmentAsksFor(t *testing.T) {
	for claim, c := range map[string]struct {
		env   map[string]string
		level hclog.Level
	}{
		"nothing":         {nil, hclog.Off},
		"set but empty":   {map[string]string{"TF_LOG": "", "TF_LOG_PROVIDER": ""}, hclog.Off},
		"a level for all": {map[string]string{"TF_LOG": "info"}, hclog.Info},
		"a level for providers counts": {map[string]string{"TF_LOG": "TRACE", "TF_LOG_PROVIDER": "ERROR"},
			hclog.Error},
		"JSON is trace in another form": {map[string]string{"TF_LOG_PROVIDER": "JSON"}, hclog.Trace},
		"an unknown level is trace":     {map[string]string{"TF_LOG_PROVIDER": "loud"}, hclog.Trace},
	} {
		t.Run(claim, func(t *testing.T) {
			var out strings.Builder
			l := LogFromEnvironment(func(k string) string { return c.env[k] }, &out)
			if l.GetLevel() != c.level {
				t.Errorf("the level is %s", l.GetLevel())
			}
		})
	}
	out := &tail{}
	h := NewHost(Options{Env: temporaryFiles(),
		Log: hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: out.writer()})})
	acquire(t, h, playing(t, "serve 6"), "", nil)
	h.Close()
	if !strings.Contains(out.text(), "this is a plugin that will serve 6") {
		t.Errorf("the log lacks what the plugin wrote:\n%s", out.text())
	}
}

func TestTailKeepsThePanicAndTheLastLinesInShort(t *testing.T) {
	var kept tail
	w := kept.writer()
	fmt.Fprintln(w, `{"@level":"debug","@message":"chatter"}`)
	fmt.Fprint(w, "panic: bad\n\ngoroutine 1 [running]:\n")
	for i := range 100 {
		fmt.Fprintf(w, "frame %d\n", i)
	}
	fmt.Fprintln(w, `{"@level":"warn","@message":"oh dear","n":3}`)
	fmt.Fprint(kept.writer(), "another source")
	fmt.Fprint(w, strings.Repeat("x", 100_000))
	got := strings.Split(kept.text(), "\n")
	if len(got) != 1+panicLines+tailLines+2 {
		t.Errorf("%d lines were kept:\n%s", len(got), kept.text())
	}
	for _, want := range []string{"  panic: bad", "  frame 99", "  [WARN] oh dear n=3", "  another source"} {
		if !strings.Contains(kept.text(), want+"\n") && !strings.HasSuffix(kept.text(), want) {
			t.Errorf("%q was not kept:\n%s", want, kept.text())
		}
	}
	if strings.Contains(kept.text(), "chatter") || strings.Contains(kept.text(), "frame 50") {
		t.Errorf("too much was kept:\n%s", kept.text())
	}
}
