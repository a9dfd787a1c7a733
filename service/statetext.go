package service

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/skim"
	"github.com/millipede-iac/millipede/service/tables"
)

// stateText has the properties of a state that the service extracts from the exchange format.
type stateText struct {
	engine, lineage string
	serial          uint64
	encrypted       bool
	outputs         []record.Output
	resources       int // managed ones; each instance counts
	version         int // version of the format
	providers       map[string]bool
}

// maxProviders bounds the number of provider configurations that are recorded for a state.
const maxProviders = 200

// usedProviders returns the provider configurations; nil if they are unknown or too many.
func (t *stateText) usedProviders() []string {
	if t.encrypted || t.version != 4 || len(t.providers) > maxProviders {
		return nil
	}
	return slices.AppendSeq([]string{}, maps.Keys(t.providers))
}

// readState reads a state as a stream, one resource instance at a time, so that memory does not grow with its
// size. It reads an encrypted state only up to the encrypted data.
func readState(text io.Reader) (t stateText, err error) {
	d := skim.New(text)
	t.providers = map[string]bool{}
	err = d.Members(func(key string) error {
		switch key {
		case "version":
			return d.Decode(&t.version)
		case "terraform_version":
			return d.Decode(&t.engine)
		case "lineage":
			return d.Decode(&t.lineage)
		case "serial":
			return d.Decode(&t.serial)
		case "encrypted_data":
			t.encrypted = true
			return errEnough
		case "outputs":
			raw, _, err := d.Raw()
			if err != nil {
				return err
			}
			var all map[string]stateOutput
			if err := json.Unmarshal(skim.Compact(nil, raw), &all); err != nil {
				return err
			}
			t.outputs = outputsOf(all)
			return nil
		case "resources":
			return d.Elements(func() error {
				n, provider, err := readResource(d)
				t.resources += n
				if len(t.providers) <= maxProviders {
					t.providers[provider] = true
				}
				return err
			})
		}
		return d.Skip()
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return t, err
}

// errEnough ends the reading of a state early.
var errEnough = errors.New("enough was read")

// readResource returns the number of instances of a resource (0 for a data source), and the provider
// configuration that they belong to.
func readResource(d *skim.Reader) (instances int, provider string, err error) {
	mode := ""
	err = d.Members(func(key string) (err error) {
		switch key {
		case "mode":
			mode, err = d.Text()
			return err
		case "provider":
			provider, err = d.Text()
			return err
		case "instances":
			return d.Elements(func() error {
				instances++
				return d.Skip()
			})
		}
		return d.Skip()
	})
	if mode != "managed" {
		instances = 0
	}
	return instances, provider, err
}

// describe records the properties of a state in its version. Of an encrypted state it records only that it is
// encrypted. The error says why the content is not a state; then nothing is recorded.
func describe(v *record.StateVersion, text io.Reader) (stateText, error) {
	t, err := readState(text)
	if err != nil {
		return stateText{}, err
	}
	if v.Lineage == "" { // the client has not sent it
		v.Lineage = t.lineage
	}
	if v.Encrypted = t.encrypted; !v.Encrypted {
		v.Engine, v.Resources, v.Outputs, v.Providers = t.engine, t.resources, t.outputs, t.usedProviders()
	}
	return t, nil
}

// stateOutput is an output in a state, or in a request.
type stateOutput struct {
	Value     json.RawMessage `json:"value"`
	Type      json.RawMessage `json:"type"`
	Sensitive bool            `json:"sensitive"`
}

func outputsOf(all map[string]stateOutput) (out []record.Output) {
	for name, o := range all {
		out = append(out, record.Output{ID: tables.NewID("wsout"), Name: name, Sensitive: o.Sensitive, Type: o.Type,
			Value: o.Value})
	}
	slices.SortFunc(out, func(x, y record.Output) int { return strings.Compare(x.Name, y.Name) })
	return out
}

// readOutputs reads the outputs that were sent in a request along with a state, which may be encrypted.
func readOutputs(text []byte) []record.Output {
	if decoded, err := base64.StdEncoding.DecodeString(string(text)); err == nil {
		text = decoded
	}
	var all map[string]stateOutput
	if json.Unmarshal(text, &all) != nil {
		return nil
	}
	return outputsOf(all)
}
