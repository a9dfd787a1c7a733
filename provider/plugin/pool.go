package plugin

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/rpc"
)

// process is a running plugin.
type process interface {
	provider() provider.Provider
	// alive reports whether calls may still succeed. Once false, it stays so.
	alive() bool
	// close ends the process, if this host started it, and returns after it has exited.
	close()
}

// member is a process of the pool, possibly still starting.
//
//	starting --> ready --> ended      ready is closed at the first arrow;
//	    \---> failed ------^          problems is final from then on
//
// Independently of this, it is leasable (in Host.pool) or retired; a retired one ends with its last lease.
type member struct {
	pkg, digest string
	source      string // the provider's address
	// attached is set if the process was started elsewhere.
	attached bool

	// ready is closed when the start has finished. Then problems is valid: errors if it failed, else warnings.
	ready    chan struct{}
	problems diag.List
	// abandon aborts the start.
	abandon context.CancelCauseFunc

	// The host's mutex guards the other fields. process is nil until the process is running; it never changes after
	// that.
	process process
	started bool // ready is closed
	holders int  // leases and waiting callers
	idle    *time.Timer
	ending  bool
}

// errNobodyWaits aborts a start when no caller waits for the process any more.
var errNobodyWaits = errors.New("no caller waits for the provider any more")

// find returns a member that satisfies the request, or nil. The host's mutex is held.
func (h *Host) find(pkg, digest string, attached bool) *member {
	for _, m := range h.pool[pkg] {
		if m.started && !m.process.alive() {
			h.retire(m)
		}
	}
	if m := h.pool[pkg][digest]; m != nil || digest != "" {
		return m
	}
	for _, m := range h.pool[pkg] {
		if m.started {
			return m
		}
	}
	return nil
}

// begin creates a member and starts it. The host's mutex is held.
func (h *Host) begin(ctx context.Context, p Package, pkg, identity, digest string, configure Configure) *member {
	if digest != "" && configure == nil {
		panic("plugin: a configured process is wanted, and nothing to configure it with")
	}
	ctx, abandon := context.WithCancelCause(context.WithoutCancel(ctx))
	m := &member{pkg: pkg, digest: digest, source: p.Source, attached: p.Reattach != nil,
		ready: make(chan struct{}), abandon: abandon}
	if digest != "" {
		h.makeRoom(m)
	}
	if h.pool[pkg] == nil {
		h.pool[pkg] = map[string]*member{}
	}
	h.pool[pkg][digest] = m
	h.members[m] = true
	var schemas *rpc.SchemaCache
	if !m.attached {
		if schemas = h.schemas[identity]; schemas == nil {
			schemas = rpc.NewSchemaCache()
			h.schemas[identity] = schemas
		}
	}
	h.work.Go(func() {
		diags := h.start(ctx, m, p, schemas, configure)
		abandon(nil)
		h.arrived(m, diags)
	})
	return m
}

// makeRoom prepares other members for one that will be configured: the new member takes over the process of an idle
// unconfigured one; and a process that was started elsewhere loses its previous configuration.
func (h *Host) makeRoom(m *member) {
	if m.attached {
		for digest, other := range h.pool[m.pkg] {
			if digest != "" {
				h.retire(other)
			}
		}
		return
	}
	if bare := h.pool[m.pkg][""]; bare != nil && bare.started && bare.holders == 0 && !bare.ending {
		h.retire(bare)
		h.stopIdleTimer(bare)
		delete(h.members, bare)
		m.process = bare.process
	}
}

// start launches and configures the process.
func (h *Host) start(ctx context.Context, m *member, p Package, schemas *rpc.SchemaCache,
	configure Configure) diag.List {
	h.mu.Lock()
	proc := m.process
	h.mu.Unlock()
	if proc == nil {
		executable, err := p.executable()
		if err == nil {
			proc, err = h.launch(ctx, p, executable, schemas)
		}
		if err != nil {
			return cannotStart(p, err)
		}
		h.mu.Lock()
		m.process = proc
		h.mu.Unlock()
	}
	if m.digest == "" {
		return nil
	}
	diags := configure(ctx, proc.provider())
	if err := context.Cause(ctx); err != nil && !diags.HasErrors() {
		diags = diags.Append(cannotStart(p, err))
	}
	return diags
}

// arrived finishes a member's start. If the start failed, the member is retired, and so ends with the last waiting
// caller.
func (h *Host) arrived(m *member, diags diag.List) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m.problems, m.started = diags, true
	close(m.ready)
	if diags.HasErrors() || h.closed {
		h.retire(m)
	}
	if h.closed || m.holders == 0 {
		h.onUnheld(m)
	}
}

func (h *Host) hold(m *member) {
	m.holders++
	h.stopIdleTimer(m)
}

func (h *Host) release(m *member) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m.holders--; m.holders == 0 {
		h.onUnheld(m)
	}
}

// onUnheld is called when a member has no holders: it ends the member immediately or after a while. The host's mutex
// is held.
func (h *Host) onUnheld(m *member) {
	switch {
	case !m.started:
		m.abandon(errNobodyWaits)
		h.retire(m) // later callers start another process
	case m.process == nil:
		delete(h.members, m)
	case h.leasable(m) && m.process.alive():
		h.startIdleTimer(m)
	default:
		h.retire(m)
		h.end(m)
	}
}

func (h *Host) leasable(m *member) bool { return h.pool[m.pkg][m.digest] == m }

// retire prevents further leases of the member. The host's mutex is held.
func (h *Host) retire(m *member) {
	if !h.leasable(m) {
		return
	}
	delete(h.pool[m.pkg], m.digest)
	if len(h.pool[m.pkg]) == 0 {
		delete(h.pool, m.pkg)
	}
}

// end ends the member's process, once. The host's mutex is held.
func (h *Host) end(m *member) {
	if m.ending {
		return
	}
	m.ending = true
	delete(h.members, m)
	h.work.Go(m.process.close)
}

// startIdleTimer sets the timer that ends an unheld member. The host's mutex is held.
func (h *Host) startIdleTimer(m *member) {
	h.work.Add(1)
	var timer *time.Timer
	timer = time.AfterFunc(h.idleAfter, func() {
		defer h.work.Done()
		h.mu.Lock()
		defer h.mu.Unlock()
		if m.idle == timer { // otherwise it was stopped too late
			m.idle = nil
			h.idling = slices.DeleteFunc(h.idling, func(other *member) bool { return other == m })
			h.retire(m)
			h.end(m)
		}
	})
	m.idle = timer
	h.idling = append(h.idling, m)
	for len(h.idling) > h.mostIdle {
		oldest := h.idling[0]
		h.stopIdleTimer(oldest)
		h.retire(oldest)
		h.end(oldest)
	}
}

// stopIdleTimer stops that timer. The host's mutex is held.
func (h *Host) stopIdleTimer(m *member) {
	if m.idle == nil {
		return
	}
	if m.idle.Stop() {
		h.work.Done()
	}
	m.idle = nil
	h.idling = slices.DeleteFunc(h.idling, func(other *member) bool { return other == m })
}
