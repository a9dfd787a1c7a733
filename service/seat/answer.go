package seat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/millipede-iac/millipede/service/seat/protocol"
	"github.com/millipede-iac/millipede/service/tables"
)

// handler answers the requests of an engine. Those of another epoch are refused, whoever brings them.
func (e *engine) handler(further http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+protocol.StatePath, e.about(readState))
	mux.HandleFunc("POST "+protocol.StatePath, e.about(e.writeState))
	mux.HandleFunc("GET "+protocol.ProvidersPath, e.about(readProviders))
	mux.HandleFunc("GET "+protocol.ConfigurationPath, e.about(readConfiguration))
	mux.HandleFunc("GET "+protocol.AlivePath, e.about(alive))
	mux.Handle("/", further)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if epoch, err := strconv.ParseUint(r.Header.Get(protocol.EpochHeader), 10, 64); err != nil || epoch != e.epoch {
			Refuse(w, http.StatusGone, errors.New("another engine has taken the seat"))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// Refuse answers a request of an engine with an error.
func Refuse(w http.ResponseWriter, status int, err error) {
	w.WriteHeader(status)
	_ = protocol.Write(w, protocol.FailureOf(err)) // an engine that does not read it gets no answer
}

// about finds the call of a request. An engine is believed about its own calls only.
func (e *engine) about(answer func(http.ResponseWriter, *http.Request, *call) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		number, err := strconv.ParseUint(r.Header.Get(protocol.CallHeader), 10, 64)
		e.mu.Lock()
		c := e.calls[number]
		e.mu.Unlock()
		if err != nil || c == nil || c.job == nil {
			Refuse(w, http.StatusConflict, tables.Conflict("the service does not wait for this call any more"))
			return
		}
		if err := answer(w, r, c); err != nil {
			Refuse(w, http.StatusInternalServerError, err)
		}
	}
}

// once makes a request change something at most once: a repeated one is answered as the first one was, and one that
// comes after the end of its call is refused. change must not wait for the engine, because the end of the call waits
// for change.
func (c *call) once(r *http.Request, change func() error) error {
	number, err := strconv.ParseUint(r.Header.Get(protocol.NumberHeader), 10, 64)
	if err != nil || number == 0 {
		return tables.Conflict("a request that changes something needs a number")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err, answered := c.answers.of(number); answered {
		return err
	}
	if c.ended {
		return tables.Conflict("the service does not wait for this call any more")
	}
	err = change()
	c.answers.keep(number, err)
	return err
}

// content answers with data; nil is nothing.
func content(w http.ResponseWriter, data []byte) error {
	if data == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	_, _ = w.Write(data) // an engine that does not read it gets no answer
	return nil
}

func readState(w http.ResponseWriter, r *http.Request, c *call) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	data, err := c.job.State.Read(r.Context())
	if err != nil {
		return err
	}
	return content(w, data)
}

func readProviders(w http.ResponseWriter, r *http.Request, c *call) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	all, err := c.job.State.Providers(r.Context())
	if err != nil {
		return err
	}
	if all == nil {
		return content(w, nil)
	}
	data, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("coding a list of names: %w", err)
	}
	return content(w, data)
}

func (e *engine) writeState(w http.ResponseWriter, r *http.Request, c *call) error {
	size := r.ContentLength
	switch {
	case size < 0:
		return tables.Invalid("the size of the state is not announced")
	case size > e.o.MaxState:
		return tables.Invalid("the state has %d MiB, and the service accepts at most %d MiB. Divide the configuration among "+
			"several workspaces", size>>20, e.o.MaxState>>20)
	}
	if err := e.room.Acquire(r.Context(), size); err != nil {
		return err
	}
	defer e.room.Release(size)
	data := make([]byte, size)
	if _, err := io.ReadFull(r.Body, data); err != nil {
		return fmt.Errorf("receiving the state: %w", err)
	}
	return c.once(r, func() error { return c.job.State.Write(r.Context(), data) })
}

func readConfiguration(w http.ResponseWriter, _ *http.Request, c *call) error {
	if c.job.Configuration == nil {
		return tables.NotFound("the run has no configuration")
	}
	archive, err := c.job.Configuration()
	if err != nil {
		return err
	}
	_, copied := io.Copy(w, archive)
	if err := errors.Join(copied, archive.Close()); err != nil {
		panic(http.ErrAbortHandler) // so that the engine does not take it for the end
	}
	return nil
}

func alive(w http.ResponseWriter, r *http.Request, c *call) error {
	word := "yes"
	if c.job.Alive != nil && !c.job.Alive(r.URL.Query().Get("run")) {
		word = "no"
	}
	return content(w, []byte(word))
}
