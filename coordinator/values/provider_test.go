package values

import (
	"slices"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/provider/provisioner"
	"github.com/millipede-iac/millipede/wire"
)

// served returns the provider instance that serves an instance of a resource.
func (s *Store) served(name string, k addr.Key) (addr.ProviderInstance, error) {
	r := s.resource(name)
	e, _ := r.Expansion()
	p, diags := r.Module().ProviderOf(r.Code.Config, e.Repetition(k))
	return p, diags.Err()
}

const regional = `
locals { regions = toset(["eu", "us"]) }
provider "fake" {
  alias    = "by_region"
  for_each = local.regions
  region   = each.value
}
provider "fake" {
  region = "default"
  token  = sensitive("hush")
}
resource "fake_thing" "plain" {}
resource "fake_thing" "each" {
  for_each = local.regions
  provider = fake.by_region[each.key]
}
resource "fake_thing" "wrong" { provider = fake.by_region["mars"] }
resource "fake_thing" "null" { provider = fake.by_region[null] }
resource "fake_thing" "later" { provider = fake.by_region[fake_thing.plain.id] }
`

func TestAResourceIsServedByTheInstanceOfItsProviderThatItsKeyNames(t *testing.T) {
	s := store(t, Planning, nil, regional)
	for name, want := range map[string]struct {
		key         addr.Key
		alias, says string
	}{
		"plain": {addr.NoKey, "", ""},
		"each":  {addr.StringKey("us"), "by_region", ""},
		"wrong": {addr.NoKey, "", `no instance with the key "mars"`},
		"null":  {addr.NoKey, "", "must not be null"},
		"later": {addr.NoKey, "", "not known before the apply"},
	} {
		r := s.resource(name)
		e, _ := r.Expansion()
		got, diags := r.Module().ProviderOf(r.Code.Config, e.Repetition(want.key))
		says(t, diags, want.says)
		if want.says == "" && (got.Alias != want.alias || got.Key != want.key) {
			t.Errorf("%s is served by %s", name, got)
		}
	}
	validating := store(t, Validating, nil, regional)
	if _, err := validating.served("later", addr.NoKey); err != nil {
		t.Errorf("validation evaluates the key of the provider instance: %v", err)
	}
}

func TestAProviderIsEvaluatedForEachOfItsInstances(t *testing.T) {
	s := store(t, Planning, nil, regional)
	block := s.Root().Node.Module.Providers[addr.LocalProvider{Name: "fake", Alias: "by_region"}]
	keys := s.Root().ProviderKeys(block)
	if !slices.Equal(keys, []addr.Key{addr.StringKey("eu"), addr.StringKey("us")}) {
		t.Errorf("the keys of the provider are %v", keys)
	}
	us, err := s.served("each", addr.StringKey("us"))
	if err != nil {
		t.Fatal(err)
	}
	p, diags := s.Provider(us)
	says(t, diags, "")
	if p.Strings["region"] != "us" {
		t.Errorf("the region of the provider is %q", p.Strings["region"])
	}
	plain, _ := s.served("plain", addr.NoKey)
	q, diags := s.Provider(plain)
	says(t, diags, "")
	if _, told := q.Strings["token"]; told || q.Strings["region"] != "default" {
		t.Errorf("the attributes for placement rules are %v", q.Strings)
	}
	if p.Digest == q.Digest || p.Digest == "" {
		t.Error("different configurations have the same digest")
	}
	if got := s.Root().ProviderKeys(q.Block); !slices.Equal(got, []addr.Key{addr.NoKey}) {
		t.Errorf("the keys of the provider are %v", got)
	}
	mars := us
	mars.Key = addr.StringKey("mars")
	keyless := addr.ProviderInstance{Provider: us.Provider, Alias: us.Alias}
	if !s.HasInstance(us) || s.HasInstance(mars) || s.HasInstance(keyless) || !s.HasInstance(plain) {
		t.Error("HasInstance returns a wrong result")
	}
	gone := us.Config()
	gone.Alias = "gone"
	elsewhere := us.Config()
	elsewhere.Module = addr.ModuleOf("nosuch")
	if !s.HasProvider(us.Config()) || !s.HasProvider(plain.Config()) || s.HasProvider(gone) ||
		s.HasProvider(elsewhere) {
		t.Error("HasProvider returns a wrong result")
	}
}

