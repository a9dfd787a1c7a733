package loop

// A vertex with a task of the safe lane has four small statuses beside its phase. They are about its attempt, and
// change with messages that come in any order, so none of them follows from the phase.

// origin is who has made the attempt of a vertex. It is meaningful from dispatch to the end of the vertex:
//
//	own <--> adopted
//
// A vertex whose attempt was adopted has an own one again when another attempt is made, or the next operation begins.
type origin byte

const (
	own     origin = iota // this process
	adopted               // a process that is gone
	origins = iota
)

var originNames = [origins]string{"of this process", "adopted"}

func (o origin) String() string { return originNames[o] }

// originsAfter is the picture as a table.
var originsAfter = [origins]uint16{
	own:     bits(adopted),
	adopted: bits(own),
}

func (o origin) next() uint16 { return originsAfter[o] }

// sending is where the task of an attempt is. It is meaningful while the vertex is publishing, running or retracting; a
// new attempt begins as unsent, whatever the last one was:
//
//	unsent --+--> posted --> published --> unsent
//	         |                  ^
//	         +------------------+
//	         +--> barred ----------------> unsent
type sending byte

const (
	unsent    sending = iota // it was not put into the stream, as far as this process knows
	posted                   // the stream may hold it: an answer about that may have been lost
	published                // the stream is known to hold it
	barred                   // it is not sent at all: a permit was lost before
	sendings  = iota
)

var sendingNames = [sendings]string{"unsent", "perhaps sent", "sent", "barred for a lost permit"}

func (s sending) String() string { return sendingNames[s] }

// sendingsAfter is the picture as a table.
var sendingsAfter = [sendings]uint16{
	unsent:    bits(posted, published, barred),
	posted:    bits(unsent, published),
	published: bits(unsent),
	barred:    bits(unsent),
}

func (s sending) next() uint16 { return sendingsAfter[s] }

// register is what is being asked of the register of an attempt. It is meaningful while the vertex is publishing,
// running or doubtful:
//
//	quiet <--> reading --> revoking --> quiet
//	quiet ---------------> revoking
type register byte

const (
	quiet     register = iota // nothing
	reading                   // who holds the attempt
	revoking                  // that nobody may start it
	registers = iota
)

var registerNames = [registers]string{"not asked for its register", "asked for its register", "being revoked"}

func (r register) String() string { return registerNames[r] }

// registersAfter is the picture as a table.
var registersAfter = [registers]uint16{
	quiet:    bits(reading, revoking),
	reading:  bits(quiet, revoking),
	revoking: bits(quiet),
}

func (r register) next() uint16 { return registersAfter[r] }

// effect is what is known of the operation of an attempt that has no result. It is meaningful while the vertex is
// doubtful, and for its permits. A new attempt may run:
//
//	mayRun --> ended --+--> over --> mayRun
//	mayRun ------------+
//	           ended --------------> mayRun
type effect byte

const (
	mayRun  effect = iota // it may be running
	ended                 // it was adopted in doubt, and nothing ran any more then; at most its result waits in the stream
	over                  // in doubt, but nothing runs any more: this process has learned so
	effects = iota
)

var effectNames = [effects]string{"perhaps running", "not running when it was adopted", "over"}

func (e effect) String() string { return effectNames[e] }

// effectsAfter is the picture as a table.
var effectsAfter = [effects]uint16{
	mayRun: bits(ended, over),
	ended:  bits(over, mayRun),
	over:   bits(mayRun),
}

func (e effect) next() uint16 { return effectsAfter[e] }

// beginAnew says that the next attempt of a vertex is one that nothing is known of.
func (w *work) beginAnew(v int) {
	set(v, &w.origin, own)
	set(v, &w.sending, unsent)
	set(v, &w.register, quiet)
	set(v, &w.effect, mayRun)
}
