package jet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millipede-iac/millipede/state/log"
)

// The members of a group ask each other questions in core NATS: a question is a message on one subject, which every
// member answers. docs/format/log.md describes them.

// members returns the subject of the questions.
func (l *GroupLog) members() string { return "group." + l.group + ".ask" }

// Ask sends a question to all members that answer, this one included. each is called with each answer, as it comes, and
// returns false to stop. Ask returns after wait at the latest; that answers are missing is no error. The error wraps
// log.ErrUnanswered if there is no connection.
func (l *GroupLog) Ask(ctx context.Context, question []byte, wait time.Duration, each func(answer []byte) bool) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	inbox := l.c.nc.NewInbox()
	answers, err := l.c.nc.SubscribeSync(inbox)
	if err != nil {
		return fmt.Errorf("asking the members of the group: %w", logProblem(err))
	}
	defer l.c.unsubscribe(answers) //nolint:errcheck // it ends with the connection at the latest
	if err := l.c.nc.PublishMsg(&nats.Msg{Subject: l.members(), Reply: inbox, Data: question}); err != nil {
		return fmt.Errorf("asking the members of the group: %w", logProblem(err))
	}
	for {
		m, err := answers.NextMsgWithContext(ctx)
		switch {
		case errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, nats.ErrNoResponders): // nobody listens yet
			return nil
		case err != nil:
			return fmt.Errorf("asking the members of the group: %w: %w", log.ErrUnanswered, err)
		}
		if len(m.Data) > 0 && !each(m.Data) {
			return nil
		}
	}
}

// Answer calls f with each question, until stop is called: it returns the answer; nil for none. f must not block.
func (l *GroupLog) Answer(f func(question []byte) (answer []byte)) (stop func() error, err error) {
	s, err := l.c.nc.Subscribe(l.members(), func(m *nats.Msg) {
		if answer := f(m.Data); answer != nil && m.Reply != "" {
			_ = m.Respond(answer) // without a connection the one who asks hears nothing
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listening to the members of the group: %w", err)
	}
	return func() error { return l.c.unsubscribe(s) }, nil
}
