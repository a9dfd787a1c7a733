package log

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/millipede-iac/millipede/state/seal"
)

// Format is the version of the coding of entries. A reader takes the entries of all versions up to its own, skips
// unknown fields at the end of an entry, and refuses newer versions.
const Format = 1

const (
	// MaxInline is how many bytes of content are in the entry itself; more are in parts beside the log.
	MaxInline = 512 << 10
	// MaxPart is how many bytes a part has at most, sealed.
	MaxPart = 512 << 10
)

// Conditions of entries that callers handle.
var (
	// ErrEntry means that an entry cannot be read, or was not sealed with the key of its store, or was modified.
	ErrEntry = errors.New("an entry of the log cannot be read")
	// ErrNewer means that a newer version has written an entry.
	ErrNewer = errors.New("an entry of the log was written by a newer version")
	// ErrChain means that an entry does not continue the one before: another log has taken the place of the one that
	// the copy was made from, as when an older snapshot of the stream was restored.
	ErrChain = errors.New("the log does not continue the copy")
)

// Kind says what an entry does.
type Kind byte

// The kinds of entries. Their numbers are in the log.
const (
	// Changes has what one transaction changed (package recorded).
	Changes Kind = 1
	// Lead begins an epoch: from here on, its member writes. It takes the place of an entry of which nobody knows whether
	// it will be stored.
	Lead Kind = 3
	// Snap names a snapshot of the store.
	Snap Kind = 4
	// End is the last entry of a store that was removed.
	End Kind = 5
)

var kinds = map[Kind]string{Changes: "changes", Lead: "lead", Snap: "snap", End: "end"}

func (k Kind) String() string {
	if name, ok := kinds[k]; ok {
		return name
	}
	return fmt.Sprintf("kind %d", byte(k))
}

// ID is 16 random bytes.
type ID [16]byte

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Parse reads what String has returned.
func (id *ID) Parse(text string) error {
	if n, err := hex.Decode(id[:], []byte(text)); err != nil || n != len(id) || len(text) != 2*len(id) {
		return fmt.Errorf("%q is no ID: 32 hexadecimal digits", text)
	}
	return nil
}

// Hash is the SHA-256 of an entry, as it is stored. As each entry has the hash of the one before, it stands for all
// entries up to it.
type Hash [sha256.Size]byte

// Position is the end of the entries that a copy has applied. The zero Position, with an incarnation, is the beginning.
type Position struct {
	Incarnation ID
	Sequence    uint64 // of the last entry, in the stream
	Hash        Hash   // of the last entry
	Epoch       uint64
	Member      string // who writes in this epoch
	Ended       bool   // the last entry was End
}

// Header is what an entry says in plain text.
type Header struct {
	Kind        Kind
	Incarnation ID // of the group
	Store       string
	Epoch       uint64
	Member      string
	ID          ID     // used once
	Before      uint64 // the sequence of the entry before in its subject; 0 for the first
	BeforeHash  Hash   // its hash
}

// Entry is an entry that was read from the log, and whose content is not opened yet.
type Entry struct {
	Header
	data    []byte
	head    []byte // version and header as coded, to which the content is bound
	content []byte // sealed; nil if it is in parts
	parts   []Hash
}

// Parts are the sealed bytes beside the log that an entry refers to, in order. They are stored before the entry.
type Parts [][]byte

// StoreSecret derives the secret of a store from that of the group. It reveals nothing about the others.
func StoreSecret(secret []byte, incarnation ID, store string) ([]byte, error) {
	return hkdf.Key(sha256.New, secret, incarnation[:], "millipede log "+store, seal.Size)
}

// Key returns the key that seals the content of a store's log.
func Key(secret []byte, incarnation ID, store string) (*seal.Key, error) {
	own, err := StoreSecret(secret, incarnation, store)
	if err != nil {
		return nil, err
	}
	return seal.NewKey(own)
}

// seal codes an entry with its content, sealed with the key of the store.
func (h Header) seal(key *seal.Key, content []byte) (data []byte, parts Parts) {
	head := binary.AppendUvarint(nil, Format)
	head = appendText(head, h.code())
	sealed := key.Seal(head, content)
	data = append([]byte{}, head...)
	if len(sealed) <= MaxInline {
		data = append(data, inline)
		return appendText(data, sealed), nil
	}
	data = append(data, inParts)
	var hashes []byte
	for len(sealed) > 0 {
		part := sealed[:min(len(sealed), MaxPart)]
		hash := sha256.Sum256(part)
		parts, hashes, sealed = append(parts, part), append(hashes, hash[:]...), sealed[len(part):]
	}
	return appendText(data, hashes), parts
}

// Where the content of an entry is.
const (
	inline  = 0
	inParts = 1
)

func (h Header) code() []byte {
	out := append([]byte{byte(h.Kind)}, h.Incarnation[:]...)
	out = appendText(out, []byte(h.Store))
	out = binary.AppendUvarint(out, h.Epoch)
	out = appendText(out, []byte(h.Member))
	out = append(out, h.ID[:]...)
	out = binary.AppendUvarint(out, h.Before)
	return append(out, h.BeforeHash[:]...)
}

func appendText(out, text []byte) []byte {
	return append(binary.AppendUvarint(out, uint64(len(text))), text...)
}

// hashOf returns the hash of a stored entry.
func hashOf(data []byte) Hash { return sha256.Sum256(data) }

