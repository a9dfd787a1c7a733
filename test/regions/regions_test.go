package regions

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// sizes of the tests: short on loopback, those of the budgets in namespaces.
func sizes() (n int, lasts, away time.Duration, parallelism int) {
	if *namespaces {
		return 100, 2 * time.Second, time.Minute, 48
	}
	return 12, time.Second, 8 * time.Second, 36
}

// took waits for an apply, and returns its duration from began.
func (l *land) took(p interface {
	Done() <-chan struct{}
}, began time.Time) time.Duration {
	l.T.Helper()
	select {
	case <-p.Done():
	case <-site.Waiting(l.T).Done():
		l.T.Fatal("it does not end")
	}
	return time.Since(began)
}

func TestRegionsFarAwayAreNotMuchSlower(t *testing.T) {
	if !*namespaces {
		t.Skip("it compares times: make regions")
	}
	l := found(t)
	n, lasts, _, parallelism := sizes()
	apply := func() time.Duration {
		began := time.Now()
		p := l.apply(n, lasts, parallelism)
		took := l.took(p, began)
		site.Succeeds(t, p, "the apply")
		l.destroy(n, lasts)
		return took
	}
	near := apply()
	for _, r := range l.regions {
		r.line.Delay(40 * time.Millisecond) // each way
	}
	far := apply()
	t.Logf("%d operations of %s over three regions: %s without delay, %s with 80 ms", 3*n, lasts, near, far)
	if most := near*115/100 + time.Second; far > most {
		t.Errorf("with 80 ms it took %s, and the budget is %s", far, most)
	}
}

func TestARegionThatIsCutOffGoesOnAndTheOthersToo(t *testing.T) {
	l := found(t)
	n, lasts, away, parallelism := sizes()
	began := time.Now()
	p := l.apply(n, lasts, parallelism)
	r := l.regions["eu"]
	site.Eventually(t, "operations run in eu", func() bool { return len(l.creations()["eu"]) >= parallelism/4 })
	r.cut()
	cutAt := time.Now()
	running := 0
	for _, c := range l.creations()["eu"] {
		if c.ended.IsZero() {
			running++
		}
	}
	site.Eventually(t, "what runs in eu ends there, and the rest of the others", func() bool {
		all := l.creations()
		for _, c := range all["eu"] {
			if c.ended.IsZero() {
				return false
			}
		}
		return len(all["us"]) == n && len(all["ap"]) == n
	})
	if _, err := p.Await(site.Waiting(t), "which has been cut off since"); err != nil {
		t.Error(err)
	}
	others := time.Since(began)
	dispatched := len(l.creations()["eu"])
	<-time.After(time.Until(cutAt.Add(away)))
	if after := len(l.creations()["eu"]); after != dispatched {
		t.Errorf("%d operations began in eu while it was cut off", after-dispatched)
	}
	r.mend()
	mended := time.Now()
	site.Eventually(t, "eu goes on", func() bool { return len(l.creations()["eu"]) > dispatched || dispatched == n })
	back := time.Since(mended)
	took := l.took(p, began)
	site.Succeeds(t, p, "the apply")
	text := p.Output()
	if strings.Contains(text, "in doubt") || !strings.Contains(text, fmt.Sprintf("%d added", 3*n)) {
		t.Errorf("the apply says:\n%s", site.Tail(text))
	}
	if all := l.creations()["eu"]; len(all) != n {
		t.Errorf("%d creations began in eu", len(all))
	}
	t.Logf("cut off for %s with %d operations running: the other regions were done after %s; eu went on %s after "+
		"the line was back; the apply took %s", away, running, others, back, took)
	if *namespaces && back > 3*time.Second {
		t.Errorf("eu went on %s after its line was back", back)
	}
	l.unchanged(n, lasts)
}

// unchanged checks that a plan with the variables of apply has no changes.
func (l *land) unchanged(n int, lasts time.Duration) {
	l.T.Helper()
	r := l.Run("plan", "-no-color", "-detailed-exitcode", fmt.Sprintf("-var=n=%d", n),
		fmt.Sprintf("-var=ms=%d", lasts.Milliseconds()))
	if r.Code != 0 {
		l.T.Errorf("a plan finds changes (exit status %d):\n%s", r.Code, site.Tail(r.Text))
	}
}

// With everything of eu, an attacker sends all that its server permits: 2,000 messages a second for each subject.
func TestACapturedRegionDelaysNoOther(t *testing.T) {
	if !*namespaces {
		t.Skip("it compares times: make regions")
	}
	l := found(t)
	n, lasts, _, parallelism := sizes()
	_, others, _ := strings.Cut(root, `module "us"`)
	l.Write("main.tf", `module "us"`+others) // a run of us and ap
	l.Must("init", "-no-color")
	apply := func() time.Duration {
		began := time.Now()
		p := l.apply(n, lasts, parallelism)
		took := l.took(p, began)
		site.Succeeds(t, p, "the apply")
		l.destroy(n, lasts)
		return took
	}
	calm := apply()
	var flood sync.WaitGroup
	stop := make(chan struct{})
	for _, subject := range []string{"result.eu.nobody.run.a", "claim.eu.run.a", "hb.eu.w", "ev.eu.run-1",
		"$JS.API.STREAM.PURGE.OBJ_BLOB_eu", "$JS.API.STREAM.MSG.GET.CLAIMS-eu", "$O.BLOB_eu.C.x"} {
		flood.Go(func() { l.regions["eu"].flood(subject, stop) })
	}
	flooded := apply()
	close(stop)
	flood.Wait()
	t.Logf("%d operations of %s in us and ap: %s, and %s while eu floods", 2*n, lasts, calm, flooded)
	if most := calm * 12 / 10; flooded > most {
		t.Errorf("while eu floods it took %s, and the budget is %s", flooded, most)
	}
	if again := apply(); again > calm*12/10 {
		t.Errorf("afterwards it took %s", again)
	}
}

// flood publishes to a subject from within the region, as its worker may, until it is told to stop.
func (r *region) flood(subject string, stop <-chan struct{}) {
	nc, err := nats.Connect(r.url, nats.UserInfo("worker-"+r.name, "worker-"+r.name),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		r.t.Error(err)
		return
	}
	defer nc.Close()
	data := make([]byte, 8<<10)
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		to := subject
		if !strings.HasPrefix(subject, "$JS") && strings.HasSuffix(subject, "a") {
			to = fmt.Sprint(subject, n)
		}
		_ = nc.PublishRequest(to, "_INBOX.nobody", data) // its answers do not matter
		if n%64 == 0 {
			_ = nc.FlushTimeout(time.Second)
			<-time.After(32 * time.Millisecond)
		}
	}
}
