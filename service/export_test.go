package service

import "context"

// OutlinedObjects returns the number of objects in the outlines that are in memory.
func (s *Service) OutlinedObjects() int {
	s.outlines.mu.Lock()
	defer s.outlines.mu.Unlock()
	return s.outlines.size
}

// SweepHomes removes the directories of workspaces that are not there any more.
func (s *Service) SweepHomes(ctx context.Context) error { return s.homes.sweep(ctx) }
