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
	Password  []byte    `json:"password,omitempty"` // its hash, with the salt and the cost in it; nil for none
	CreatedAt time.Time `json:"createdAt"`
	// Issuer and Subject are who the user is at a provider of identities; empty for a user of the service alone.
	Issuer  string `json:"issuer,omitempty"`
	Subject string `json:"subject,omitempty"`
}

// SigningKey is a key that signs the tokens by which runs prove who they are.
type SigningKey struct {
	ID   string    `json:"id"`
	From time.Time `json:"from"` // when its turn begins
	Key  []byte    `json:"key"`  // in PKCS #8
}

// Team is a group of users of an organization.
type Team struct {
	ID           string   `json:"id"`
	Organization string   `json:"organization"`
	Name         string   `json:"name"`
	Users        []string `json:"users,omitempty"`
	// What its members may do in the whole organization.
	ManageWorkspaces bool `json:"manageWorkspaces,omitempty"`
	ManageProjects   bool `json:"manageProjects,omitempty"`
	ReadWorkspaces   bool `json:"readWorkspaces,omitempty"`
	ReadProjects     bool `json:"readProjects,omitempty"`
	ManageMembership bool `json:"manageMembership,omitempty"`
	ManageTeams      bool `json:"manageTeams,omitempty"`
	// ManageAccess: they let other teams manage the organization.
	ManageAccess bool `json:"manageAccess,omitempty"`
	// AccessSecretTeams: they see teams that are secret.
	AccessSecretTeams bool   `json:"accessSecretTeams,omitempty"`
	Visibility        string `json:"visibility,omitempty"`
	// SSO is the team's identity at a provider of identities.
	SSO string `json:"sso,omitempty"`
	// Others are rights to what the service has not got, by their names in the API: they are kept for the programs that
	// manage teams, and allow nothing.
	Others []string `json:"others,omitempty"`
	// NoMemberTokens: members do not manage the token of the team.
	NoMemberTokens bool `json:"noMemberTokens,omitempty"`
}

// Access is what a team may do in a workspace or in all workspaces of a project.
type Access struct {
	ID   string `json:"id"`
	Team string `json:"team"`
	On   string `json:"on"` // the workspace or the project
	// Role is read, plan, write or admin, on projects maintain as well; or custom, with Custom.
	Role   string      `json:"role"`
	Custom Permissions `json:"custom,omitzero"`
	// Project are the custom rights to a project itself.
	Project ProjectRights `json:"project,omitzero"`
	// Mocks and Tasks are rights to what the service has not got: they are kept, and allow nothing.
	Mocks string `json:"mocks,omitempty"`
	Tasks bool   `json:"tasks,omitempty"`
}

// ProjectRights is what somebody may do with a project itself, in the words of the API; empty is the least of them.
type ProjectRights struct {
	Settings string `json:"settings,omitempty"` // read, update or delete
	Teams    string `json:"teams,omitempty"`    // none, read or manage
	Sets     string `json:"sets,omitempty"`     // none, read or write: of variable sets
}

// Valid tells whether the words are those of the API.
func (p ProjectRights) Valid() bool {
	return slices.Contains([]string{"", "read", "update", "delete"}, p.Settings) &&
		slices.Contains([]string{"", "none", "read", "manage"}, p.Teams) &&
		slices.Contains([]string{"", "none", "read", "write"}, p.Sets)
}

// ProjectRights returns what the access allows with the project itself.
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
	// TokenRun belongs to a run under way: it may read and write the state of its workspace.
	TokenRun = "run"
)

// Token is a token as it is kept: only its hash is known.
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
	// Ended tells, of the token of a run, that the run had ended when it was made: something is done with what the run
	// had, its configuration and its variables. Otherwise the token is good until the run ends.
	Ended bool `json:"ended,omitempty"`
}

// The levels of what somebody may do with one kind of thing. Each includes those before it.
const (
	No = iota
	Read
	Plan
	Write // for runs: apply
)

// Permissions is what somebody may do with a workspace.
type Permissions struct {
	Runs      int  `json:"runs,omitempty"`      // No, Read, Plan, Write
	Variables int  `json:"variables,omitempty"` // No, Read, Write
	State     int  `json:"state,omitempty"`     // No, Read, Write
	Outputs   bool `json:"outputs,omitempty"`   // may read outputs, though perhaps not the state
	Lock      bool `json:"lock,omitempty"`
	Admin     bool `json:"admin,omitempty"`  // settings, access, deletion, force-unlock
	Create    bool `json:"create,omitempty"` // workspaces, in a project
	Delete    bool `json:"delete,omitempty"` // the workspace
	Move      bool `json:"move,omitempty"`   // the workspace, to another project
}

// roles are the permission sets that have names. The API documents them.
var roles = map[string]Permissions{
	"read":  {Runs: Read, Variables: Read, State: Read, Outputs: true},
	"plan":  {Runs: Plan, Variables: Read, State: Read, Outputs: true},
	"write": {Runs: Write, Variables: Write, State: Write, Outputs: true, Lock: true},
	"maintain": {Runs: Write, Variables: Write, State: Write, Outputs: true, Lock: true, Admin: true, Create: true,
		Delete: true, Move: true},
	"admin": {Runs: Write, Variables: Write, State: Write, Outputs: true, Lock: true, Admin: true, Create: true,
		Delete: true, Move: true},
}

// ValidRole tells whether access can be given by this word.
func ValidRole(role string, project bool) bool {
	if role == "custom" {
		return true
	}
	_, ok := roles[role]
	return ok && (project || role != "maintain")
}

// Permissions returns what the access allows.
func (a *Access) Permissions() Permissions {
	if a.Role == "custom" {
		return a.Custom
	}
	return roles[a.Role]
}

// All is everything that can be allowed in a workspace.
func All() Permissions { return roles["admin"] }

// Any tells whether something is allowed, so that the workspace can be seen.
func (p Permissions) Any() bool { return p != Permissions{} }

// Plus returns what either allows.
func (p Permissions) Plus(o Permissions) Permissions {
	return Permissions{
		Runs: max(p.Runs, o.Runs), Variables: max(p.Variables, o.Variables), State: max(p.State, o.State),
		Outputs: p.Outputs || o.Outputs, Lock: p.Lock || o.Lock, Admin: p.Admin || o.Admin,
		Create: p.Create || o.Create, Delete: p.Delete || o.Delete, Move: p.Move || o.Move,
	}
}

// Has tells whether the user is a member.
func (t *Team) Has(user string) bool { return slices.Contains(t.Users, user) }
