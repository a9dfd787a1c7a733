package store

// Shelved returns how many sealed bytes the records have that are kept.
func (s *Store) Shelved() int {
	s.shelf.mu.RLock()
	defer s.shelf.mu.RUnlock()
	return s.shelf.size
}
