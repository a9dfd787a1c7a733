package record

import (
	"slices"
	"time"
)

// User is a person, or a program that acts as one.
type User struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Email     string    `json:"email,omitempty"`
	Admin     bool      `json:"admin,omitempty"`    // may do everything in every organization
	Password  []byte    `json:"password,omitempty"` // bcrypt hash with salt and cost; nil for none
	CreatedAt time.Time `json:"createdAt"`
	// Disabled: the user cannot log in, and tokens of the user are refused.
	Disabled bool `json:"disabled,omitempty"`
	// Issuer and Subject identify the user at an identity provider; empty for a user of the service alone.
	Issuer  string `json:"issuer,omitempty"`
	Subject string `json:"subject,omitempty"`
}

// SigningKey is a key that signs the identity tokens of runs.
type SigningKey struct {
	ID   string    `json:"id"`
	From time.Time `json:"from"` // when it begins to sign
	Key  []byte    `json:"key"`  // in PKCS #8
}

// Team is a group of users of an organization.
type Team struct {
	ID           string   `json:"id"`
	Organization string   `json:"organization"`
	Name         string   `json:"name"`
	Users        []string `json:"users,omitempty"`
	// The rights of its members in the whole organization.
	ManageWorkspaces bool `json:"manageWorkspaces,omitempty"`
	ManageProjects   bool `json:"manageProjects,omitempty"`
	ReadWorkspaces   bool `json:"readWorkspaces,omitempty"`
	ReadProjects     bool `json:"readProjects,omitempty"`
	ManageMembership bool `json:"manageMembership,omitempty"`
	ManageTeams      bool `json:"manageTeams,omitempty"`
	// ManageAccess: members may let other teams manage the organization.
	ManageAccess bool `json:"manageAccess,omitempty"`
	// AccessSecretTeams: members may see secret teams.
	AccessSecretTeams bool   `json:"accessSecretTeams,omitempty"`
	Visibility        string `json:"visibility,omitempty"`
	// SSO is the team's identity at an identity provider.
	SSO string `json:"sso,omitempty"`
	// Others are rights to features that the service does not have, by their API names. They are stored for the
	// programs that manage teams, and have no effect.
	Others []string `json:"others,omitempty"`
	// NoMemberTokens: members cannot manage the token of the team.
	NoMemberTokens bool `json:"noMemberTokens,omitempty"`
}

// Access is the right of a team in a workspace, or in all workspaces of a project.
type Access struct {
	ID   string `json:"id"`
	Team string `json:"team"`
	On   string `json:"on"` // the workspace or the project
	// Role is read, plan, write or admin, on projects maintain as well; or custom, with Custom.
	Role   string      `json:"role"`
	Custom Permissions `json:"custom,omitzero"`
	// Project has the custom rights in a project itself.
	Project ProjectRights `json:"project,omitzero"`
	// Mocks and Tasks are rights to features that the service does not have: they are stored, and have no
	// effect.
	Mocks string `json:"mocks,omitempty"`
	Tasks bool   `json:"tasks,omitempty"`
}

// ProjectRights are rights in a project itself, in the words of the API; empty is the lowest level.
type ProjectRights struct {
	Settings string `json:"settings,omitempty"` // read, update or delete
	Teams    string `json:"teams,omitempty"`    // none, read or manage
	Sets     string `json:"sets,omitempty"`     // none, read or write: of variable sets
}

// Valid reports whether the words are valid.
func (p ProjectRights) Valid() bool {
	return slices.Contains([]string{"", "read", "update", "delete"}, p.Settings) &&
		slices.Contains([]string{"", "none", "read", "manage"}, p.Teams) &&
		slices.Contains([]string{"", "none", "read", "write"}, p.Sets)
}

// ProjectRights returns the rights that the access grants in the project itself.
func (a *Access) ProjectRights() ProjectRights {
	p := ProjectRights{Settings: "read", Teams: "none", Sets: "none"}
	switch a.Role {
	case "admin":
		return ProjectRights{Settings: "delete", Teams: "manage", Sets: "write"}
	case "read", "write", "maintain":
		p.Sets = "read"
	case "custom":
		own := a.Project
		for from, to := range map[*string]*string{
			&own.Settings: &p.Settings, &own.Teams: &p.Teams, &own.Sets: &p.Sets,
		} {
			if *from != "" {
				*to = *from
			}
		}
	}
	return p
}

