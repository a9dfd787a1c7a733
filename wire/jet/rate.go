package jet

import (
	"strings"
	"sync"
	"time"
)

// The rate at which a pool's heartbeats are processed. A thousand workers send a megabyte a second.
const (
	maxMembers   = 1024
	memberMemory = time.Minute // after what silence a worker is replaced by another one
	bytesASecond = 4 << 20
	leastCost    = 512 // the cost of reading a message, however short it is
	maxRates     = 4096
	pendingBeats = 64 << 10 // heartbeats that wait to be looked at
	pendingBytes = 16 << 20
)

// rate is a bucket of bytes that fills with time.
type rate struct {
	left float64
	at   time.Time
}

// admit reports whether another message of a pool may be processed now.
func (p *presence) admit(pool string, size int, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.rates[pool]
	if r == nil {
		if len(p.rates) >= maxRates {
			clear(p.rates) // somebody makes pools up, where nothing keeps him from it
		}
		r = &rate{left: 2 * bytesASecond, at: now}
		p.rates[pool] = r
	}
	r.left = min(2*bytesASecond, r.left+now.Sub(r.at).Seconds()*bytesASecond)
	r.at = now
	cost := float64(max(size, leastCost))
	if r.left < cost {
		return false
	}
	r.left -= cost
	return true
}

// poolToken is the second token of a subject, which names the pool.
func poolToken(subject string) string {
	_, rest, _ := strings.Cut(subject, ".")
	pool, _, _ := strings.Cut(rest, ".")
	return pool
}

// rateLimitedLog are logged at most once a minute for each kind, regardless of their sender.
type rateLimitedLog struct {
	mu   sync.Mutex // guards said
	said map[string]time.Time
}

func (c *rateLimitedLog) log(log func(string), kind, line string) {
	c.mu.Lock()
	now := time.Now()
	at, told := c.said[kind]
	if told && now.Sub(at) < time.Minute {
		c.mu.Unlock()
		return
	}
	if c.said == nil || len(c.said) >= maxRates {
		c.said = map[string]time.Time{}
	}
	c.said[kind] = now
	c.mu.Unlock()
	log(line)
}
