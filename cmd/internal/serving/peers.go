package serving

import (
	"context"
	"encoding/json"
	"time"

	"github.com/millipede-iac/millipede/service/group"
	"github.com/millipede-iac/millipede/state/log"
	"github.com/millipede-iac/millipede/state/seal"
)

// peers are the other members of a group, which are asked over NATS. What members say is sealed with a key that only
// they have. It implements group.Peers.
type peers struct {
	group *groupLog
	key   *seal.Key
}

// memberPlace is what these messages are bound to.
var memberPlace = []byte("a member of the group")

func newPeers(g *groupLog) (*peers, error) {
	secret, err := log.StoreSecret(g.secret, g.log.Incarnation(), "members/")
	if err != nil {
		return nil, err
	}
	key, err := seal.NewKey(secret)
	return &peers{g, key}, err
}

func (p *peers) code(i group.Info) ([]byte, error) {
	data, err := json.Marshal(i)
	if err != nil {
		return nil, err
	}
	return p.key.Seal(memberPlace, data), nil
}

// decode returns nil for what no member of the group has written.
func (p *peers) decode(data []byte) *group.Info {
	plain, err := p.key.Open(memberPlace, data)
	if err != nil {
		return nil
	}
	i := new(group.Info)
	if json.Unmarshal(plain, i) != nil || i.Name == "" {
		return nil
	}
	return i
}

// Ask implements group.Peers.
func (p *peers) Ask(ctx context.Context, own group.Info, wait time.Duration, each func(group.Info) bool) error {
	question, err := p.code(own)
	if err != nil {
		return err
	}
	return p.group.log.Ask(ctx, question, wait, func(answer []byte) bool {
		i := p.decode(answer)
		return i == nil || each(*i)
	})
}

// Answer implements group.Peers.
func (p *peers) Answer(f func(group.Info) group.Info) (stop func() error, err error) {
	return p.group.log.Answer(func(question []byte) []byte {
		i := p.decode(question)
		if i == nil {
			return nil
		}
		answer, err := p.code(f(*i))
		if err != nil {
			return nil
		}
		return answer
	})
}
