package planfile

import (
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// The encoded forms. Addresses are text; values are msgpack with a type from the table, so that a type that ten
// thousand changes share is stored once.

type codedPlan struct {
	Mode          byte                     `msgpack:"mo"`
	EngineVersion string                   `msgpack:"ev"`
	Timestamp     time.Time                `msgpack:"ts"`
	Workspace     string                   `msgpack:"ws"`
	Variables     map[string]codedVariable `msgpack:"va"`
	Targets       []string                 `msgpack:"ta"`
	Excludes      []string                 `msgpack:"ex"`
	Replace       []string                 `msgpack:"re"`
	Invoke        []string                 `msgpack:"iv,omitempty"`
	Changes       codedChanges             `msgpack:"ch"`
	Drift         codedChanges             `msgpack:"dr"`
	Invocations   []codedInvocation        `msgpack:"in,omitempty"`
	Outputs       []codedOutput            `msgpack:"ou"`
	Checks        []state.CheckResult      `msgpack:"ck"`
	Relevant      []codedRelevant          `msgpack:"rl,omitempty"`
	Prior         []byte                   `msgpack:"pr"`
	SetResources  []string                 `msgpack:"sr,omitempty"` // see state.Sets
	Sets          [][]byte                 `msgpack:"se,omitempty"`
	BaseLineage   string                   `msgpack:"bl"`
	BaseSerial    uint64                   `msgpack:"bs"`
	BaseAt        *time.Time               `msgpack:"ba,omitempty"`
	BackendType   string                   `msgpack:"bt"`
	BackendConfig []byte                   `msgpack:"bc"`
	Graph         codedGraph               `msgpack:"ag"`
	OldGraph      *oldGraph                `msgpack:"gr,omitempty"` // of format 1, instead
	Dependencies  *codedDependencies       `msgpack:"ro,omitempty"`
	Untouched     []string                 `msgpack:"un,omitempty"`
	Unread        *codedUnread             `msgpack:"ur,omitempty"`
	EndsDoubts    bool                     `msgpack:"ed,omitempty"`
	Defers        bool                     `msgpack:"fe,omitempty"`
	Deferred      []codedDeferred          `msgpack:"fd,omitempty"`
	Errored       bool                     `msgpack:"er"`
	Circle        []string                 `msgpack:"ci,omitempty"`
	Providers     []plan.ProviderSelection `msgpack:"ps"`
	Types         *[][]byte                `msgpack:"ty"` // the last field: encoding the others completes it
}

// codedChanges are encoded one by one, so that a large plan is not in memory in this form as well.
type codedChanges struct {
	decoded []codedChange
	of      []*plan.Change
	encoder *encoder
}

// EncodeMsgpack implements msgpack.CustomEncoder.
func (c codedChanges) EncodeMsgpack(to *msgpack.Encoder) error {
	if err := to.EncodeArrayLen(len(c.of)); err != nil {
		return err
	}
	for _, ch := range c.of {
		coded := c.encoder.change(ch)
		if err := to.Encode(&coded); err != nil {
			return err
		}
	}
	return nil
}

// DecodeMsgpack implements msgpack.CustomDecoder.
func (c *codedChanges) DecodeMsgpack(from *msgpack.Decoder) error { return from.Decode(&c.decoded) }

type codedUnread struct {
	Objects  int       `msgpack:"n"`
	Since    time.Time `msgpack:"s"`
	Verdicts int       `msgpack:"v,omitempty"`
}

type codedVariable struct {
	Value     *codedValue `msgpack:"v"`
	Ephemeral bool        `msgpack:"e,omitempty"`
	Sensitive bool        `msgpack:"s,omitempty"`
}

type codedValue struct {
	Type  int      `msgpack:"t"`
	Data  []byte   `msgpack:"d"`
	Marks [][]byte `msgpack:"m,omitempty"` // the paths of sensitive values
}

type codedProvider struct {
	Module string        `msgpack:"m,omitempty"`
	Source addr.Provider `msgpack:"s"`
	Alias  string        `msgpack:"a,omitempty"`
	Key    string        `msgpack:"k,omitempty"`
	Keyed  bool          `msgpack:"kd,omitempty"`
}

type codedChange struct {
	Addr            string        `msgpack:"a"`
	Previous        string        `msgpack:"p,omitempty"`
	Deposed         string        `msgpack:"d,omitempty"`
	Provider        codedProvider `msgpack:"pr"`
	Action          string        `msgpack:"ac"`
	Reason          string        `msgpack:"r,omitempty"`
	Kept            bool          `msgpack:"kp,omitempty"`
	Before          *codedValue   `msgpack:"b,omitempty"`
	After           *codedValue   `msgpack:"f,omitempty"`
	Same            bool          `msgpack:"sa,omitempty"` // After is Before
	ReplacePaths    [][]byte      `msgpack:"rp,omitempty"`
	PriorPrivate    []byte        `msgpack:"pp,omitempty"`
	PlannedPrivate  []byte        `msgpack:"np,omitempty"`
	BeforeIdentity  *codedValue   `msgpack:"bi,omitempty"`
	AfterIdentity   *codedValue   `msgpack:"ai,omitempty"`
	SchemaVersion   int64         `msgpack:"sv,omitempty"`
	IdentityVersion int64         `msgpack:"iv,omitempty"`
	CreateFirst     bool          `msgpack:"cf,omitempty"`
	SkipDestroy     bool          `msgpack:"sd,omitempty"`
	Importing       *codedImport  `msgpack:"im,omitempty"`
	Generated       string        `msgpack:"gc,omitempty"`
	Legacy          bool          `msgpack:"l,omitempty"`
	Tainted         bool          `msgpack:"t,omitempty"`
	Inputs          []byte        `msgpack:"in,omitempty"`
}

// EncodeMsgpack implements msgpack.CustomEncoder.
func (c *codedValue) EncodeMsgpack(to *msgpack.Encoder) error {
	return coding.EncodeFields(to, func(f *coding.Fields) {
		f.AnyInt("t", int64(c.Type), true)
		f.AnyBytes("d", c.Data, true)
		f.Other("m", &c.Marks, len(c.Marks) > 0)
	})
}

// EncodeMsgpack implements msgpack.CustomEncoder.
func (c *codedProvider) EncodeMsgpack(to *msgpack.Encoder) error {
	return coding.EncodeFields(to, func(f *coding.Fields) {
		f.Text("m", c.Module)
		f.Other("s", &c.Source, true)
		f.Text("a", c.Alias)
		f.Text("k", c.Key)
		f.Bool("kd", c.Keyed)
	})
}

// EncodeMsgpack implements msgpack.CustomEncoder.
func (c *codedChange) EncodeMsgpack(to *msgpack.Encoder) error {
	return coding.EncodeFields(to, func(f *coding.Fields) {
		f.AnyText("a", c.Addr, true)
		f.Text("p", c.Previous)
		f.Text("d", c.Deposed)
		f.Other("pr", &c.Provider, true)
		f.AnyText("ac", c.Action, true)
		f.Text("r", c.Reason)
		f.Bool("kp", c.Kept)
		f.Other("b", c.Before, c.Before != nil)
		f.Other("f", c.After, c.After != nil)
		f.Bool("sa", c.Same)
		f.Other("rp", &c.ReplacePaths, len(c.ReplacePaths) > 0)
		f.Bytes("pp", c.PriorPrivate)
		f.Bytes("np", c.PlannedPrivate)
		f.Other("bi", c.BeforeIdentity, c.BeforeIdentity != nil)
		f.Other("ai", c.AfterIdentity, c.AfterIdentity != nil)
		f.Int("sv", c.SchemaVersion)
		f.Int("iv", c.IdentityVersion)
		f.Bool("cf", c.CreateFirst)
		f.Bool("sd", c.SkipDestroy)
		f.Other("im", c.Importing, c.Importing != nil)
		f.Text("gc", c.Generated)
		f.Bool("l", c.Legacy)
		f.Bool("t", c.Tainted)
		f.Bytes("in", c.Inputs)
	})
}

type codedImport struct {
	ID       string      `msgpack:"i,omitempty"`
	Identity *codedValue `msgpack:"n,omitempty"`
	Unknown  bool        `msgpack:"u,omitempty"`
}

type codedOutput struct {
	Name            string      `msgpack:"n"`
	Action          string      `msgpack:"ac"`
	Before          *codedValue `msgpack:"b"`
	After           *codedValue `msgpack:"a"`
	Sensitive       bool        `msgpack:"s,omitempty"`
	BeforeSensitive bool        `msgpack:"bs,omitempty"`
}

type codedRelevant struct {
	Resource  string `msgpack:"r"`
	Attribute []byte `msgpack:"a"`
}

type codedGraph struct {
	Vertices []codedVertex `msgpack:"v"`
	Edges    [][2]int32    `msgpack:"e"`
	Values   int           `msgpack:"f,omitempty"`
}

type codedVertex struct {
	Kind    byte   `msgpack:"k"`
	Change  int    `msgpack:"c"`
	Address string `msgpack:"a,omitempty"`
	// The identity of the vertex of the plan graph.
	NodeKind   string `msgpack:"nk,omitempty"`
	NodeModule string `msgpack:"nm,omitempty"`
	NodeName   string `msgpack:"nn,omitempty"`
}

// EncodeMsgpack implements msgpack.CustomEncoder.
func (c *codedVertex) EncodeMsgpack(to *msgpack.Encoder) error {
	return coding.EncodeFields(to, func(f *coding.Fields) {
		f.AnyInt("k", int64(c.Kind), true)
		f.AnyInt("c", int64(c.Change), true)
		f.Text("a", c.Address)
		f.Text("nk", c.NodeKind)
		f.Text("nm", c.NodeModule)
		f.Text("nn", c.NodeName)
	})
}

// oldGraph is the graph of a plan in format 1. There, a vertex was identified by its index in a plan graph, whose
// order depends on the version that made the plan. So the indexes are not decoded.
type oldGraph struct {
	Vertices []oldVertex
	Edges    [][2]int32
}

type oldVertex struct {
	Kind    byte
	Change  int
	Address string
}