// Parse reads an entry. The error wraps ErrEntry or ErrNewer.
func Parse(data []byte) (*Entry, error) {
	r := reader{in: data}
	version := r.number()
	if r.err == nil && version > Format {
		return nil, fmt.Errorf("%w: it has format %d, and this version reads formats up to %d", ErrNewer, version, Format)
	}
	header := reader{in: r.text()}
	e := &Entry{data: data}
	e.head = data[:len(data)-len(r.in)]
	e.Kind = Kind(header.byte())
	header.fill(e.Incarnation[:])
	e.Store = string(header.text())
	e.Epoch = header.number()
	e.Member = string(header.text())
	header.fill(e.ID[:])
	e.Before = header.number()
	header.fill(e.BeforeHash[:])
	where := r.byte()
	content := r.text()
	err := errors.Join(r.err, header.err)
	switch {
	case err != nil:
	case version == 0 || kinds[e.Kind] == "":
		err = fmt.Errorf("it has format %d and %s", version, e.Kind)
	case where == inline:
		e.content = content
	case where == inParts && len(content) > 0 && len(content)%sha256.Size == 0:
		for ; len(content) > 0; content = content[sha256.Size:] {
			e.parts = append(e.parts, Hash(content))
		}
	default:
		err = errors.New("it does not say where its content is")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEntry, err)
	}
	return e, nil
}

// reader reads a coded entry. After an error, it returns zero values.
type reader struct {
	in  []byte
	err error
}

var errCut = errors.New("it is cut off")

func (r *reader) take(n uint64) []byte {
	if r.err != nil || n > uint64(len(r.in)) {
		r.err = errCut
		return nil
	}
	out := r.in[:n:n]
	r.in = r.in[n:]
	return out
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.in)
	if r.err != nil || size <= 0 {
		r.err = errCut
		return 0
	}
	r.in = r.in[size:]
	return n
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) text() []byte     { return r.take(r.number()) }
func (r *reader) fill(into []byte) { copy(into, r.take(uint64(len(into)))) }

// After returns the position after an entry that is stored with a sequence, if it continues a position. The error wraps
// ErrChain.
func (e *Entry) After(at Position, sequence uint64) (Position, error) {
	why := ""
	switch {
	case e.Incarnation != at.Incarnation:
		why = fmt.Sprintf("it is of the incarnation %s, and the copy is of %s", e.Incarnation, at.Incarnation)
	case at.Ended:
		why = "the store had ended before it"
	case e.Before != at.Sequence:
		why = fmt.Sprintf("it follows the entry %d, and the copy ends at %d", e.Before, at.Sequence)
	case e.BeforeHash != at.Hash:
		why = fmt.Sprintf("it follows another entry %d than the copy has", at.Sequence)
	case sequence <= at.Sequence:
		why = fmt.Sprintf("it is stored before the entry %d, which the copy has", at.Sequence)
	case e.Kind == Lead && e.Epoch <= at.Epoch:
		why = fmt.Sprintf("it begins the epoch %d after the epoch %d", e.Epoch, at.Epoch)
	case e.Kind != Lead && (e.Epoch != at.Epoch || e.Member != at.Member):
		why = fmt.Sprintf("%s wrote it in epoch %d, and %s leads in epoch %d", e.Member, e.Epoch, at.Member, at.Epoch)
	}
	if why != "" {
		return at, fmt.Errorf("entry %d of the store %s: %w: %s", sequence, e.Store, ErrChain, why)
	}
	return Position{Incarnation: e.Incarnation, Sequence: sequence, Hash: hashOf(e.data), Epoch: e.Epoch, Member: e.Member,
		Ended: e.Kind == End}, nil
}

// open returns the content of an entry. fetch returns the part with a hash. The error wraps ErrEntry, unless it is of
// fetch.
func (e *Entry) open(key *seal.Key, store string, fetch func(Hash) ([]byte, error)) ([]byte, error) {
	if e.Store != store {
		return nil, fmt.Errorf("%w: it is of the store %s, and not of %s", ErrEntry, e.Store, store)
	}
	sealed := e.content
	for _, hash := range e.parts {
		part, err := fetch(hash)
		if err != nil {
			return nil, err
		}
		if sha256.Sum256(part) != hash {
			return nil, fmt.Errorf("%w: a part of its content was modified", ErrEntry)
		}
		sealed = append(sealed, part...)
	}
	if sealed == nil || key == nil {
		return nil, fmt.Errorf("%w: it is not sealed", ErrEntry)
	}
	content, err := key.Open(e.head, sealed)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEntry, err)
	}
	return content, nil
}

// code codes a position, as copies and snapshots keep it.
func (p Position) code() []byte {
	out := append([]byte{Format}, p.Incarnation[:]...)
	out = binary.AppendUvarint(out, p.Sequence)
	out = append(out, p.Hash[:]...)
	out = binary.AppendUvarint(out, p.Epoch)
	out = appendText(out, []byte(p.Member))
	if p.Ended {
		return append(out, 1)
	}
	return append(out, 0)
}

// parsePosition reads a coded position. The error wraps ErrEntry or ErrNewer.
func parsePosition(data []byte) (p Position, err error) {
	r := reader{in: data}
	if v := r.byte(); r.err == nil && v > Format {
		return p, ErrNewer
	}
	r.fill(p.Incarnation[:])
	p.Sequence = r.number()
	r.fill(p.Hash[:])
	p.Epoch = r.number()
	p.Member = string(r.text())
	p.Ended = r.byte() != 0
	if r.err != nil {
		return Position{}, fmt.Errorf("%w: a position: %w", ErrEntry, r.err)
	}
	return p, nil
}
