package store

// CachedBytes returns the size of the cached records, in encrypted bytes.
func (s *Store) CachedBytes() int {
	s.cache.mu.RLock()
	defer s.cache.mu.RUnlock()
	return s.cache.size
}
