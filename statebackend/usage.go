// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// Bounds of the document of what a state was made of, in bytes.
const (
	MaxUsage     = 128 << 10 // a larger one is not recorded
	plainUsage   = 16 << 10  // a larger one is compressed
	maxUsageText = 32 << 10  // of the annotation
	maxEnvelope  = 2 << 10   // what sealing adds to it
)

// packedUsage is the annotation's form if the document is compressed or sealed.
type packedUsage struct {
	MediaType string            `json:"mediaType"`
	Envelope  map[string]string `json:"envelope,omitempty"`
	Data      []byte            `json:"data"`
}

type usageKey struct{}

// WithUsage returns a context whose writes call of instead of [Options].Usage.
func WithUsage(ctx context.Context, of func(state, before []byte) []byte) context.Context {
	return context.WithValue(ctx, usageKey{}, of)
}

// WithUsageOf returns a context whose writes are recorded with the document of version n, for when
// that is restored.
func WithUsageOf(ctx context.Context, s *Store, workspace string, n int64) context.Context {
	document, err := ReadUsage(ctx, s, workspace, n)
	return WithUsage(ctx, func([]byte, []byte) []byte {
		if err != nil {
			return nil
		}
		return document
	})
}

// sealWait bounds a request to a key service for a record, which the state does not wait for.
const sealWait = 5 * time.Second

// usageOf returns the document for a state that follows parent.
func (s *vault) usageOf(ctx context.Context, state []byte, parent format.StateManifest) (document []byte) {
	of := s.o.Usage
	if given, ok := ctx.Value(usageKey{}).(func(state, before []byte) []byte); ok {
		of = given
	}
	if of == nil || len(state) == 0 {
		return nil
	}
	var before []byte
	if !isSealed(parent) { // opening one may take a request to a key service
		before = s.usageIn(ctx, parent)
	}
	defer func() {
		if r := recover(); r != nil { // it parses files of others, and must not cost the state
			s.o.Logger.Warn("the modules and providers of the state are not recorded", "error", r)
			document = nil
		}
	}()
	return of(state, before)
}

// encodeUsage returns the annotation for a document. It is sealed wherever the state is, and left
// out where only the tool has the key.
func (s *vault) encodeUsage(ctx context.Context, document []byte, secret bool, origin format.StateOrigin) (string, error) {
	if len(document) == 0 || len(document) > MaxUsage || secret && s.o.Sealer == nil {
		return "", nil
	}
	if !secret && len(document) <= plainUsage {
		return string(document), nil
	}
	p := packedUsage{MediaType: format.MediaUsage, Data: document}
	if len(document) > plainUsage {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return "", fmt.Errorf("compressing the usage: %w", err)
		}
		p.MediaType += suffixZstd
		p.Data = w.EncodeAll(document, nil)
	}
	if secret {
		ctx, cancel := context.WithTimeout(ctx, sealWait)
		defer cancel()
		var err error
		p.MediaType += suffixSealed
		if p.Data, p.Envelope, err = s.o.Sealer.Seal(ctx, p.Data, usageData(p.MediaType, origin)); err != nil {
			return "", fmt.Errorf("encrypting the usage: %w", err)
		}
	}
	text, err := json.Marshal(p)
	if err != nil || len(text) > maxUsageText {
		return "", err
	}
	return string(text), nil
}

func usageData(mediaType string, o format.StateOrigin) []byte {
	return artifact.AssociatedData(mediaType, o.Repository, o.Workspace, strconv.FormatInt(o.Version, 10), strconv.FormatInt(o.Fence, 10), o.Parent)
}