func TestAProviderThatCannotBeEvaluatedFailsWithoutEncoding(t *testing.T) {
	s := store(t, Planning, nil, `
provider "fake" { region = nosuch.thing.id }
resource "fake_thing" "a" {}
`)
	at, err := s.served("a", addr.NoKey)
	if err != nil {
		t.Fatal(err)
	}
	p, diags := s.Provider(at)
	says(t, diags, "Reference to undeclared resource")
	if p.Encoded != nil {
		t.Error("an invalid configuration was encoded")
	}
	at.Provider.Type = "unheard"
	_, _, diags = WireProvider(s, at, wire.Package{}, addr.ConfigResource{})
	says(t, diags, "Provider not available")
}

func TestAModulePassesProvidersToItsChildren(t *testing.T) {
	s := store(t, Planning, nil, `
provider "fake" {
  alias    = "by_region"
  for_each = toset(["eu", "us"])
  region   = each.key
}
module "child" {
  source    = "./child"
  for_each  = toset(["us"])
  providers = { fake = fake.by_region[each.key] }
}`, `resource "fake_thing" "a" {}`)
	m := s.Instances(addr.ModuleOf("child"))[0]
	r := m.ResourceBlock(addr.Resource{Mode: addr.Managed, Type: "fake_thing", Name: "a"})
	got, diags := m.ProviderOf(r.Code.Config, eval.Once)
	says(t, diags, "")
	if got.Key != addr.StringKey("us") || got.Alias != "by_region" || !got.Module.IsRoot() {
		t.Errorf("the provider instance is %s", got)
	}
}

// The behaviour that OpenTofu documents for provisioners: self is the object, a connection block of the provisioner has
// precedence over that of the resource.
func TestAProvisionerIsEvaluatedWithItsConnection(t *testing.T) {
	s := store(t, Applying, nil, `
resource "fake_thing" "a" {
  connection {
    type = "ssh"
    host = self.id
    user = "all"
  }
  provisioner "remote-exec" {
    inline = ["echo ${self.name}"]
    connection { user = "one" }
  }
  provisioner "local-exec" {
    command = "echo ${self.secret}"
    on_failure = continue
  }
  provisioner "local-exec" { command = nosuch.thing.id }
  provisioner "file" { destination = "/x" }
  provisioner "remote-exec" {}
}`)
	c := s.resource("a").Code.Config
	secret := cty.StringVal("s").Mark(marks.Sensitive)
	self := object("id", "10.0.0.1", "name", "n", "secret", secret, "old", cty.NullVal(cty.String))
	out, diags := s.Root().EvalProvisioner(c.Provisioners[0], c.Connection, eval.Once, self)
	says(t, diags, "")
	connection, err := coding.DecodeValue(out.Connection, provisioner.Connection.ImpliedType())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"host": "10.0.0.1", "user": "one", "type": "ssh"} {
		if got := connection.GetAttr(name).AsString(); got != want {
			t.Errorf("the connection has %s = %q, want %q", name, got, want)
		}
	}
	out, diags = s.Root().EvalProvisioner(c.Provisioners[1], nil, eval.Once, self)
	says(t, diags, "")
	if !out.Continue || out.Connection != nil {
		t.Errorf("got %+v", out)
	}
	for i, want := range map[int]string{2: "Reference to undeclared resource", 3: "", 4: ""} {
		_, diags := s.Root().EvalProvisioner(c.Provisioners[i], nil, eval.Once, self)
		if !diags.HasErrors() {
			t.Errorf("provisioner %d is accepted", i)
		}
		if want != "" {
			says(t, diags, want)
		}
	}
	odd := *c.Provisioners[1]
	odd.Type = "chef"
	_, diags = s.Root().EvalProvisioner(&odd, nil, eval.Once, self)
	says(t, diags, `no provisioner "chef"`)
}