// The kinds of tokens.
const (
	TokenUser         = "user"
	TokenTeam         = "team"
	TokenOrganization = "organization"
	// TokenRun belongs to a run in progress: it may read and write the state of the run's workspace.
	TokenRun = "run"
)

// Token is the record of a token, which has only its hash.
type Token struct {
	ID          string    `json:"id"`
	Hash        string    `json:"hash"` // SHA-256, in hex
	Kind        string    `json:"kind"`
	Owner       string    `json:"owner"` // the user, the team, the organization, or the run
	Description string    `json:"description,omitempty"`
	CreatedAt   time.Time `json:"createdAt"`
	CreatedBy   string    `json:"createdBy,omitempty"`
	LastUsed    time.Time `json:"lastUsed,omitzero"`
	Expires     time.Time `json:"expires,omitzero"` // zero for never
	// Ended says, for the token of a run, that the run had already ended when the token was made, for a job
	// that uses the configuration and the variables of the run. Other tokens of a run are valid until it ends.
	Ended bool `json:"ended,omitempty"`
}

// The levels of a right. Each includes those before it.
const (
	No = iota
	Read
	Plan
	Write // for runs: apply
)

// Permissions are the rights in a workspace.
type Permissions struct {
	Runs      int  `json:"runs,omitempty"`      // No, Read, Plan, Write
	Variables int  `json:"variables,omitempty"` // No, Read, Write
	State     int  `json:"state,omitempty"`     // No, Read, Write
	Outputs   bool `json:"outputs,omitempty"`   // may read outputs, even without State
	Lock      bool `json:"lock,omitempty"`
	Admin     bool `json:"admin,omitempty"`  // settings, access, deletion, force-unlock
	Create    bool `json:"create,omitempty"` // workspaces, in a project
	Delete    bool `json:"delete,omitempty"` // the workspace
	Move      bool `json:"move,omitempty"`   // the workspace, to another project
}

// roles are the named sets of permissions, as the API documents them.
var roles = map[string]Permissions{
	"read":  {Runs: Read, Variables: Read, State: Read, Outputs: true},
	"plan":  {Runs: Plan, Variables: Read, State: Read, Outputs: true},
	"write": {Runs: Write, Variables: Write, State: Write, Outputs: true, Lock: true},
	"maintain": {Runs: Write, Variables: Write, State: Write, Outputs: true, Lock: true, Admin: true, Create: true,
		Delete: true, Move: true},
	"admin": {Runs: Write, Variables: Write, State: Write, Outputs: true, Lock: true, Admin: true, Create: true,
		Delete: true, Move: true},
}

// ValidRole reports whether a role exists, for projects or for workspaces.
func ValidRole(role string, project bool) bool {
	if role == "custom" {
		return true
	}
	_, ok := roles[role]
	return ok && (project || role != "maintain")
}

// Permissions returns the rights that the access grants in workspaces.
func (a *Access) Permissions() Permissions {
	if a.Role == "custom" {
		return a.Custom
	}
	return roles[a.Role]
}

// All returns all rights in a workspace.
func All() Permissions { return roles["admin"] }

// Any reports whether there is any right, so that the workspace is visible.
func (p Permissions) Any() bool { return p != Permissions{} }

// Plus returns the union of two sets of rights.
func (p Permissions) Plus(o Permissions) Permissions {
	return Permissions{
		Runs: max(p.Runs, o.Runs), Variables: max(p.Variables, o.Variables), State: max(p.State, o.State),
		Outputs: p.Outputs || o.Outputs, Lock: p.Lock || o.Lock, Admin: p.Admin || o.Admin,
		Create: p.Create || o.Create, Delete: p.Delete || o.Delete, Move: p.Move || o.Move,
	}
}

// Has reports whether the user is a member.
func (t *Team) Has(user string) bool { return slices.Contains(t.Users, user) }
