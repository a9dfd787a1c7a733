package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/seat/protocol"
	"github.com/millipede-iac/millipede/service/work"
)

// Service is the service, as its engine reaches it.
type Service struct {
	client   *http.Client
	epoch    uint64
	numbers  atomic.Uint64
	outdated func() // ends the process: another engine has the seat
	further  http.Handler
}

// Handle registers what answers the requests of the service that are not about calls. Call it in Options.Open.
func (s *Service) Handle(h http.Handler) { s.further = h }

// Ask sends a request to the service, and returns the response, whose body the caller closes. If the service refuses it
// because another engine has taken the seat, the process ends. The error of the service is recognized as one of those
// that package protocol knows.
func (s *Service) Ask(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	return s.ask(ctx, method, path, 0, body)
}

func (s *Service) ask(ctx context.Context, method, path string, call uint64, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://service"+path, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set(protocol.EpochHeader, strconv.FormatUint(s.epoch, 10))
	if call != 0 {
		r.Header.Set(protocol.CallHeader, strconv.FormatUint(call, 10))
	}
	if method == http.MethodPost {
		r.Header.Set(protocol.NumberHeader, strconv.FormatUint(s.numbers.Add(1), 10))
	}
	response, err := s.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("asking the service: %w", err)
	}
	switch response.StatusCode {
	case http.StatusOK, http.StatusNoContent:
		return response, nil
	case http.StatusGone:
		s.outdated()
	}
	defer response.Body.Close()
	var f protocol.Failure
	if err := protocol.Read(response.Body, &f, protocol.MaxMessage); err != nil {
		return nil, fmt.Errorf("the service answers %s", response.Status)
	}
	return nil, f.Err()
}

// read sends a request about the call, and returns the content of the answer; nil if there is none.
func (c *call) read(ctx context.Context, path string) ([]byte, error) {
	response, err := c.host.service.ask(ctx, http.MethodGet, path, c.Number, nil)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, fmt.Errorf("reading from the service: %w", err)
	}
	if response.StatusCode == http.StatusNoContent {
		return nil, nil
	}
	return data, nil
}

// configuration opens the configuration of the run.
func (c *call) configuration() (io.ReadCloser, error) {
	response, err := c.host.service.ask(c.leaving, http.MethodGet, protocol.ConfigurationPath, c.Number, nil)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// alive implements work.Job.Alive. Of a run that the service cannot tell about, it says that it is alive.
func (c *call) alive(run string) bool {
	data, err := c.read(c.leaving, protocol.AlivePath+"?run="+url.QueryEscape(run))
	return err != nil || string(data) != "no"
}

// doubtful implements work.Job.Doubtful.
func (c *call) doubtful(all []record.Doubt) {
	if all == nil {
		all = []record.Doubt{}
	}
	data, err := json.Marshal(all)
	if err != nil {
		panic("host: a list of doubts cannot be coded: " + err.Error())
	}
	c.out.send(&protocol.ToService{Doubts: data})
}

// callState implements work.State: the service has the state.
type callState struct{ *call }

var _ work.State = callState{}

func (s callState) Read(ctx context.Context) ([]byte, error) { return s.read(ctx, protocol.StatePath) }

func (s callState) Providers(ctx context.Context) (all []string, err error) {
	data, err := s.read(ctx, protocol.ProvidersPath)
	if err != nil || data == nil {
		return nil, err
	}
	return all, json.Unmarshal(data, &all)
}

func (s callState) Write(ctx context.Context, data []byte) error {
	response, err := s.host.service.ask(ctx, http.MethodPost, protocol.StatePath, s.Number, bytes.NewReader(data))
	if err != nil {
		return err
	}
	return response.Body.Close()
}
