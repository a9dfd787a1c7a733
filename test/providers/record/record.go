// Package record keeps the log in which test providers write every call that they receive.
//
// A record is a text file of JSON objects, one a line, in the order in which they were written. Each call writes
// a line with phase "start" before it does anything, and a line with phase "end" or "error" after all that it did,
// in the cloud too, is done. A call whose process died in between has a start only. The members are
//
//	time      when, in nanoseconds since 1970 by the machine's clock
//	pid       the provider's process
//	call      a number that is unique in that process; it ties a start to its end
//	op        create, read, update, delete, plan, import, move, upgrade, open, renew, close, configure,
//	          function, lookup, stop, list, list_one
//	phase     start, end or error
//	provider  fleet, fleet5, legacy or unruly
//	type      the resource type, data source type or function; none for configure and stop
//	name      the object's name, as its configuration gives it
//	id        the object's id, where it has one
//	region    the object's region, for configure the provider's
//	worker    the value of MILLIPEDE_WORKER in the provider's environment
//	pool      the value of MILLIPEDE_POOL there
//	private   the private data that came with the call, for objects of fleet
//	meta      the value of provider_meta's module, for objects of fleet
//	error     why the call failed
//
// and those that are empty are left out. Every line is a single write to a file opened for appending, so any number
// of processes may share a record. The package depends on the standard library alone. It does not follow a record
// while it grows: read it again.
package record

import (
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// Op is the operation of a call to a provider.
type Op string

// The operations. A destroy is planned (plan), then carried out (delete). Data sources are looked up, the calls of an
// ephemeral resource are open, renew and close.
const (
	Create    Op = "create"
	Read      Op = "read"
	Update    Op = "update"
	Delete    Op = "delete"
	Plan      Op = "plan"
	Import    Op = "import"
	Move      Op = "move"
	Upgrade   Op = "upgrade"
	Open      Op = "open"
	Renew     Op = "renew"
	Close     Op = "close"
	Configure Op = "configure"
	Function  Op = "function"
	Lookup    Op = "lookup"
	Stop      Op = "stop"
	List      Op = "list"
	ListOne   Op = "list_one" // an object of a list
	Invoke    Op = "invoke"   // an action
)

// Phase is a moment of a call.
type Phase string

// The phases. Unfinished is never written: it is the outcome of a call that has no second line.
const (
	Start      Phase = "start"
	End        Phase = "end"
	Error      Phase = "error"
	Unfinished Phase = ""
)

// Entry is a line of a record.
type Entry struct {
	Time     int64  `json:"time"`
	PID      int    `json:"pid"`
	Call     int64  `json:"call"`
	Op       Op     `json:"op"`
	Phase    Phase  `json:"phase"`
	Provider string `json:"provider,omitempty"`
	Type     string `json:"type,omitempty"`
	Name     string `json:"name,omitempty"`
	ID       string `json:"id,omitempty"`
	Region   string `json:"region,omitempty"`
	Worker   string `json:"worker,omitempty"`
	Pool     string `json:"pool,omitempty"`
	Private  string `json:"private,omitempty"`
	Meta     string `json:"meta,omitempty"`
	Error    string `json:"error,omitempty"`
}

// Log writes a record. The zero Log writes nothing. It is safe for concurrent use.
type Log struct {
	file *os.File
	now  func() time.Time
	base Entry
}

// calls numbers the calls of this process, of all its logs.
var calls atomic.Int64

// Append opens the record at path for more lines and creates the file if need be; an empty path gives a Log that
// writes nothing. The base holds what is the same in all lines: pid, provider, worker and pool. The caller closes
// the Log.
func Append(path string, base Entry, now func() time.Time) (*Log, error) {
	log := &Log{now: now, base: base}
	if path == "" {
		return log, nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the record: %w", err)
	}
	log.file = file
	return log, nil
}

// Close ends the log.
func (l *Log) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// Start writes a call's first line. Of e the fields from Op on are used.
func (l *Log) Start(e Entry) (*Call, error) {
	e.Call, e.Phase = calls.Add(1), Start
	e.PID, e.Provider, e.Worker, e.Pool = l.base.PID, l.base.Provider, l.base.Worker, l.base.Pool
	at, err := l.write(e)
	if err != nil {
		return nil, err
	}
	e.Time = at
	return &Call{Entry: e, log: l}, nil
}

// End writes a call's second line: whether it failed, and the data about the object that is known by then.
func (c *Call) End(failure error) error {
	e := c.Entry
	e.Phase = End
	if failure != nil {
		e.Phase, e.Error = Error, failure.Error()
	}
	at, err := c.log.write(e)
	if err != nil {
		return err
	}
	c.Outcome, c.Failure, c.Ended = e.Phase, e.Error, at
	return nil
}

// write appends a line with the present time, which it returns.
func (l *Log) write(e Entry) (int64, error) {
	if l.file == nil {
		return 0, nil
	}
	e.Time = l.now().UnixNano()
	line, err := json.Marshal(e)
	if err != nil {
		return 0, fmt.Errorf("encoding a line of the record: %w", err)
	}
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return 0, fmt.Errorf("writing the record: %w", err)
	}
	return e.Time, nil
}
