// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/semaphore"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// Sealer encrypts states.
type Sealer = artifact.Sealer

// Suffixes of the media type of a stored state, in the order of application.
const (
	suffixZstd   = "+zstd"
	suffixGzip   = "+gzip"
	suffixSealed = "+encrypted"
)

// compressFrom is the smallest size, in bytes, that is compressed.
const compressFrom = 1 << 10

type encoded struct {
	bytes    []byte
	encoding string
	envelope map[string]string
}

// encode compresses, then seals. A state that OpenTofu encrypted is stored unchanged: ciphertext
// does not shrink, and a second seal would hide nothing more.
func (s *vault) encode(ctx context.Context, state []byte, origin format.StateOrigin) (encoded, error) {
	if EncryptedByTool(state) {
		return encoded{bytes: state}, nil
	}
	e, err := compressState(state, s.o.Compression)
	if err != nil || s.o.Sealer == nil {
		return e, err
	}
	e.encoding += suffixSealed
	e.bytes, e.envelope, err = s.o.Sealer.Seal(ctx, e.bytes, associatedData(e.encoding, origin))
	if err != nil {
		return encoded{}, fmt.Errorf("encrypting state: %w", err)
	}
	return e, nil
}

func compressState(state []byte, how string) (encoded, error) {
	if len(state) < compressFrom {
		return encoded{bytes: state}, nil
	}
	switch how {
	case "none":
		return encoded{bytes: state}, nil
	case "gzip":
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, werr := w.Write(state)
		if err := errors.Join(werr, w.Close()); err != nil {
			return encoded{}, fmt.Errorf("compressing state: %w", err)
		}
		return encoded{bytes: b.Bytes(), encoding: suffixGzip}, nil
	case "", "zstd":
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return encoded{}, fmt.Errorf("compressing state: %w", err)
		}
		// Room for the worst case: untouched pages cost nothing, growing would hold two copies.
		limit := make([]byte, 0, w.MaxEncodedSize(len(state)))
		return encoded{bytes: w.EncodeAll(state, limit), encoding: suffixZstd}, nil
	}
	return encoded{}, fmt.Errorf("unknown compression %q, expected zstd, gzip or none", how)
}

// decode undoes encode. A state that announces more than limit bytes is an expandError, or
// oci.ErrTooLarge above the store's limit; one that expands further is oci.ErrCorrupt.
func (s *vault) decode(ctx context.Context, m format.StateManifest, stored []byte, limit int64) ([]byte, error) {
	encoding, sealed := strings.CutSuffix(m.Encoding(), suffixSealed)
	if sealed {
		if s.o.Sealer == nil {
			return nil, s.noKeyError(m, fmt.Errorf("version %d of workspace %q: %w", m.N, m.Workspace, errNoKey))
		}
		plain, err := s.o.Sealer.Open(ctx, stored, m.Envelope, associatedData(m.Encoding(), m.Origin))
		if err != nil {
			return nil, fmt.Errorf("decrypting version %d of workspace %q: %w", m.N, m.Workspace, err)
		}
		stored = plain
	}
	size := expandedGzip
	expand := gunzip
	switch encoding {
	case "":
		return stored, nil
	case suffixGzip:
	case suffixZstd:
		size = s.expandedZstd
		expand = unzstd
	default:
		return nil, oci.Unsupported("version %d of workspace %q is stored as %q, which this version cannot read", m.N, m.Workspace, m.Layer.MediaType)
	}
	n, err := size(stored)
	switch {
	case err == nil && n > s.o.MaxState:
		err = fmt.Errorf("state larger than %d bytes: %w", s.o.MaxState, oci.ErrTooLarge)
	case err == nil && n > limit:
		err = expandError(n)
	}
	var state []byte
	if err == nil {
		state, err = expand(stored, n)
	}
	if err != nil {
		return nil, fmt.Errorf("version %d of workspace %q: %w", m.N, m.Workspace, err)
	}
	return state, nil
}

// expandedGzip reads the uncompressed size: https://www.rfc-editor.org/rfc/rfc1952#section-2.3.1
func expandedGzip(stored []byte) (int64, error) {
	if len(stored) < 18 {
		return 0, fmt.Errorf("gzip: %d bytes: %w", len(stored), oci.ErrCorrupt)
	}
	return int64(binary.LittleEndian.Uint32(stored[len(stored)-4:])), nil
}

// gunzip expands a single gzip member, the form in which states are stored, to n bytes.
func gunzip(stored []byte, n int64) ([]byte, error) {
	in := bytes.NewReader(stored)
	r, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("gzip: %v: %w", err, oci.ErrCorrupt)
	}
	r.Multistream(false)
	state := make([]byte, n)
	if _, err := io.ReadFull(r, state); err != nil {
		return nil, fmt.Errorf("gzip: %v: %w", err, oci.ErrCorrupt)
	}
	// Read the end of the member, where its checksum is compared, and of the bytes.
	if _, err := io.ReadFull(r, make([]byte, 1)); err != io.EOF || in.Len() > 0 {
		return nil, fmt.Errorf("gzip: more than the announced %d bytes, or corrupt (%v): %w", n, err, oci.ErrCorrupt)
	}
	return state, nil
}

