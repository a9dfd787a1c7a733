package sim

import "github.com/millipede-iac/millipede/coordinator/operation"

// killOne kills the coordinator. The service of a team is sometimes killed during its next commit, or soon after the
// next end of a run.
func (s *site) killOne() {
	if t := s.team; t != nil && s.current != nil {
		switch s.w.chance.IntN(4) {
		case 0:
			t.diesInCommit = true
			return
		case 1:
			t.diesAfterEnd = true
			return
		}
	}
	s.killNow()
}

func (s *site) killNow() {
	if p := s.current; p != nil {
		s.w.faults["coordinator killed"]++
		p.kill()
		s.late = nil
		s.current = nil
	}
}

// interrupt presses Ctrl-C, once or twice.
func (s *site) interrupt() {
	if s.team != nil {
		s.team.interrupt()
		return
	}
	if s.current == nil {
		return
	}
	s.w.faults["interrupted"]++
	s.w.note("%s is interrupted", s.current.name)
	for range 1 + s.w.chance.IntN(2) {
		s.press()
	}
}

// press presses Ctrl-C.
func (s *site) press() {
	if len(s.presses) > 0 {
		s.presses[0](operation.ErrInterrupted)
		s.presses = s.presses[1:]
	}
}

// breakLock simulates a user who believes that the command that holds the lock is gone, breaks the lock and begins
// another command, while the first one is alive.
func (s *site) breakLock() {
	p := s.current
	if p == nil || p.dead || !p.cut && p.frozen.IsZero() || s.team != nil {
		return
	}
	s.w.faults["lock broken"]++
	s.old = append(s.old, p)
	s.command(s.lockID)
}
