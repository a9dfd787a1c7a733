package store

import (
	"errors"
	"io"
)

// ReadPart returns size bytes of a file from start, without reading the bytes before. The error wraps
// ErrNotFound if there is no such file, and io.ErrUnexpectedEOF if the file is shorter.
func (s *Store) ReadPart(name string, start, size int64) (data []byte, err error) {
	f, err := s.openFile(name)
	if err != nil {
		return nil, err
	}
	frame := start / frameSize // all frames but the last one are full
	inFile := int64(4 + frameSize)
	if s.key != nil {
		inFile += overhead
	}
	if _, err := f.Seek(frame*inFile, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r := &reader{file: f, key: s.key, name: name, frame: int(frame)}
	defer func() { err = errors.Join(err, r.Close()) }()
	if _, err := io.CopyN(io.Discard, r, start-frame*frameSize); err != nil {
		return nil, notEOF(err)
	}
	data = make([]byte, size)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, notEOF(err)
	}
	return data, nil
}
