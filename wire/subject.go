package wire

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// The subjects of the protocol. In subjects that workers use, the pool is the second token, so that the permissions of
// each pool are fixed. Every name is one token, encoded by Token.

// TaskSubject is task.<pool>.<coordinator>.<run>.<attempt>.
func TaskSubject(ref TaskRef) string { return refSubject("task.", ref) }

// ResultSubject is result.<pool>.<coordinator>.<run>.<attempt>.
func ResultSubject(ref TaskRef) string { return refSubject("result.", ref) }

func refSubject(kind string, ref TaskRef) string {
	return kind + Token(ref.Pool) + "." + Token(ref.Coordinator) + "." + Token(ref.Run) + "." +
		Token(string(ref.Attempt))
}

// ParseRef reads the subject of a task or a result.
func ParseRef(subject string) (TaskRef, error) {
	t, err := parseTokens(subject, 5)
	if err != nil || (t[0] != "task" && t[0] != "result") {
		return TaskRef{}, fmt.Errorf("%q is not the subject of a task or a result", subject)
	}
	return TaskRef{Pool: t[1], Coordinator: t[2], Run: t[3], Attempt: AttemptID(t[4])}, nil
}

// ClaimSubject is claim.<pool>.<run>.<attempt>, the attempt's register.
func ClaimSubject(ref TaskRef) string {
	return "claim." + Token(ref.Pool) + "." + Token(ref.Run) + "." + Token(string(ref.Attempt))
}

// AdmitSubject is admit.<limit>.<coordinator>.<request>.
func AdmitSubject(limit string, r PermitRequest) string {
	return "admit." + Token(limit) + "." + Token(r.Coordinator) + "." + Token(r.ID)
}

// ParseAdmit reads the subject of an admission message.
func ParseAdmit(subject string) (limit, coordinator, request string, err error) {
	t, err := parseTokens(subject, 4)
	if err != nil || t[0] != "admit" {
		return "", "", "", fmt.Errorf("%q is not the subject of an admission", subject)
	}
	return t[1], t[2], t[3], nil
}

// KeySubject is key.<pool>.<run>.<recipient>, where the key of a run and a pool is kept sealed for one recipient.
func KeySubject(pool, run, recipient string) string { return KeyPrefix(pool, run) + Token(recipient) }

// KeyPrefix is the beginning of the subjects of all keys of a run and a pool.
func KeyPrefix(pool, run string) string { return "key." + Token(pool) + "." + Token(run) + "." }

// KeysSubject is key.<pool>.<run>.all, where the keys are kept that are stored together (EncodeSealedKeys).
func KeysSubject(pool, run string) string { return KeySubject(pool, run, "all") }

// CallSubject is call.<pool>.<version>, which the workers of the pool that speak the version share as a queue group.
func CallSubject(pool string, version int) string {
	return "call." + Token(pool) + "." + strconv.Itoa(version)
}

// CallSubjectOf is the CallSubject for a message in an envelope. What is in none has the highest version of this
// program.
func CallSubjectOf(pool string, envelope []byte) string {
	return CallSubject(pool, cmp.Or(EnvelopeVersion(envelope), Spoken().Highest))
}

// HeartbeatSubject is hb.<pool>.<worker>.
func HeartbeatSubject(pool, worker string) string { return "hb." + Token(pool) + "." + Token(worker) }

// ControlSubject is ctl.pool.<pool>.<kind>, or ctl.all.<kind> when pool is empty.
func ControlSubject(pool, kind string) string {
	if pool == "" {
		return "ctl.all." + Token(kind)
	}
	return "ctl.pool." + Token(pool) + "." + Token(kind)
}

// HandSubject is hand.<pool>.<worker>, where a worker receives tasks that follow an attempt that it has executed.
func HandSubject(pool, worker string) string { return "hand." + Token(pool) + "." + Token(worker) }

// PermitSubject is ctl.coordinator.<coordinator>.permit, where a coordinator receives permits of its requests that
// others were given.
func PermitSubject(coordinator string) string {
	return "ctl.coordinator." + Token(coordinator) + ".permit"
}

// EventSubject is ev.<pool>.<run>.
func EventSubject(pool, run string) string { return "ev." + Token(pool) + "." + Token(run) }

// PartSubject is the subject of the parts of an answer. It is one of events, which the workers of a pool may publish.
func PartSubject(pool, address string) string { return EventSubject(pool, address) }

// ParseEvent reads the subject of a live event.
func ParseEvent(subject string) (pool, run string, err error) {
	t, err := parseTokens(subject, 3)
	if err != nil || t[0] != "ev" {
		return "", "", fmt.Errorf("%q is not the subject of an event", subject)
	}
	return t[1], t[2], nil
}

const hexDigits = "0123456789ABCDEF"

// Token encodes a name as one token of a subject that is also valid in a consumer's name: letters, digits, "-" and "_"
// stay, every other byte becomes "=" and two hexadecimal digits, and the empty name is "=". Untoken reverses it.
func Token(name string) string {
	plain := name != ""
	for i := range len(name) {
		if !isPlain(name[i]) {
			plain = false
			break
		}
	}
	if plain {
		return name
	}
	if name == "" {
		return "="
	}
	var b strings.Builder
	b.Grow(len(name) + 8)
	for i := range len(name) {
		if c := name[i]; isPlain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('=')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	return b.String()
}

func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// Untoken is the inverse of Token. It accepts only what Token returns.
func Untoken(token string) (string, error) {
	if token == "=" {
		return "", nil
	}
	if !strings.Contains(token, "=") {
		if Token(token) != token {
			return "", fmt.Errorf("%q is not a coded name", token)
		}
		return token, nil
	}
	b := make([]byte, 0, len(token))
	for i := 0; i < len(token); i++ {
		if token[i] != '=' {
			b = append(b, token[i])
			continue
		}
		if i+2 >= len(token) {
			return "", fmt.Errorf("%q is not a coded name", token)
		}
		hi, lo := strings.IndexByte(hexDigits, token[i+1]), strings.IndexByte(hexDigits, token[i+2])
		if hi < 0 || lo < 0 {
			return "", fmt.Errorf("%q is not a coded name", token)
		}
		b = append(b, byte(hi<<4|lo))
		i += 2
	}
	if name := string(b); Token(name) == token {
		return name, nil
	}
	return "", fmt.Errorf("%q is not a coded name", token)
}

// parseTokens splits a subject into n names.
func parseTokens(subject string, n int) ([]string, error) {
	t := strings.Split(subject, ".")
	if len(t) != n {
		return nil, fmt.Errorf("%q has %d tokens instead of %d", subject, len(t), n)
	}
	for i := range t {
		name, err := Untoken(t[i])
		if err != nil {
			return nil, err
		}
		t[i] = name
	}
	return t, nil
}
