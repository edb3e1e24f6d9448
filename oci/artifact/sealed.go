// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/seed-141914ff/okara/oci"
)

// Sealer encrypts states, and what an instance stores beside its state. Open needs Seal's aad and
// ann: the annotations beside the sealed bytes, which begin with "vnd.okara.state.envelope".
// Package internal/envelope implements Sealer.
type Sealer interface {
	Seal(ctx context.Context, plain, aad []byte) (sealed []byte, ann map[string]string, err error)
	Open(ctx context.Context, sealed []byte, ann map[string]string, aad []byte) ([]byte, error)
}

const (
	suffixSealed = "+encrypted"
	suffixZstd   = "+zstd"
	// annEnvelope is the prefix of the annotations of a sealed layer.
	annEnvelope = "vnd.okara.state.envelope"
	// sealOverhead bounds, in bytes, the growth of a layer by sealing.
	sealOverhead = 1 << 10
)

// AssociatedData returns the aad that binds sealed bytes to texts, unambiguous by their lengths.
func AssociatedData(parts ...string) (aad []byte) {
	for _, part := range parts {
		aad = fmt.Appendf(aad, "%d:%s\n", len(part), part)
	}
	return aad
}

// Seal returns a tag's layer: compressed if the media type says so, then sealed unless s is nil.
func Seal(ctx context.Context, r *oci.Repo, s Sealer, tag, mediaType string, plain []byte) (oci.Blob, error) {
	blob, _, err := sealBlob(ctx, r, s, tag, mediaType, plain)
	return blob, err
}

// SealInlined is [Seal] for a layer usually read alone: a small one is repeated in its descriptor.
func SealInlined(ctx context.Context, r *oci.Repo, s Sealer, tag, mediaType string, plain []byte) (oci.Blob, error) {
	blob, stored, err := sealBlob(ctx, r, s, tag, mediaType, plain)
	if err != nil {
		return oci.Blob{}, err
	}
	return Inlined(blob, stored), nil
}

func sealBlob(ctx context.Context, r *oci.Repo, s Sealer, tag, mediaType string, plain []byte) (oci.Blob, []byte, error) {
	stored := plain
	if strings.HasSuffix(mediaType, suffixZstd) {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return oci.Blob{}, nil, err
		}
		stored = w.EncodeAll(plain, nil)
	}
	if s == nil {
		return oci.BytesBlob(mediaType, stored), stored, nil
	}
	mediaType += suffixSealed
	stored, ann, err := s.Seal(ctx, stored, AssociatedData(mediaType, r.Name(), tag))
	if err != nil {
		return oci.Blob{}, nil, fmt.Errorf("encrypting %s:%s: %w", r, tag, err)
	}
	blob := oci.BytesBlob(mediaType, stored)
	blob.Annotations = ann
	return blob, stored, nil
}

// ClearType returns the media type of a layer before sealing.
func ClearType(mediaType string) string { return strings.TrimSuffix(mediaType, suffixSealed) }

// maxInline is the largest content, in bytes, that is repeated in its layer's descriptor (OCI image
// specification 1.1, "data"), which saves a request.
const maxInline = 32 << 10

// Inlined repeats the content of a small layer in its descriptor.
func Inlined(b oci.Blob, content []byte) oci.Blob {
	if len(content) <= maxInline {
		b.Data = content
	}
	return b
}

// Open reads a layer, of at most limit bytes opened and decompressed. With a sealer an unsealed
// layer is refused: anyone who may write could have stored it.
func Open(ctx context.Context, r *oci.Repo, s Sealer, tag, mediaType string, layer oci.Descriptor, limit int64) ([]byte, error) {
	b, err := r.ReadBlob(ctx, layer, limit+sealOverhead)
	if err != nil {
		return nil, err
	}
	switch {
	case s != nil && layer.MediaType == mediaType+suffixSealed:
		ann := maps.Clone(layer.Annotations)
		maps.DeleteFunc(ann, func(k, _ string) bool { return !strings.HasPrefix(k, annEnvelope) })
		if b, err = s.Open(ctx, b, ann, AssociatedData(layer.MediaType, r.Name(), tag)); err != nil {
			return nil, fmt.Errorf("decrypting %s:%s: %w: %w", r, tag, err, oci.ErrCorrupt)
		}
	case s == nil && layer.MediaType == mediaType:
	case s == nil:
		return nil, oci.Unsupported("%s:%s is encrypted, and no state keys are configured", r, tag)
	default:
		return nil, fmt.Errorf("%s:%s is not encrypted with the state keys: %w", r, tag, oci.ErrCorrupt)
	}
	if !strings.HasSuffix(mediaType, suffixZstd) {
		return b, nil
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(limit)))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if b, err = d.DecodeAll(b, nil); err != nil {
		return nil, fmt.Errorf("%s:%s: zstd: %v: %w", r, tag, err, oci.ErrCorrupt)
	}
	return b, nil
}
