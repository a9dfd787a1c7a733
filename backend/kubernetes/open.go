package kubernetes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/pattern"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
)

// serviceAccount is the directory with a pod's own credentials.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// execVersions are the versions of the protocol with credentials programs.
var execVersions = []string{
	"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1", "client.authentication.k8s.io/v1alpha1",
}

var label = pattern.Lazy(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)

// open returns a backend for the arguments. It sends no request.
func open(_ context.Context, p backend.Place, args backend.Arguments) (backend.Backend, diag.List) {
	return openIn(p, args, serviceAccount)
}

func openIn(p backend.Place, args backend.Arguments, account string) (backend.Backend, diag.List) {
	b := &store{namespace: args.String("namespace"), suffix: args.String("secret_suffix"), labels: args.Map("labels")}
	var diags diag.List
	if err := b.checkName(journal.DefaultWorkspace); err != nil || !label().MatchString(b.suffix) {
		diags = diags.Append(args.Problem("secret_suffix", "Invalid secret_suffix", fmt.Sprintf(
			"%q cannot be part of the name and of a label of a secret: Kubernetes takes at most 63 lower-case "+
				"letters, "+
				"digits, \"-\" and \".\", a letter or digit at the end.", b.suffix)))
	}
	if !subdomain().MatchString(b.namespace) || strings.Contains(b.namespace, ".") {
		diags = diags.Append(args.Problem("namespace", "Invalid namespace",
			fmt.Sprintf("%q is not the name of a namespace: lower-case letters, digits and \"-\".", b.namespace)))
	}
	for _, v := range b.labels {
		if !label().MatchString(v) {
			diags = diags.Append(args.Problem("labels", "Invalid label",
				fmt.Sprintf("%q cannot be the value of a label.", v)))
		}
	}
	cluster, user, more := source(p, args, account)
	if diags = diags.Append(more); diags.HasErrors() {
		return nil, diags
	}
	if diags = diags.Append(override(p, args, &cluster, &user)); diags.HasErrors() {
		return nil, diags
	}
	secrets := len(user.CertificateData) > 0 || user.Certificate != "" || user.Token != "" || user.TokenFile != "" ||
		user.Password != "" || user.Exec != nil
	address, more := addressOf(args, cluster, secrets)
	diags = diags.Append(more)
	who, more := identityOf(p, args, user)
	diags = diags.Append(more)
	config, more := tlsConfig(args, &cluster)
	if diags = diags.Append(more); diags.HasErrors() {
		return nil, diags
	}
	who.cluster = map[string]any{
		"server": address.String(), "certificate-authority-data": cluster.CAData,
		"insecure-skip-tls-verify": cluster.Insecure, "tls-server-name": cluster.TLSServerName, "config": nil,
	}
	config.GetClientCertificate = who.clientCertificate
	transport := p.Transport()
	cloud.Trust(transport, config)
	if cluster.ProxyURL != "" {
		proxy, err := url.Parse(cluster.ProxyURL)
		if err != nil || proxy.Host == "" {
			return nil, diags.Append(args.Problem("config_path", "Invalid proxy",
				"The cluster's proxy-url is not a URL."))
		}
		transport.Proxy = http.ProxyURL(proxy)
	}
	b.transport, b.checkEvery = transport, p.LockCheck
	b.api = &api{address: address, client: newClient(transport), identity: who, userAgent: p.UserAgent}
	return b, diags
}

// source returns the cluster and the user of the environment: those of the pod, or those of a kubeconfig.
func source(p backend.Place, args backend.Arguments, account string) (clusterEntry, userEntry, diag.List) {
	if !args.Bool("in_cluster_config") {
		files, given, diags := kubeconfigs(p, args)
		if diags.HasErrors() {
			return clusterEntry{}, userEntry{}, diags
		}
		cluster, user, diags := files.choose(args)
		if !diags.HasErrors() && user.AuthProvider != nil {
			diags = diags.Append(args.Problem(given, "Unsupported authentication",
				"The user of the kubeconfig has an auth-provider. Kubernetes has removed those: use an exec plugin."))
		}
		if !diags.HasErrors() && user.As == "" && len(user.UID)+len(user.Groups)+len(user.Extra) > 0 {
			diags = diags.Append(args.Problem(given, "Incomplete impersonation",
				"The user of the kubeconfig has \"as-uid\", \"as-groups\" or \"as-user-extra\" without \"as\"."))
		}
		return cluster, user, diags
	}
	host, port := p.Env("KUBERNETES_SERVICE_HOST"), p.Env("KUBERNETES_SERVICE_PORT")
	tokenFile := filepath.Join(account, "token")
	_, err := os.Stat(tokenFile)
	if host == "" || port == "" || err != nil {
		return clusterEntry{}, userEntry{}, diag.List{args.Problem("in_cluster_config", "Not inside of a cluster",
			"\"in_cluster_config\" is set, and there is no service account: KUBERNETES_SERVICE_HOST, "+
				"KUBERNETES_SERVICE_PORT and "+tokenFile+" are needed.")}
	}
	cluster := clusterEntry{Server: "https://" + net.JoinHostPort(host, port), CA: filepath.Join(account, "ca.crt")}
	if _, err := os.Stat(cluster.CA); errors.Is(err, os.ErrNotExist) {
		cluster.CA = "" // the system's authorities
	}
	return cluster, userEntry{TokenFile: tokenFile}, nil
}

