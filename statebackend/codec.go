// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/seed-141914ff/okara/oci"
)

// Sealer encrypts states. What aad binds the sealed bytes to must be the same
// when they are opened; ann is kept beside them, in annotations that begin
// with "vnd.okara.state.envelope". Package internal/envelope has the
// implementation.
type Sealer interface {
	Seal(ctx context.Context, plain, aad []byte) (sealed []byte, ann map[string]string, err error)
	Open(ctx context.Context, sealed []byte, ann map[string]string, aad []byte) ([]byte, error)
}

// Suffixes of the media type of a stored state, in the order of application.
const (
	suffixZstd   = "+zstd"
	suffixGzip   = "+gzip"
	suffixSealed = "+encrypted"
)

// compressFrom is the size from which compression is worth its name.
const compressFrom = 1 << 10

// encoded is a state as it is stored.
type encoded struct {
	bytes    []byte
	encoding string
	envelope map[string]string
}

// encode compresses, then seals. What OpenTofu encrypted is kept as it is:
// ciphertext does not shrink, and a second seal would hide nothing more.
func (s *Store) encode(ctx context.Context, state []byte, origin oci.StateOrigin) (encoded, error) {
	if EncryptedByTool(state) {
		return encoded{bytes: state}, nil
	}
	e, err := compress(state, s.o.Compression)
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

func compress(state []byte, how string) (encoded, error) {
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
		// Room for the worst case: what is not written to is never touched, while
		// growing would hold two copies.
		room := make([]byte, 0, w.MaxEncodedSize(len(state)))
		return encoded{bytes: w.EncodeAll(state, room), encoding: suffixZstd}, nil
	}
	return encoded{}, fmt.Errorf("unknown compression %q, want zstd, gzip or none", how)
}

// decode undoes encode. Every size is bounded by the store's limit.
func (s *Store) decode(ctx context.Context, m oci.StateManifest, stored []byte) ([]byte, error) {
	encoding, sealed := strings.CutSuffix(m.Encoding(), suffixSealed)
	if sealed {
		if s.o.Sealer == nil {
			return nil, fmt.Errorf("version %d of workspace %q: %w", m.N, m.Workspace, errNoKey)
		}
		plain, err := s.o.Sealer.Open(ctx, stored, m.Envelope, associatedData(m.Encoding(), m.Origin))
		if err != nil {
			return nil, fmt.Errorf("decrypting version %d of workspace %q: %w", m.N, m.Workspace, err)
		}
		stored = plain
	}
	var state []byte
	var err error
	switch encoding {
	case "":
		return stored, nil
	case suffixGzip:
		state, err = gunzip(stored, s.o.MaxState)
	case suffixZstd:
		state, err = s.unzstd(stored)
	default:
		return nil, fmt.Errorf("version %d of workspace %q is stored as %q, which this version cannot read: %w", m.N, m.Workspace, m.Layer.MediaType, oci.ErrUnsupported)
	}
	if err != nil {
		return nil, fmt.Errorf("version %d of workspace %q: %w", m.N, m.Workspace, err)
	}
	return state, nil
}

func gunzip(stored []byte, limit int64) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(stored))
	if err != nil {
		return nil, fmt.Errorf("gzip: %v: %w", err, oci.ErrCorrupt)
	}
	state, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("gzip: %v: %w", err, oci.ErrCorrupt)
	}
	if int64(len(state)) > limit {
		return nil, fmt.Errorf("state of more than %d bytes: %w", limit, oci.ErrTooLarge)
	}
	return state, nil
}

func (s *Store) unzstd(stored []byte) ([]byte, error) {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(s.o.MaxState)))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	defer r.Close()
	state, err := r.DecodeAll(stored, nil)
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return nil, fmt.Errorf("state of more than %d bytes: %w", s.o.MaxState, oci.ErrTooLarge)
	}
	if err != nil {
		return nil, fmt.Errorf("zstd: %v: %w", err, oci.ErrCorrupt)
	}
	return state, nil
}

// associatedData binds sealed bytes to what their manifest says of their origin,
// which read compares with where they were found. Lengths in front of the
// strings keep the encoding unambiguous.
func associatedData(encoding string, o oci.StateOrigin) []byte {
	var b bytes.Buffer
	for _, part := range [...]string{
		oci.MediaState + encoding, o.Repository, o.Workspace,
		strconv.FormatInt(o.Version, 10), strconv.FormatInt(o.Fence, 10), o.Parent,
	} {
		fmt.Fprintf(&b, "%d:%s\n", len(part), part)
	}
	return b.Bytes()
}
