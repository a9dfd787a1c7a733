package system

import (
	"crypto/md5" //nolint:gosec // clients send it as a checksum
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	client "github.com/hashicorp/go-tfe"

	"github.com/millipede-iac/millipede/test/stage/process"
)

func sum(text []byte) string { return fmt.Sprintf("%x", md5.Sum(text)) } //nolint:gosec // as above

// stateOf returns the current state of a workspace; empty if it has none.
func stateOf(p *people, c *client.Client, w *client.Workspace) (string, error) {
	v, err := c.StateVersions.ReadCurrent(p.Context(), w.ID)
	if errors.Is(err, client.ErrResourceNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	text, err := c.StateVersions.Download(p.Context(), v.DownloadURL)
	return string(text), err
}

func numberOf(p *people, c *client.Client, w *client.Workspace) (int, error) {
	text, err := stateOf(p, c, w)
	if err != nil {
		return 0, err
	}
	return numberIn(text)
}

// objectsOf returns the number that each person's object has in the state of a workspace.
func objectsOf(p *people, c *client.Client, w *client.Workspace) (map[string]int, error) {
	out := map[string]int{}
	text, err := stateOf(p, c, w)
	if err != nil || text == "" {
		return out, err
	}
	var st struct {
		Resources []struct {
			Instances []struct {
				Key        string `json:"index_key"`
				Attributes struct {
					Output struct{ Value json.Number }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &st); err != nil {
		return nil, err
	}
	for _, r := range st.Resources {
		for _, i := range r.Instances {
			n, err := strconv.Atoi(i.Attributes.Output.Value.String())
			if err != nil {
				return nil, fmt.Errorf("%w in %s", err, text)
			}
			out[i.Key] = n
		}
	}
	return out, nil
}

// there reads from the service the current number of each key.
func (p *people) there() map[string]int {
	out, ctx := map[string]int{}, p.Context()
	for _, w := range p.spaces {
		objects, err := objectsOf(p, p.v.Client, w)
		if err != nil {
			p.Fatal(err)
		}
		for name, n := range objects {
			out["object "+w.Name+" "+name] = n
		}
		variables, err := p.v.Client.Variables.List(ctx, w.ID, nil)
		if err != nil {
			p.Fatal(err)
		}
		for _, v := range variables.Items {
			if n, err := strconv.Atoi(v.Value); err == nil {
				out["variable "+w.Name+" "+v.Key] = n
			}
		}
		tags, err := p.v.Client.Workspaces.ListTagBindings(ctx, w.ID)
		if err != nil {
			p.Fatal(err)
		}
		for _, tag := range tags {
			if n, err := strconv.Atoi(tag.Value); err == nil {
				out["tag "+w.Name+" "+tag.Key] = n
			}
		}
	}
	for _, name := range []string{"plain", "own"} {
		w, err := p.v.Client.Workspaces.Read(ctx, "main", name)
		if err != nil {
			p.Fatal(err)
		}
		if out["counter "+name], err = numberOf(p, p.v.Client, w); err != nil {
			p.Fatal(err)
		}
	}
	return out
}

// check checks that the service has the acknowledged numbers: exactly these, or else these or greater ones.
func (p *people) check(when string, known map[string]int, exactly bool) {
	p.Helper()
	there := p.there()
	lost := 0
	for key, n := range known {
		if got := there[key]; got < n || exactly && got != n {
			lost++
			p.Errorf("%s, %s is %d, but %d was acknowledged", when, key, got, n)
		}
	}
	p.Logf("%s: %d of %d acknowledged values are wrong", when, lost, len(known))
}

// measured is the memory of the service in bytes, at a time since the start.
type measured struct {
	at   time.Duration
	size int64
}

// watchMemory measures the memory of the service until all people have finished. After -lasting it tells them to.
func (p *people) watchMemory(everybody *sync.WaitGroup) <-chan []measured {
	done, out := make(chan struct{}), make(chan []measured, 1)
	go func() { everybody.Wait(); close(done) }()
	began := time.Now()
	go func() {
		tick := time.NewTicker(max(*peopleTime/600, 100*time.Millisecond))
		defer tick.Stop()
		var all []measured
		over := p.over
		for {
			if size, err := process.Memory(p.v.PID()); err == nil {
				all = append(all, measured{time.Since(began), size})
			}
			select {
			case <-done:
				out <- all
				return
			case <-tick.C:
			}
			if *peopleTime > 0 && time.Since(began) >= *peopleTime/2 {
				p.halves.Do(func() { close(p.half) })
			}
			if *peopleTime > 0 && over != nil && time.Since(began) >= *peopleTime {
				close(over)
				over = nil
			}
		}
	}()
	return out
}

// report logs the number of actions and requests. It checks that the memory of the service in the last fifth of the
// time is at most a fifth plus 16 MiB larger than in the middle fifth.
func (p *people) report(memory []measured) {
	p.Helper()
	p.mu.Lock()
	total := 0
	for _, n := range p.statuses {
		total += n
	}
	p.Logf("%d people, %d workspaces: %d requests, with the statuses %v; %d actions: %v", *peopleCount, len(p.spaces),
		total, p.statuses, p.done, p.actions)
	p.mu.Unlock()
	if *peopleTime < time.Minute || len(memory) == 0 {
		return
	}
	mean := func(from, to float64) int64 {
		var all []int64
		for _, m := range memory {
			if share := float64(m.at) / float64(*peopleTime); share >= from && share < to {
				all = append(all, m.size)
			}
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	p.Logf("memory of the service: %d MiB around 20 %% of the time, %d MiB around 50 %%, %d MiB at the end",
		mean(0.15, 0.25)>>20, mean(0.45, 0.55)>>20, mean(0.9, 1)>>20)
	if middle, last := mean(0.4, 0.6), mean(0.8, 1); last > middle+middle/5+16<<20 {
		p.Errorf("the memory of the service has grown from %d to %d MiB", middle>>20, last>>20)
	}
}