// expandedZstd reads the size that okara always writes; without it the state counts as the largest.
func (s *vault) expandedZstd(stored []byte) (int64, error) {
	var h zstd.Header
	if err := h.Decode(stored); err != nil {
		return 0, fmt.Errorf("zstd: %v: %w", err, oci.ErrCorrupt)
	}
	if !h.HasFCS {
		return s.o.MaxState, nil
	}
	if h.FrameContentSize > math.MaxInt64 {
		return 0, fmt.Errorf("zstd: size %d: %w", h.FrameContentSize, oci.ErrCorrupt)
	}
	return int64(h.FrameContentSize), nil
}

// unzstd expands a frame of n bytes, of which the capacity is the limit: one of 1,024 has a window of 2,048.
func unzstd(stored []byte, n int64) ([]byte, error) {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(max(n, 64<<10))), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	defer r.Close()
	state, err := r.DecodeAll(stored, make([]byte, 0, n))
	if err != nil {
		return nil, fmt.Errorf("zstd: %v: %w", err, oci.ErrCorrupt)
	}
	return state, nil
}

// associatedData binds sealed bytes to the origin in their manifest, which read checks.
func associatedData(encoding string, o format.StateOrigin) []byte {
	return artifact.AssociatedData(format.MediaState+encoding, o.Repository, o.Workspace, strconv.FormatInt(o.Version, 10), strconv.FormatInt(o.Fence, 10), o.Parent)
}

// Budget bounds the memory that states take while they are read and written, across all stores that
// share it: some kilobytes may expand to the largest state. A write reads the current state while
// it holds its own, so the two are counted separately, lest it wait for itself.
type Budget struct {
	size          int64
	reads, writes *semaphore.Weighted
}

// NewBudget returns a budget of size bytes for reading and as many for writing. A state that needs
// more than the whole budget is processed alone.
func NewBudget(size int64) *Budget {
	return &Budget{size: size, reads: semaphore.NewWeighted(size), writes: semaphore.NewWeighted(size)}
}

// holdMemory waits for n bytes of reading or writing memory; the wait ends with ctx.
func (b *Budget) holdMemory(ctx context.Context, from *semaphore.Weighted, n int64) (release func(), err error) {
	n = min(n, b.size)
	if err := from.Acquire(ctx, n); err != nil {
		return nil, fmt.Errorf("waiting for %d bytes of memory for a state: %w", n, err)
	}
	return func() { from.Release(n) }, nil
}

// writeCopies is how often a state is in memory while written: received, compressed, sealed.
const writeCopies = 3

// Reserve waits for room to receive a state of size bytes, negative if unknown, until release.
func (s *Store) Reserve(ctx context.Context, size int64) (release func(), err error) {
	b := s.o.Budget
	if b == nil {
		return func() {}, nil
	}
	if size < 0 {
		size = s.o.MaxState
	}
	return b.holdMemory(ctx, b.writes, writeCopies*size)
}

const (
	// likelyRatio is how far states usually expand; others are fetched again when there is room.
	likelyRatio = 32
	// minExpanded is the size, in bytes, that every state may expand to.
	minExpanded = 64 << 10
)

// expandError says that a state expands to more bytes than there was room for.
type expandError int64

func (e expandError) Error() string { return fmt.Sprintf("the state expands to %d bytes", int64(e)) }

// load passes the state of a manifest to use, within the budget until use returns.
func (s *vault) load(ctx context.Context, m format.StateManifest, use func(state []byte) error) error {
	limit := min(s.o.MaxState, likelyRatio*min(m.Layer.Size, s.o.MaxState)+minExpanded)
	for {
		state, release, err := s.tryLoad(ctx, m, limit)
		if n, ok := errors.AsType[expandError](err); ok && int64(n) > limit {
			limit = int64(n)
			continue
		}
		if err != nil {
			return err
		}
		defer release()
		return use(state)
	}
}

// tryLoad loads a state of at most limit bytes; else it returns an expandError and holds no memory.
func (s *vault) tryLoad(ctx context.Context, m format.StateManifest, limit int64) ([]byte, func(), error) {
	release := func() {}
	if b := s.o.Budget; b == nil {
		limit = s.o.MaxState
	} else {
		need := min(m.Layer.Size, s.o.MaxState)
		if isSealed(m) {
			need *= 2
		}
		if strings.TrimSuffix(m.Encoding(), suffixSealed) != "" {
			need += limit
		}
		var err error
		if release, err = b.holdMemory(ctx, b.reads, need); err != nil {
			return nil, nil, err
		}
	}
	stored, err := s.repo.ReadBlob(ctx, m.Layer, s.o.MaxState)
	if err != nil {
		release()
		return nil, nil, fmt.Errorf("reading version %d of workspace %q: %w", m.N, m.Workspace, markUnreadable(err))
	}
	state, err := s.decode(ctx, m, stored, limit)
	if err != nil {
		release()
		return nil, nil, err
	}
	return state, release, nil
}
