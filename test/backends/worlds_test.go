package backends

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/millipede-iac/millipede/test/clouds/alibaba"
	"github.com/millipede-iac/millipede/test/clouds/amazon"
	"github.com/millipede-iac/millipede/test/clouds/azure"
	"github.com/millipede-iac/millipede/test/clouds/consul"
	"github.com/millipede-iac/millipede/test/clouds/google"
	"github.com/millipede-iac/millipede/test/clouds/kubernetes"
	"github.com/millipede-iac/millipede/test/clouds/tencent"
	"github.com/millipede-iac/millipede/test/postgres"
)

// world is a place for states, and what a user needs to reach it.
type world struct {
	kind string
	body string // of the backend block
	env  map[string]string
	// fail has the place refuse everything, or be itself again.
	fail func(bool)

	oneState       bool
	holderUnknown  bool // the place does not store who holds a lock
	diesWithHolder bool // a lock ends with its holder, and cannot be broken
	expires        bool // a lock ends a while after its holder
}

// many are refusals that are not tried again, for as many requests as a command makes.
func many(on bool) []int {
	if !on {
		return nil
	}
	return slices.Repeat([]int{http.StatusNotImplemented}, 500)
}

// worlds has a place of each kind.
var worlds = map[string]func(t *testing.T) *world{
	"azurerm": func(t *testing.T) *world {
		s := azure.New(t, "states")
		env := s.Env()
		env["ARM_ACCESS_KEY"] = azure.AccessKey
		return &world{env: env, fail: func(on bool) {
			var failures []azure.Failure
			for _, status := range many(on) {
				failures = append(failures, azure.Failure{Status: status})
			}
			s.Fail(failures...)
		}, body: `
			storage_account_name = "` + azure.Account + `"
			container_name       = "states"
			key                  = "a/b.tfstate"`}
	},
	"consul": func(t *testing.T) *world {
		a, s := consul.Serve(t)
		return &world{expires: true, fail: func(on bool) { a.Fail(many(on)...) }, body: `
			address = "` + s.Listener.Addr().String() + `"
			scheme  = "http"
			path    = "a/b"`}
	},
	"cos": func(t *testing.T) *world {
		s := tencent.New(t)
		env := s.Env()
		env["TENCENTCLOUD_SECRET_ID"], env["TENCENTCLOUD_SECRET_KEY"] = tencent.KeyID, tencent.Secret
		return &world{env: env, fail: func(on bool) { s.Fail(many(on)...) }, body: `
			bucket = "` + tencent.Bucket + `"
			region = "` + tencent.Region + `"
			prefix = "a/b"`}
	},
	"gcs": func(t *testing.T) *world {
		s := google.New(t, "states")
		return &world{fail: func(on bool) { s.Fail(many(on)...) }, env: map[string]string{
			"GOOGLE_OAUTH_ACCESS_TOKEN": google.Token, "GOOGLE_STORAGE_CUSTOM_ENDPOINT": s.Endpoint(),
		}, body: `
			bucket = "states"
			prefix = "a/b"`}
	},
	"http": func(t *testing.T) *world {
		s := &server{}
		h := httptest.NewServer(s)
		t.Cleanup(h.Close)
		return &world{oneState: true, fail: s.refuse, body: fmt.Sprintf(`
			address        = "%s/state"
			lock_address   = "%[1]s/lock"
			unlock_address = "%[1]s/lock"`, h.URL)}
	},
	"kubernetes": func(t *testing.T) *world {
		s := kubernetes.New(t)
		authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
		return &world{env: map[string]string{
			"KUBE_TOKEN": kubernetes.Token, "KUBE_CLUSTER_CA_CERT_DATA": string(authority),
		}, fail: func(on bool) { s.Fail(many(on)...) }, body: `
			host          = "` + s.URL + `"
			secret_suffix = "state"`}
	},
	"oss": func(t *testing.T) *world {
		s := alibaba.New(t, "states")
		env := s.Env()
		env["ALICLOUD_ACCESS_KEY"], env["ALICLOUD_SECRET_KEY"] = alibaba.KeyID, alibaba.Secret
		return &world{env: env, fail: func(on bool) { s.Fail(many(on)...) }, body: `
			bucket              = "states"
			region              = "` + alibaba.Region + `"
			prefix              = "a/b"
			tablestore_table    = "` + alibaba.Table + `"
			tablestore_endpoint = "` + alibaba.TableURL + `"`}
	},
	"pg": func(t *testing.T) *world {
		s := postgres.Start(t)
		return &world{holderUnknown: true, diesWithHolder: true, fail: func(on bool) {
			if on {
				s.Stop()
			} else {
				s.Run()
			}
		}, body: `
			conn_str    = "` + s.URL() + `"
			schema_name = "Some Schema"`}
	},
	"s3": func(t *testing.T) *world {
		s := amazon.New(t, "states")
		return &world{fail: func(on bool) { s.Fail(many(on)...) }, env: map[string]string{
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

// server is a place of the protocol that the backend http speaks.
type server struct {
	mu          sync.Mutex // guards what follows
	state, lock []byte
	broken      bool
}

func (s *server) refuse(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = on
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.broken:
		w.WriteHeader(http.StatusNotImplemented)
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
		s.state = body
	case r.Method == http.MethodDelete:
		s.state = nil
	case s.state == nil:
		w.WriteHeader(http.StatusNotFound)
	default:
		_, _ = w.Write(s.state)
	}
}
