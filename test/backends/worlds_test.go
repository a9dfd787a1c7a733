package backends

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/clouds/alibaba"
	"github.com/millipede-iac/millipede/test/stage/clouds/amazon"
	"github.com/millipede-iac/millipede/test/stage/clouds/azure"
	"github.com/millipede-iac/millipede/test/stage/clouds/consul"
	"github.com/millipede-iac/millipede/test/stage/clouds/faults"
	"github.com/millipede-iac/millipede/test/stage/clouds/google"
	"github.com/millipede-iac/millipede/test/stage/clouds/kubernetes"
	"github.com/millipede-iac/millipede/test/stage/clouds/tencent"
)

// world is a storage service of a backend, with the configuration and the environment in which commands use it.
type world struct {
	kind   string
	body   string // the arguments of the backend block
	env    map[string]string
	faults *faults.Faults // the faults of the service; nil for a database
	*database

	oneState       bool // the backend has no workspaces
	holderUnknown  bool // the service does not store who holds a lock
	diesWithHolder bool // a lock is released when its holder's process ends, and cannot be broken
	expires        bool // a lock is released some time after its holder's process has ended

	dead string // the ID of a lock whose holder was killed
}

// worlds starts a service for each kind of backend.
var worlds = map[string]func(t *testing.T) *world{
	"azurerm": func(t *testing.T) *world {
		s := azure.New(t, "states")
		env := s.Env()
		env["ARM_ACCESS_KEY"] = azure.AccessKey
		return &world{env: env, faults: &s.Faults, body: `
			storage_account_name = "` + azure.Account + `"
			container_name       = "states"
			key                  = "a/b.tfstate"`}
	},
	"consul": func(t *testing.T) *world {
		if consulProgram != "" {
			return startConsul(t)
		}
		a, s := consul.Serve(t)
		return &world{expires: true, faults: &a.Faults, body: consulBody(s.Listener.Addr())}
	},
	"cos": func(t *testing.T) *world {
		s := tencent.New(t)
		env := s.Env()
		env["TENCENTCLOUD_SECRET_ID"], env["TENCENTCLOUD_SECRET_KEY"] = tencent.KeyID, tencent.Secret
		return &world{env: env, faults: &s.Faults, body: `
			bucket = "` + tencent.Bucket + `"
			region = "` + tencent.Region + `"
			prefix = "a/b"`}
	},
	"gcs": func(t *testing.T) *world {
		s := google.New(t, "states")
		return &world{faults: &s.Faults, env: map[string]string{
			"GOOGLE_OAUTH_ACCESS_TOKEN": google.Token, "GOOGLE_STORAGE_CUSTOM_ENDPOINT": s.Endpoint(),
		}, body: `
			bucket = "states"
			prefix = "a/b"`}
	},
	"http": func(t *testing.T) *world {
		s := &server{}
		h := httptest.NewServer(s.faults.Before(s))
		t.Cleanup(h.Close)
		return &world{oneState: true, faults: &s.faults, body: fmt.Sprintf(`
			address        = "%s/state"
			lock_address   = "%[1]s/lock"
			unlock_address = "%[1]s/lock"`, h.URL)}
	},
	"kubernetes": func(t *testing.T) *world {
		s := kubernetes.New(t)
		authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
		return &world{env: map[string]string{
			// OpenTofu requires the name of a file; the file need not exist.
			"KUBE_CONFIG_PATH": filepath.Join(t.TempDir(), "none"), "KUBE_TOKEN": kubernetes.Token,
			"KUBE_CLUSTER_CA_CERT_DATA": string(authority),
		}, faults: &s.Faults, body: `
			host          = "` + s.URL + `"
			secret_suffix = "state"`}
	},
	"oss": func(t *testing.T) *world {
		s := alibaba.New(t, "states")
		env := s.Env()
		tables := alibaba.TableURL
		if tofu != "" {
			tables = s.Plain()
		}
		env["ALICLOUD_ACCESS_KEY"], env["ALICLOUD_SECRET_KEY"] = alibaba.KeyID, alibaba.Secret
		return &world{env: env, faults: &s.Faults, body: `
			bucket              = "states"
			region              = "` + alibaba.Region + `"
			prefix              = "a/b"
			tablestore_table    = "` + alibaba.Table + `"
			tablestore_endpoint = "` + tables + `"`}
	},
	"pg": func(t *testing.T) *world {
		d := startDatabase(t)
		return &world{holderUnknown: true, diesWithHolder: true, database: d, body: `
			conn_str    = "` + d.address() + `"
			schema_name = "` + schema + `"`}
	},
	"s3": func(t *testing.T) *world {
		s := amazon.New(t, "states")
		return &world{faults: &s.Faults, env: map[string]string{
			"AWS_ACCESS_KEY_ID": amazon.AccessKey, "AWS_SECRET_ACCESS_KEY": amazon.SecretKey, "AWS_REGION": "eu-west-1",
			"AWS_ENDPOINT_URL_S3": s.URL, "AWS_ENDPOINT_URL_DYNAMODB": s.URL, "AWS_ENDPOINT_URL_STS": s.URL,
		}, body: `
			bucket         = "states"
			key            = "a/b.tfstate"
			use_lockfile   = true
			dynamodb_table = "locks"
			use_path_style = true`}
	},
}

// server serves one state by the protocol of the backend http. It accepts a state from the holder of the lock, and from
// a client that names no lock.
type server struct {
	faults faults.Faults

	mu          sync.Mutex // guards the fields below
	state, lock []byte
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Method == "LOCK" && s.lock != nil:
		w.WriteHeader(http.StatusLocked)
		_, _ = w.Write(s.lock)
	case r.Method == "LOCK":
		s.lock = body
	case r.Method == "UNLOCK":
		id := idOf(body)
		if s.lock == nil || idOf(s.lock) != id {
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write(s.lock)
			return
		}
		s.lock = nil
	case r.Method == http.MethodPost:
		if id := r.URL.Query().Get("ID"); id != "" && id != idOf(s.lock) {
			w.WriteHeader(http.StatusConflict)
			return
		}
		s.state = body
	case r.Method == http.MethodDelete:
		s.state = nil
	case s.state == nil:
		w.WriteHeader(http.StatusNotFound)
	default:
		_, _ = w.Write(s.state)
	}
}