// override applies the arguments. Credentials in the arguments replace the user's program.
func override(p backend.Place, args backend.Arguments, cluster *clusterEntry, user *userEntry) diag.List {
	if args.Given("host") {
		cluster.Server = args.String("host")
	}
	if args.Set("insecure") {
		cluster.Insecure = args.Bool("insecure")
	}
	if args.Given("cluster_ca_certificate") {
		cluster.CA, cluster.CAData = "", []byte(args.String("cluster_ca_certificate"))
	}
	if args.Given("client_certificate") {
		user.Certificate, user.CertificateData = "", []byte(args.String("client_certificate"))
	}
	if args.Given("client_key") {
		user.Key, user.KeyData = "", []byte(args.String("client_key"))
	}
	if args.Given("username") || args.Given("password") {
		user.Exec, user.Token, user.TokenFile = nil, "", ""
	}
	if args.Given("username") {
		user.Username = args.String("username")
	}
	if args.Given("password") {
		user.Password = args.String("password")
	}
	program, ok := args.Nested("exec")
	if ok && args.Count("exec") > 1 {
		return diag.List{args.Problem("exec", "Too many exec blocks", "The backend takes one block \"exec\".")}
	}
	if ok {
		if program.String("command") == "" {
			return diag.List{program.Problem("command", "Missing required argument", "The argument \"command\" is "+
				"required.")}
		}
		if !slices.Contains(execVersions, program.String("api_version")) {
			return diag.List{program.Problem("api_version", "Invalid api_version",
				"\"api_version\" has to be one of "+strings.Join(execVersions, ", ")+".")}
		}
		e := &execEntry{
			APIVersion: program.String("api_version"), Command: program.String("command"),
			Args: program.Strings("args"), dir: p.Path("."),
		}
		for name, value := range program.Map("env") {
			e.Env = append(e.Env, struct{ Name, Value string }{name, value})
		}
		user.Exec, user.Token, user.TokenFile, user.Username = e, "", "", args.String("username")
	}
	if args.Given("token") {
		user.Token, user.TokenFile, user.Exec = args.String("token"), "", nil
	}
	if user.Exec != nil && !slices.Contains(execVersions, user.Exec.APIVersion) {
		return diag.List{args.Problem("config_path", "Invalid kubeconfig",
			"The apiVersion of the user's exec section has to be one of "+strings.Join(execVersions, ", ")+".")}
	}
	return nil
}

// addressOf returns the address of the API server. An address without a scheme is https if certificates are
// configured, or if there is a secret, which would otherwise be sent unencrypted.
func addressOf(args backend.Arguments, c clusterEntry, secrets bool) (*url.URL, diag.List) {
	at, server := "config_path", c.Server
	if args.Given("host") {
		at = "host"
	}
	if server == "" {
		return nil, diag.List{args.Problem("host", "No cluster is configured",
			"The backend does not know which API server to ask. Set \"host\" (KUBE_HOST), or \"config_path\" "+
				"(KUBE_CONFIG_PATH) to a kubeconfig with a current context, or \"in_cluster_config\". "+
				"The variable KUBECONFIG is not read.")}
	}
	if !strings.Contains(server, "://") {
		scheme := "http://"
		if secrets || c.Insecure || c.CA != "" || len(c.CAData) > 0 {
			scheme = "https://"
		}
		server = scheme + server
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, diag.List{args.Problem(at, "Invalid host",
			"The address of the API server has to be a host name, or a URL that begins with http:// or https:// and "+
				"names no user.")}
	}
	return u, nil
}

// identityOf returns the client's identity.
func identityOf(p backend.Place, args backend.Arguments, user userEntry) (*identity, diag.List) {
	who := &identity{
		token: user.Token, tokenFile: user.TokenFile, username: user.Username, password: user.Password,
		program: user.Exec, place: p, impersonation: user.headers(),
	}
	at := "config_path"
	if args.Given("client_certificate") {
		at = "client_certificate"
	} else if args.Given("client_key") {
		at = "client_key"
	}
	certificate, err := fileOr(user.Certificate, user.CertificateData)
	if err != nil {
		return nil, diag.List{args.Problem(at, "Invalid client certificate", fmt.Sprintf("Reading it: %s.", err))}
	}
	key, err := fileOr(user.Key, user.KeyData)
	if err != nil {
		return nil, diag.List{args.Problem(at, "Invalid client certificate", fmt.Sprintf("Reading its key: %s.", err))}
	}
	switch {
	case len(certificate) == 0 && len(key) == 0:
		return who, nil
	case len(certificate) == 0 || len(key) == 0:
		return nil, diag.List{args.Problem(at, "Incomplete client certificate",
			"\"client_certificate\" and \"client_key\" need each other.")}
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, diag.List{args.Problem(at, "Invalid client certificate",
			fmt.Sprintf("The certificate and its key cannot be used: %s.", err))}
	}
	who.certificate = &pair
	return who, nil
}

// tlsConfig returns the TLS configuration for verifying the server. It reads the file of the authorities into the
// entry.
func tlsConfig(args backend.Arguments, c *clusterEntry) (*tls.Config, diag.List) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.Insecure, ServerName: c.TLSServerName}
	at := "config_path"
	if args.Given("cluster_ca_certificate") {
		at = "cluster_ca_certificate"
	}
	var err error
	if c.CAData, err = fileOr(c.CA, c.CAData); err != nil {
		return nil, diag.List{args.Problem(at, "Invalid certificate", fmt.Sprintf("Reading the authority: %s.", err))}
	}
	if len(c.CAData) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(c.CAData) {
			return nil, diag.List{args.Problem(at, "Invalid certificate",
				"The cluster's authority is not a certificate in PEM form.")}
		}
	}
	return config, nil
}

// fileOr returns given, or else the content of a file.
func fileOr(name string, given []byte) ([]byte, error) {
	if len(given) > 0 || name == "" {
		return given, nil
	}
	return os.ReadFile(name)
}
