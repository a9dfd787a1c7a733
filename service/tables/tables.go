// Package tables has the tables in which the service keeps its records, with their indexes.
//
// It makes the IDs and secrets of records, knows the names of their files, and has the errors with which everything
// that reads and changes records answers. It does not say who may do so: package rights does.
package tables

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// Everywhere is the index key of the unfinished runs of all workspaces; the key of one workspace's runs is its
// ID.
const Everywhere = "*"

// one makes an index with a single key per record.
func one[T any](key func(*T) string) func(*T) []string {
	return func(v *T) []string { return []string{key(v)} }
}

// The tables. The fields of each say how its records are found.
var (
	Organizations = store.Table[record.Organization]{
		Name: "organization", ID: func(o *record.Organization) string { return strings.ToLower(o.Name) },
	}
	Projects = store.Table[record.Project]{
		Name: "project", ID: func(p *record.Project) string { return p.ID },
		Unique: map[string]func(*record.Project) string{
			"name": func(p *record.Project) string { return store.Join(strings.ToLower(p.Organization), p.Name) },
		},
		Lists: map[string]func(*record.Project) []string{
			"organization": one(func(p *record.Project) string {
				return store.Join(strings.ToLower(p.Organization),
					p.Name)
			}),
		},
	}
	Workspaces = store.Table[record.Workspace]{
		Name: "workspace", ID: func(w *record.Workspace) string { return w.ID },
		Unique: map[string]func(*record.Workspace) string{
			"name": func(w *record.Workspace) string { return store.Join(strings.ToLower(w.Organization), w.Name) },
		},
		Lists: map[string]func(*record.Workspace) []string{
			"organization": one(func(w *record.Workspace) string {
				return store.Join(strings.ToLower(w.Organization),
					w.Name)
			}),
			"project": one(func(w *record.Workspace) string { return store.Join(w.Project, w.Name) }),
		},
	}
	Variables = store.Table[record.Variable]{
		Name: "variable", ID: func(v *record.Variable) string { return v.ID },
		Unique: map[string]func(*record.Variable) string{
			"key": func(v *record.Variable) string { return store.Join(v.Parent, v.Category, v.Key) },
		},
		Lists: map[string]func(*record.Variable) []string{
			"parent": one(func(v *record.Variable) string { return store.Join(v.Parent, v.Key) }),
		},
	}
	VariableSets = store.Table[record.VariableSet]{
		Name: "variable set", ID: func(s *record.VariableSet) string { return s.ID },
		Unique: map[string]func(*record.VariableSet) string{
			"name": func(s *record.VariableSet) string { return store.Join(strings.ToLower(s.Organization), s.Name) },
		},
		Lists: map[string]func(*record.VariableSet) []string{
			"organization": one(func(s *record.VariableSet) string {
				return store.Join(strings.ToLower(s.Organization),
					s.Name)
			}),
		},
	}
	Configurations = store.Table[record.Configuration]{
		Name: "configuration version", ID: func(c *record.Configuration) string { return c.ID },
		Unique: map[string]func(*record.Configuration) string{
			"secret": func(c *record.Configuration) string { return Hash(c.Secret) }, // index keys are not encrypted
		},
		Lists: map[string]func(*record.Configuration) []string{
			"workspace": one(func(c *record.Configuration) string {
				return store.Join(c.Workspace, fmt.Sprintf("%020d", c.CreatedAt.UnixNano()))
			}),
		},
	}
	StateVersions = store.Table[record.StateVersion]{
		Name: "state version", ID: func(v *record.StateVersion) string { return v.ID },
		Unique: map[string]func(*record.StateVersion) string{
			"secret": func(v *record.StateVersion) string { return Hash(v.Secret) }, // as above
		},
		Lists: map[string]func(*record.StateVersion) []string{
			"workspace": one(func(v *record.StateVersion) string {
				return store.Join(v.Workspace, fmt.Sprintf("%020d", v.CreatedAt.UnixNano()))
			}),
			"output": func(v *record.StateVersion) []string {
				var ids []string
				for _, o := range v.Outputs {
					ids = append(ids, o.ID)
				}
				return ids
			},
		},
	}
	Runs = store.Table[record.Run]{
		Name: "run", ID: func(r *record.Run) string { return r.ID },
		Unique: map[string]func(*record.Run) string{
			"plan":  func(r *record.Run) string { return r.Plan.ID },
			"apply": func(r *record.Run) string { return r.Apply.ID },
		},
		Lists: map[string]func(*record.Run) []string{
			"workspace": one(func(r *record.Run) string {
				return store.Join(r.Workspace,
					fmt.Sprintf("%020d", r.Number))
			}),
			"active": func(r *record.Run) []string {
				if r.Status.Final() {
					return nil
				}
				number := fmt.Sprintf("%020d", r.Number)
				return []string{store.Join(Everywhere, number), store.Join(r.Workspace, number)}
			},
		},
	}
	RunNotes = store.Table[record.RunNote]{
		Name: "run event", ID: func(n *record.RunNote) string { return n.ID },
		Lists: map[string]func(*record.RunNote) []string{
			"run": one(func(n *record.RunNote) string {
				return store.Join(n.Run, fmt.Sprintf("%020d", n.CreatedAt.UnixNano()))
			}),
		},
	}
	Comments = store.Table[record.Comment]{
		Name: "comment", ID: func(c *record.Comment) string { return c.ID },
		Lists: map[string]func(*record.Comment) []string{
			"run": one(func(c *record.Comment) string {
				return store.Join(c.Run, fmt.Sprintf("%020d", c.CreatedAt.UnixNano()))
			}),
		},
	}
	Watches = store.Table[record.Watch]{
		Name: "watch", ID: func(w *record.Watch) string { return w.Workspace },
	}
	Seats = store.Table[record.Seat]{
		Name: "seat", ID: func(s *record.Seat) string { return strconv.Itoa(s.Number) },
	}
	Members = store.Table[record.Member]{
		Name: "member", ID: func(m *record.Member) string { return m.Name },
	}
	LogStores = store.Table[record.LogStore]{
		Name: "store of the log", ID: func(s *record.LogStore) string { return s.Name },
	}
	Halts = store.Table[record.Halt]{
		Name: "halt", ID: func(h *record.Halt) string { return h.On },
	}
	Notifications = store.Table[record.Notification]{
		Name: "notification configuration", ID: func(n *record.Notification) string { return n.ID },
		Lists: map[string]func(*record.Notification) []string{
			"workspace": one(func(n *record.Notification) string { return store.Join(n.Workspace, n.Name) }),
		},
	}
	RunTriggers = store.Table[record.RunTrigger]{
		Name: "run trigger", ID: func(t *record.RunTrigger) string { return t.ID },
		Unique: map[string]func(*record.RunTrigger) string{
			"pair": func(t *record.RunTrigger) string { return store.Join(t.Workspace, t.Source) },
		},
		Lists: map[string]func(*record.RunTrigger) []string{
			"workspace": one(func(t *record.RunTrigger) string { return store.Join(t.Workspace, t.ID) }),
			"source":    one(func(t *record.RunTrigger) string { return store.Join(t.Source, t.ID) }),
		},
	}
	Deliveries = store.Table[record.Delivery]{
		Name: "delivery", ID: func(d *record.Delivery) string { return d.ID },
		Lists: map[string]func(*record.Delivery) []string{
			"configuration": one(func(d *record.Delivery) string {
				return store.Join(d.Configuration, fmt.Sprintf("%020d", d.At.UnixNano()))
			}),
		},
	}
	Users = store.Table[record.User]{
		Name: "user", ID: func(u *record.User) string { return u.ID },
		Unique: map[string]func(*record.User) string{"name": func(u *record.User) string { return u.Name }},
		Lists: map[string]func(*record.User) []string{
			"identity": func(u *record.User) []string {
				if u.Subject == "" {
					return nil
				}
				return []string{Hash(store.Join(u.Issuer, u.Subject))}
			},
		},
	}
	Teams = store.Table[record.Team]{
		Name: "team", ID: func(t *record.Team) string { return t.ID },
		Unique: map[string]func(*record.Team) string{
			"name": func(t *record.Team) string { return store.Join(strings.ToLower(t.Organization), t.Name) },
		},
		Lists: map[string]func(*record.Team) []string{
			"organization": one(func(t *record.Team) string {
				return store.Join(strings.ToLower(t.Organization),
					t.Name)
			}),
			"user": func(t *record.Team) []string { return t.Users },
		},
	}
	Accesses = store.Table[record.Access]{
		Name: "access", ID: func(a *record.Access) string { return a.ID },
		Unique: map[string]func(*record.Access) string{
			"pair": func(a *record.Access) string { return store.Join(a.Team, a.On) },
		},
		Lists: map[string]func(*record.Access) []string{
			"team": one(func(a *record.Access) string { return a.Team }),
			"on":   one(func(a *record.Access) string { return a.On }),
		},
	}
	Memberships = store.Table[record.Membership]{
		Name: "membership", ID: func(m *record.Membership) string { return m.ID },
		Unique: map[string]func(*record.Membership) string{
			"person": func(m *record.Membership) string {
				return store.Join(strings.ToLower(m.Organization), PersonKey(m))
			},
		},
		Lists: map[string]func(*record.Membership) []string{
			"organization": one(func(m *record.Membership) string { return strings.ToLower(m.Organization) }),
			"user":         one(func(m *record.Membership) string { return m.User }),
			"email":        one(func(m *record.Membership) string { return Hash(strings.ToLower(m.Email)) }),
		},
	}
	SigningKeys = store.Table[record.SigningKey]{
		Name: "signing key", ID: func(k *record.SigningKey) string { return k.ID },
	}
	Tokens = store.Table[record.Token]{
		Name: "token", ID: func(t *record.Token) string { return t.ID },
		Unique: map[string]func(*record.Token) string{"hash": func(t *record.Token) string { return t.Hash }},
		Lists: map[string]func(*record.Token) []string{
			"owner": one(func(t *record.Token) string { return store.Join(t.Kind, t.Owner) }),
		},
	}
)

// PersonKey returns the index key of a membership's person: the user, or a hash of the invited address.
func PersonKey(m *record.Membership) string {
	if m.User != "" {
		return m.User
	}
	return Hash(strings.ToLower(m.Email))
}

// AuditEntry is an entry of the audit log with its number.
type AuditEntry struct {
	Number uint64
	record.Audit
}

// AuditLog is the table of the audit log.
var AuditLog = store.Table[AuditEntry]{
	Name: "audit",
	ID:   func(e *AuditEntry) string { return fmt.Sprintf("%020d", e.Number) },
}
