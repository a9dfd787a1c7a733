package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	ctyyaml "github.com/zclconf/go-cty-yaml"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/lang/diag"
)

// kubeconfig is the part of a kubeconfig file that is used here.
type kubeconfig struct {
	CurrentContext string `json:"current-context"`
	Clusters       []struct {
		Name    string
		Cluster clusterEntry
	} `json:"clusters"`
	Users []struct {
		Name string
		User userEntry
	} `json:"users"`
	Contexts []struct {
		Name    string
		Context struct{ Cluster, User string }
	} `json:"contexts"`
}

type clusterEntry struct {
	Server        string
	CA            string `json:"certificate-authority"`
	CAData        []byte `json:"certificate-authority-data"`
	Insecure      bool   `json:"insecure-skip-tls-verify"`
	TLSServerName string `json:"tls-server-name"`
	ProxyURL      string `json:"proxy-url"`
}

type userEntry struct {
	Token, TokenFile   string
	Username, Password string
	Certificate        string `json:"client-certificate"`
	CertificateData    []byte `json:"client-certificate-data"`
	Key                string `json:"client-key"`
	KeyData            []byte `json:"client-key-data"`
	Exec               *execEntry
	AuthProvider       any `json:"auth-provider"`
	impersonation
}

// impersonation is another user that requests are executed as.
type impersonation struct {
	As     string              `json:"as"`
	UID    string              `json:"as-uid"`
	Groups []string            `json:"as-groups"`
	Extra  map[string][]string `json:"as-user-extra"`
}

// headers returns the headers that ask for it; without a user there are none.
func (i impersonation) headers() http.Header {
	h := http.Header{}
	if i.As == "" {
		return h
	}
	h.Set("Impersonate-User", i.As)
	if i.UID != "" {
		h.Set("Impersonate-Uid", i.UID)
	}
	for _, group := range i.Groups {
		h.Add("Impersonate-Group", group)
	}
	for name, values := range i.Extra {
		for _, v := range values {
			h.Add("Impersonate-Extra-"+escapeHeader(name), v)
		}
	}
	return h
}

// escapeHeader encodes what the name of a header cannot contain, as the API server decodes it.
func escapeHeader(name string) string {
	var out strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("!#$&'*+-.^_`|~", c) >= 0:
			out.WriteByte(c)
		default:
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

type execEntry struct {
	APIVersion, Command string
	Args                []string
	Env                 []struct{ Name, Value string }
	ProvideClusterInfo  bool
	dir                 string // the base of a relative command
}

// readKubeconfig reads one file. Paths in it are relative to its directory.
func readKubeconfig(name string) (*kubeconfig, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	ty, err := ctyyaml.Standard.ImpliedType(text)
	if err != nil {
		return nil, err
	}
	v, err := ctyyaml.Standard.Unmarshal(text, ty)
	if err != nil {
		return nil, err
	}
	doc, err := ctyjson.Marshal(v, ty)
	if err != nil {
		return nil, err
	}
	var c kubeconfig
	if err := json.Unmarshal(doc, &c); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return nil, fmt.Errorf("%q cannot be a %s", wrong.Field, strings.Fields(wrong.Value)[0])
		}
		return nil, errors.New("it does not have the form of a kubeconfig") // the details may contain a secret
	}
	dir := filepath.Dir(name)
	for i := range c.Clusters {
		from(dir, &c.Clusters[i].Cluster.CA)
	}
	for i := range c.Users {
		u := &c.Users[i].User
		from(dir, &u.TokenFile)
		from(dir, &u.Certificate)
		from(dir, &u.Key)
		if u.Exec != nil {
			u.Exec.dir = dir
		}
	}
	return &c, nil
}

func from(dir string, path *string) {
	if *path != "" && !filepath.IsAbs(*path) {
		*path = filepath.Join(dir, *path)
	}
}

// kubeconfigs reads the files in the arguments. If there are several, missing files are skipped, and the first one
// with an entry takes precedence. given is the argument for diagnostics.
func kubeconfigs(p backend.Place, args backend.Arguments) (merged *kubeconfig, given string, diags diag.List) {
	var names []string
	given = "config_path"
	switch {
	case args.Given("config_path"):
		names = []string{args.String("config_path")}
	case args.Given("config_paths"):
		names, given = args.Strings("config_paths"), "config_paths"
	default:
		given = "config_paths"
		for _, n := range filepath.SplitList(p.Env("KUBE_CONFIG_PATHS")) {
			if n != "" {
				names = append(names, n)
			}
		}
	}
	merged = &kubeconfig{}
	for _, n := range names {
		if rest, ok := strings.CutPrefix(n, "~"); ok && (rest == "" || rest[0] == '/' ||
			rest[0] == filepath.Separator) {
			n = p.Env("HOME") + rest
		}
		n = p.Path(n)
		c, err := readKubeconfig(n)
		switch {
		case errors.Is(err, os.ErrNotExist) && (len(names) > 1 || args.Given("host")):
			continue
		case err != nil:
			diags = diags.Append(args.Problem(given, "Unusable kubeconfig", fmt.Sprintf("Reading %s: %s.", n, err)))
			continue
		}
		if merged.CurrentContext == "" {
			merged.CurrentContext = c.CurrentContext
		}
		merged.Clusters = append(merged.Clusters, c.Clusters...)
		merged.Users = append(merged.Users, c.Users...)
		merged.Contexts = append(merged.Contexts, c.Contexts...)
	}
	return merged, given, diags
}

// choose returns the cluster and the user of the selected context, or of the arguments that name them. They are
// empty if neither does.
func (c *kubeconfig) choose(args backend.Arguments) (cluster clusterEntry, user userEntry, diags diag.List) {
	missing := func(argument, kind, name string) {
		if !args.Given(argument) {
			argument = "config_path"
		}
		diags = diags.Append(args.Problem(argument, "No such "+kind,
			fmt.Sprintf("The kubeconfig has no %s %q.", kind, name)))
	}
	context := c.CurrentContext
	if args.Given("config_context") {
		context = args.String("config_context")
	}
	var clusterName, userName string
	if context != "" {
		found := false
		for _, e := range c.Contexts {
			if e.Name == context {
				clusterName, userName, found = e.Context.Cluster, e.Context.User, true
				break
			}
		}
		if !found {
			missing("config_context", "context", context)
		}
	}
	if args.Given("config_context_cluster") {
		clusterName = args.String("config_context_cluster")
	}
	if args.Given("config_context_auth_info") {
		userName = args.String("config_context_auth_info")
	}
	if diags.HasErrors() {
		return cluster, user, diags
	}
	if clusterName != "" {
		found := false
		for _, e := range c.Clusters {
			if e.Name == clusterName {
				cluster, found = e.Cluster, true
				break
			}
		}
		if !found {
			missing("config_context_cluster", "cluster", clusterName)
		}
	}
	if userName != "" {
		found := false
		for _, e := range c.Users {
			if e.Name == userName {
				user, found = e.User, true
				break
			}
		}
		if !found {
			missing("config_context_auth_info", "user", userName)
		}
	}
	return cluster, user, diags
}
