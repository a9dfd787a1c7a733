package serving

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/service/group"
	"github.com/millipede-iac/millipede/service/relay"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/state/features"
	"github.com/millipede-iac/millipede/state/log"
	"github.com/millipede-iac/millipede/state/recorded"
	"github.com/millipede-iac/millipede/state/seal"
)

// A member of a group listens all the time. It has a service while it leads, and passes requests on otherwise.

// member is this process as a member of a group.
type member struct {
	Options
	key    *seal.Key
	group  *groupLog
	relay  *relay.Relay
	member *group.Member
	at     net.Addr
	trust  string // the file with the authority that clients have to trust; empty if they trust it already
	// announcing is done when the operator was told the address.
	announcing sync.Once
	// asked receives the names of members to which the lead is to be handed over.
	asked chan handing
}

// handing is a request to hand the lead over.
type handing struct {
	to   string // empty for any member
	done chan error
}

// serveMember runs a member of a group until the process is interrupted. started is called when it listens.
func serveMember(ctx context.Context, o Options, started func()) (err error) {
	secret, err := serviceSecret(o.KeyFile)
	if err != nil {
		return err
	}
	m := &member{Options: o, asked: make(chan handing)}
	if m.key, err = seal.NewKey(secret); err != nil {
		return err
	}
	if m.group, err = openGroup(ctx, o, secret); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.group.close()) }()
	if err := m.group.checkKey(ctx); err != nil {
		return err
	}
	incarnation := m.group.log.Incarnation()
	identity, err := relay.NewIdentity(secret, incarnation[:], m.Member)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return err
	}
	m.at = listener.Addr()
	secure, err := m.certificates(ctx)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	m.relay = relay.New(relay.Options{Transport: identity.Client(), Logger: o.Log})
	if m.member, err = m.newMember(); err != nil {
		return errors.Join(err, listener.Close())
	}
	stopping, release := o.Stop.Stopping, o.Hold()
	defer release()
	server := &http.Server{Handler: m.relay, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn)}
	serving, running := make(chan error, 1), make(chan error, 1)
	go func() { serving <- server.Serve(tls.NewListener(listener, identity.Server(secure))) }()
	runCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go func() { running <- m.member.Run(runCtx) }()
	started()
	var failed error
	select {
	case <-stopping.Done():
		m.leave(runCtx)
		stop()
		failed = <-running
	case failed = <-serving:
		stop()
		failed = errors.Join(failed, <-running)
		serving <- nil
	case failed = <-running:
	}
	shut, cancel := context.WithTimeout(context.WithoutCancel(stopping), 2*time.Second)
	defer cancel()
	err = server.Shutdown(shut)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	if e := <-serving; e != nil && !errors.Is(e, http.ErrServerClosed) {
		failed = errors.Join(failed, e)
	}
	return errors.Join(failed, err)
}

// newMember makes the member that decides who leads.
func (m *member) newMember() (*group.Member, error) {
	own := group.Info{Name: m.Member, Instance: rand.Text(), Address: m.peerAddress(), Program: m.Version,
		Levels: features.Own()}
	peers, err := newPeers(m.group)
	if err != nil {
		return nil, err
	}
	return group.New(group.Options{
		Own: own, Path: filepath.Join(m.Data, store.Database), Copy: m.group.copyOf, Peers: peers, Known: m.known,
		Serve: m.lead,
		Changed: func(leader *group.Info) {
			if leader == nil {
				m.relay.Follow("", "")
				return
			}
			m.Log.Info("another member leads the group", "member", leader.Name, "address", leader.Address, "epoch",
				leader.Epoch)
			m.relay.Follow(leader.Name, leader.Address)
			m.announce("")
		},
		Log: func(line string) { m.Log.Warn(line) },
	}), nil
}

// peerAddress is where other members reach this one.
func (m *member) peerAddress() string {
	host, port, err := net.SplitHostPort(m.at.String())
	if err != nil {
		return m.MemberAddress
	}
	if m.MemberAddress != "" {
		if _, _, err := net.SplitHostPort(m.MemberAddress); err == nil {
			return m.MemberAddress
		}
		return net.JoinHostPort(m.MemberAddress, port)
	}
	if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
		return net.JoinHostPort(host, port)
	}
	if name, err := os.Hostname(); err == nil {
		host = name
	}
	return net.JoinHostPort(host, port)
}

// announce tells the operator the address, once. token is the first one of the administrator; empty if there was one.
func (m *member) announce(token string) {
	tell := func() { newServing(m.Options).announce(m.Options, m.at, m.trust, token) }
	told := false
	m.announcing.Do(func() {
		tell()
		told = true
	})
	if !told && token != "" {
		tell()
	}
}

// known returns the names of the members that the records list. The error says that this program cannot lead with these
// records.
func (m *member) known(c *log.Copy) (names []string, err error) {
	err = c.View(func(tx *recorded.Tx) error {
		t := store.Over(tx, m.key)
		if about, there, err := t.Features(); there || err != nil {
			if err := errors.Join(err, about.Check(features.Own())); err != nil {
				return err
			}
		}
		for r, err := range tables.Members.All(t) {
			if err != nil {
				return err
			}
			names = append(names, r.Name)
		}
		return nil
	})
	return names, err
}
