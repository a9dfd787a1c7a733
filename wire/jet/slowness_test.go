package jet

import (
	"slices"
	"testing"
)

// On a busy machine the embedded server said so within plans, and programs that show plans showed that, too.
func TestTheServerDoesNotSayThatItIsSlow(t *testing.T) {
	var said []string
	l := &lineLogger{log: func(line string) { said = append(said, line) }, failed: func(string) {}}
	l.Warnf("Internal subscription on %q took too long: %v", "$JS.API.STREAM.CREATE.A", "2.1s")
	l.Warnf("Readloop processing time: %v", "2.1s")
	l.Warnf("Filestore %s is damaged", "a")
	l.Errorf("no space")
	if want := []string{"NATS server: Filestore a is damaged", "NATS server: no space"}; !slices.Equal(said, want) {
		t.Errorf("the server said %q, not %q", said, want)
	}
}
