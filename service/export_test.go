package service

// OutlinedObjects returns the number of objects in the outlines that are in memory.
func (s *Service) OutlinedObjects() int {
	s.outlines.mu.Lock()
	defer s.outlines.mu.Unlock()
	return s.outlines.size
}