// usageIn returns the document in a manifest, nil if there is none or it cannot be opened. Beside a
// sealed state only a sealed one counts, since anyone who may write can forge another.
func (s *vault) usageIn(ctx context.Context, m format.StateManifest) []byte {
	var p packedUsage
	if m.Usage == "" || len(m.Usage) > maxUsageText || m.Empty {
		return nil
	}
	if err := json.Unmarshal([]byte(m.Usage), &p); err != nil {
		return nil
	}
	sealed := p.Envelope != nil
	if s.o.Sealer != nil && !s.o.Unsealed && !sealed && isSealed(m) {
		return nil
	}
	if p.Data == nil {
		return []byte(m.Usage)
	}
	want := format.MediaUsage
	if p.MediaType == want+suffixZstd || p.MediaType == want+suffixZstd+suffixSealed {
		want += suffixZstd
	}
	if sealed {
		if s.o.Sealer == nil || p.MediaType != want+suffixSealed {
			return nil
		}
		plain, err := s.o.Sealer.Open(ctx, p.Data, p.Envelope, usageData(p.MediaType, m.Origin))
		if err != nil {
			return nil
		}
		p.Data = plain
	}
	if want == format.MediaUsage {
		return p.Data
	}
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxUsage))
	if err != nil {
		return nil
	}
	defer r.Close()
	document, err := r.DecodeAll(p.Data, nil)
	if err != nil {
		return nil
	}
	return document
}

// ReadUsage returns the document of what version n was made of, with one request; nil if none was
// recorded, or no key opens it. Clients write it: nothing may be decided by it.
func ReadUsage(ctx context.Context, s *Store, workspace string, n int64) ([]byte, error) {
	m, err := s.manifests.fetchState(ctx, tagNamesOf(workspace).numberedTag(n), workspace)
	if err != nil {
		return nil, versionError(workspace, n, err)
	}
	return s.vault.usageIn(ctx, m), nil
}

// RecordAgain writes the newest version once more, under a lock of its own, for a run that changed nothing under
// l, which is released: with the document that now returns for that of this version; nil: it stays. Without a
// document there is no request but one to the key service of a sealed record. A version that another client
// has written since is not followed. A lock that could not be released is returned, with why.
func RecordAgain(ctx context.Context, l *Lock, now func(before []byte) []byte, limit time.Duration, done <-chan struct{}) (wrote bool, held *Lock, locked, err error) {
	l.mu.Lock()
	head, skip := l.head, l.wrote || l.opaque && l.s.o.Sealer == nil
	l.mu.Unlock()
	if skip || head == nil || head.Empty {
		return false, nil, nil, nil
	}
	opening, cancel := context.WithTimeout(ctx, sealWait)
	defer cancel()
	before := l.s.vault.usageIn(opening, *head)
	if before == nil && head.Usage != "" { // it cannot be opened, and may say the same
		return false, nil, nil, nil
	}
	document := l.s.vault.usageOf(WithUsage(ctx, func([]byte, []byte) []byte { return now(before) }), []byte("{}"), format.StateManifest{})
	text, err := l.s.vault.encodeUsage(ctx, document, false, head.Origin)
	if text == "" || isSealed(*head) && len(text) > maxUsageText-maxEnvelope {
		return false, nil, nil, err
	}
	info := l.x.info
	info.ID = l.s.o.NewID()
	info.Created = l.s.o.Now().UTC()
	info.Operation = format.OperationRecord
	next, err := l.s.LockWithin(ctx, l.x.names.workspace, info, limit, done)
	if err != nil {
		return false, nil, nil, err
	}
	ctx = WithUsage(context.WithoutCancel(ctx), func([]byte, []byte) []byte { return document })
	state, v, err := next.Get(ctx)
	if err == nil && v.Digest == head.Manifest.Digest.String() {
		_, err = next.Put(ctx, state)
		wrote = err == nil
	}
	if locked = next.UnlockRetrying(ctx); locked != nil {
		held = next
	}
	return wrote, held, locked, err
}

// Newest returns the tag of each workspace's newest version.
func (l *Listing) Newest() []string {
	var tags []string
	for _, t := range newestTags(l.tags) {
		tags = append(tags, t.String())
	}
	return tags
}

// Made returns the version under a tag of [Listing.Newest] and its document as [ReadUsage] does,
// with one request. No workspace: there is no state.
func (l *Listing) Made(ctx context.Context, tag string) (Head, []byte, error) {
	t, ok := format.ParseStateTag(tag)
	if !ok {
		return Head{}, nil, fmt.Errorf("tag %s of %s: %w", tag, l.s.repo, oci.ErrNotFound)
	}
	head, m, err := l.s.catalog.fetchManifest(ctx, t)
	if err != nil {
		return Head{}, nil, err
	}
	return head, l.s.vault.usageIn(ctx, m), nil
}
