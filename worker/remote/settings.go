// Package remote works on other hosts over SSH: it connects, copies files, and runs programs.
//
// It gets the evaluated arguments of a connection block, and has no knowledge of provisioners, tasks or
// workers.
package remote

import (
	"errors"
	"fmt"
	"math/big"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"
)

// The platforms of hosts, which determine the kind of scripts.
const (
	Unix    = "unix"
	Windows = "windows"
)

const (
	defaultUser    = "root"
	defaultPort    = 22
	defaultTimeout = 5 * time.Minute
)

// Settings are the arguments of a connection block, with their defaults.
type Settings struct {
	Target Login
	// Bastion is the host in between; its address is empty if there is none.
	Bastion Login
	// Agent is the socket of the SSH agent; empty if the agent is not used. AgentIdentity is the key to try
	// first: a file with the key, or the end of its comment.
	Agent, AgentIdentity string
	// Dir is the directory to which AgentIdentity is relative.
	Dir   string
	Proxy Proxy
	// Timeout is how long connecting is retried.
	Timeout time.Duration
	// ScriptPath is the path for scripts; %RAND% in it is replaced by digits.
	ScriptPath string
	Platform   string
}

// Login has the address and credentials of a host.
type Login struct {
	// Host is a name or an address, without the brackets of IPv6.
	Host string
	Port int
	User string

	Password, PrivateKey, Certificate string
	// HostKey is the key of the host, or of the authority that signs host keys, in the format of
	// authorized_keys. If it is empty, any key is accepted.
	HostKey string
}

func (l Login) address() string { return net.JoinHostPort(l.Host, strconv.Itoa(l.Port)) }

// Proxy is an HTTP proxy; its host is empty if there is none.
type Proxy struct {
	Scheme, Host   string
	Port           int
	User, Password string
}

// ErrWinRM means that the connection has the unsupported type winrm.
var ErrWinRM = errors.New("connections of the type winrm are not supported. " +
	"Install the OpenSSH server that comes with Windows on the machine, and use a connection of the type ssh with " +
	"target_platform = \"windows\"")

// NewSettings reads the value of a connection block, which has the schema in package provider/provisioner.
// agent is the socket of the SSH agent, empty if there is none; dir is the directory to which the name of a
// key's file is relative. The error is ErrWinRM for a connection of that type.
func NewSettings(v cty.Value, agent, dir string) (*Settings, error) {
	r := reader{v: v}
	s := &Settings{
		Target: Login{
			Host: bareHost(r.text("host")), Port: r.port("port"), User: r.text("user"), Password: r.text("password"),
			PrivateKey: r.text("private_key"), Certificate: r.text("certificate"), HostKey: r.text("host_key"),
		},
		Bastion: Login{
			Host: bareHost(r.text("bastion_host")), Port: r.port("bastion_port"), User: r.text("bastion_user"),
			Password:   r.text("bastion_password"),
			PrivateKey: r.text("bastion_private_key"), Certificate: r.text("bastion_certificate"),
			HostKey: r.text("bastion_host_key"),
		},
		AgentIdentity: r.text("agent_identity"), Dir: dir,
		Proxy: Proxy{
			Scheme: r.text("proxy_scheme"), Host: bareHost(r.text("proxy_host")), Port: r.port("proxy_port"),
			User: r.text("proxy_user_name"), Password: r.text("proxy_user_password"),
		},
		Timeout: r.duration("timeout"), ScriptPath: r.text("script_path"), Platform: r.text("target_platform"),
	}
	switch kind := r.text("type"); kind {
	case "", "ssh":
	case "winrm":
		return nil, ErrWinRM
	default:
		return nil, fmt.Errorf("connection type '%s' not supported", kind)
	}
	if r.err != nil {
		return nil, r.err
	}
	if err := s.agent(v.GetAttr("agent"), agent); err != nil {
		return nil, err
	}
	return s, s.complete()
}

// agent decides whether the agent is used: if there is one, unless the block disables it.
func (s *Settings) agent(wanted cty.Value, socket string) error {
	switch {
	case wanted.IsNull() || wanted.True() && socket != "":
		s.Agent = socket
	case wanted.True():
		return errors.New("SSH agent requested but SSH_AUTH_SOCK is not set where the worker runs")
	}
	return nil
}

// complete sets the defaults.
func (s *Settings) complete() error {
	t, b := &s.Target, &s.Bastion
	if t.Host == "" {
		return errors.New("host for provisioner cannot be empty")
	}
	defaultTo(&t.User, defaultUser)
	defaultTo(&t.Port, defaultPort)
	defaultTo(&s.Timeout, defaultTimeout)
	defaultTo(&s.Platform, Unix)
	switch s.Platform {
	case Unix:
		defaultTo(&s.ScriptPath, "/tmp/terraform_%RAND%.sh")
	case Windows:
		defaultTo(&s.ScriptPath, "C:/windows/temp/terraform_%RAND%.cmd")
	default:
		return fmt.Errorf("target_platform for provisioner has to be either %s or %s", Unix, Windows)
	}
	if b.Host != "" {
		defaultTo(&b.User, t.User)
		defaultTo(&b.Port, t.Port)
		defaultTo(&b.Password, t.Password)
		if b.PrivateKey == "" { // a certificate belongs to a key
			b.PrivateKey = t.PrivateKey
			defaultTo(&b.Certificate, t.Certificate)
		}
	}
	defaultTo(&s.Proxy.Scheme, "http")
	if s.Proxy.Port == 0 && s.Proxy.Host != "" {
		s.Proxy.Port = map[string]int{"https": 443}[s.Proxy.Scheme]
		defaultTo(&s.Proxy.Port, 80)
	}
	return nil
}

func defaultTo[T comparable](v *T, standard T) {
	if *v == *new(T) {
		*v = standard
	}
}

// bareHost removes the brackets of an IPv6 address.
func bareHost(host string) string {
	if inside, ok := strings.CutPrefix(host, "["); ok {
		return strings.TrimSuffix(inside, "]")
	}
	return host
}

// reader reads attributes of an object, and keeps the first error.
type reader struct {
	v   cty.Value
	err error
}

func (r *reader) text(name string) string {
	if v := r.v.GetAttr(name); !v.IsNull() {
		return v.AsString()
	}
	return ""
}

func (r *reader) port(name string) int {
	v := r.v.GetAttr(name)
	if v.IsNull() {
		return 0
	}
	n, exact := v.AsBigFloat().Int64()
	if exact != big.Exact || n < 0 || n > 65535 {
		if r.err == nil {
			r.err = fmt.Errorf("%s must be a port number, from 1 to 65535", name)
		}
		return 0
	}
	return int(n)
}

func (r *reader) duration(name string) time.Duration {
	text := r.text(name)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return defaultTimeout // like OpenTofu, ignore invalid values
	}
	return d
}
