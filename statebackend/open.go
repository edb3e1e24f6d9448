// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

// vault converts states to and from their stored form: compressed, and sealed for their own place.
type vault struct {
	manifests *manifests
	repo      *oci.Repo
	o         *Options
}

// readState returns the state of a manifest, outside the budget; head is the current version, or 0.
func (s *vault) readState(ctx context.Context, m format.StateManifest, head int64) ([]byte, Version, error) {
	return keepState(func(use func([]byte, Version) error) (Version, error) { return s.view(ctx, m, head, use) })
}

// IsSame reports whether the keys of s open two sealed manifests, and both hold the same state.
func IsSame(ctx context.Context, s *Store, a, b format.StateManifest) bool {
	var sums [2][sha256.Size]byte
	for i, m := range []format.StateManifest{a, b} {
		_, err := s.vault.view(ctx, m, 0, func(state []byte, _ Version) error {
			sums[i] = sha256.Sum256(state)
			return nil
		})
		if s.o.Sealer == nil || !isSealed(m) || err != nil && !(m.Empty && errors.Is(err, oci.ErrNotFound)) {
			return false
		}
	}
	return sums[0] == sums[1]
}

// view passes the state of a manifest to use. Who may write can forge a manifest, so with a Sealer
// only bytes are accepted that were sealed for this place, or that OpenTofu encrypted.
func (s *vault) view(ctx context.Context, m format.StateManifest, head int64, use func([]byte, Version) error) (Version, error) {
	v := newVersion(m)
	v.Current = m.N == head
	if m.Empty && (s.o.Sealer == nil || m.Manifest.Digest == "") { // without a digest: nothing is stored
		return v, s.manifests.noState(m.Workspace)
	}
	if err := s.checkOrigin(ctx, m); err != nil {
		return v, err
	}
	if m.Empty && !isSealed(m) {
		return v, s.manifests.noState(m.Workspace)
	}
	return v, s.load(ctx, m, func(state []byte) error {
		if err := s.checkContent(m, state); err != nil {
			return err
		}
		if m.Empty {
			return s.manifests.noState(m.Workspace)
		}
		return use(state, v)
	})
}

func isSealed(m format.StateManifest) bool { return strings.HasSuffix(m.Layer.MediaType, suffixSealed) }

// checkOrigin compares a sealed version's origin with its place. Opening it proves that origin.
func (s *vault) checkOrigin(ctx context.Context, m format.StateManifest) error {
	switch {
	case s.o.Sealer == nil:
		return nil
	case !isSealed(m) && m.Empty && !s.o.Unsealed:
		return s.unsealedError(m, "says, unencrypted, that there is no state", Remedy{Kind: RemedySeal})
	case !isSealed(m):
		return nil // checkContent decides
	case m.Origin.Workspace != m.Workspace:
		return s.misplacedError(m, RemedyDecrypt, "unless the workspace was renamed manually, one state was put in the place of another")
	case m.Origin.Version != m.N:
		return s.misplacedError(m, RemedyDecrypt, "an older okara copied a version when a lock was taken over; otherwise an old version was put in the place of a new one")
	case m.Origin.Repository == s.repo.Name() || m.Origin.Repository == s.repo.String():
		return nil // with the host: written by an older okara
	case m.Origin.Repository == s.o.Primary && s.o.Primary != "":
		return s.checkBelow(ctx, m)
	}
	return s.misplacedError(m, RemedyPrimary, "")
}

// checkBelow makes sure that no version below one of the primary's was written here: from the first
// version after a failover on, the primary's are not accepted.
func (s *vault) checkBelow(ctx context.Context, m format.StateManifest) error {
	tags, err := s.manifests.tags(ctx)
	if err != nil {
		return err
	}
	l := tagNamesOf(m.Workspace)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelReads)
	for _, n := range versionNumbers(tags, l.fragment) {
		if n >= m.N {
			continue
		}
		g.Go(func() error {
			below, err := s.manifests.fetchState(ctx, l.numberedTag(n), m.Workspace)
			if errors.Is(err, oci.ErrNotFound) || errors.Is(err, oci.ErrCorrupt) {
				return nil // it proves nothing
			}
			if err == nil && isSealed(below) && below.Origin.Repository == s.repo.Name() {
				err = s.misplacedError(m, 0, fmt.Sprintf("version %d was written here, so the repository was taken over and must not get later versions of the original", n))
			}
			return err
		})
	}
	return g.Wait()
}

// checkContent refuses bytes in clear unless OpenTofu encrypted them. Only no bytes mean no state.
func (s *vault) checkContent(m format.StateManifest, state []byte) error {
	switch {
	case s.o.Sealer == nil:
		return nil
	case !isSealed(m) && (s.o.Unsealed || EncryptedByTool(state)):
		return nil
	case !isSealed(m):
		return s.unsealedError(m, "is not encrypted, but keys are configured", Remedy{Kind: RemedySeal})
	case m.Empty != (len(state) == 0):
		return s.unsealedError(m, "does not match its manifest", Remedy{Kind: RemedyDecrypt})
	}
	return nil
}

func (s *vault) unsealedError(m format.StateManifest, what string, r Remedy) error {
	r.Repository = s.repo.String()
	r.Workspace = m.Workspace
	return &RemediedError{r, fmt.Errorf("version %d of workspace %q in %s %s: %w", m.N, m.Workspace, s.repo, what, ErrUnsealed)}
}

func (s *vault) misplacedError(m format.StateManifest, kind RemedyKind, cause string) error {
	o := m.Origin
	return s.unsealedError(m, fmt.Sprintf("was encrypted for version %d of workspace %q in %q", o.Version, o.Workspace, o.Repository), Remedy{Kind: kind, Cause: cause})
}

func (s *vault) noKeyError(m format.StateManifest, err error) error {
	r := Remedy{Kind: RemedyKey, Workspace: m.Workspace, Version: m.N}
	if s.repo != nil { // Decode needs no repository
		r.Repository = s.repo.String()
	}
	return &RemediedError{r, err}
}

// Decode returns the state that a manifest and its stored bytes hold, without a registry. It opens
// bytes that were sealed for any place, and returns no bytes for a version without state.
func (s *Store) Decode(ctx context.Context, m oci.Manifest, stored []byte) ([]byte, Version, error) {
	sm, err := format.ParseState(m)
	if err != nil {
		return nil, Version{}, err
	}
	if sm.Empty {
		return nil, newVersion(sm), nil
	}
	if sm.Layer.Digest != sm.Layer.Digest.Algorithm().FromBytes(stored) {
		return nil, Version{}, fmt.Errorf("stored bytes do not match the manifest: %w", oci.ErrCorrupt)
	}
	state, err := s.vault.decode(ctx, sm, stored, s.o.MaxState)
	return state, newVersion(sm), err
}

// storeState encodes a state and its usage for the place in m, fills the rest of m and returns the
// blob, if any.
func (s *vault) storeState(ctx context.Context, state []byte, m *format.StateManifest, usage []byte) (oci.Blob, bool, error) {
	m.Layer = oci.Descriptor{}
	m.Envelope = nil
	m.Usage = ""
	m.SHA256 = ""
	m.Origin = format.StateOrigin{Repository: s.repo.Name(), Workspace: m.Workspace, Version: m.N, Fence: m.Fence, Parent: m.Parent}
	if m.Empty && s.o.Sealer == nil {
		return oci.Blob{}, false, nil
	}
	e, err := s.encode(ctx, state, m.Origin)
	if err != nil {
		return oci.Blob{}, false, err
	}
	blob := format.StateLayer(e.encoding, e.bytes)
	m.Layer = blob.Descriptor
	m.Envelope = e.envelope
	m.SHA256 = blob.Digest.Encoded()
	if !m.Empty { // without the record the state is still stored
		var usageErr error
		if m.Usage, usageErr = s.encodeUsage(ctx, usage, isSealed(*m) || EncryptedByTool(state), m.Origin); usageErr != nil {
			s.o.Logger.Warn("the modules and providers of the state are not recorded", "error", usageErr)
		}
	}
	return blob, true, nil
}

// sealTakeover prepares the first version of a takeover: the head's content, sealed again, since a
// version is bound to its number. It is built once: a repeated write must send the same bytes.
func (x *session) sealTakeover(ctx context.Context, req protocol.Request, c *content) error {
	if c.manifest.Bytes != nil {
		return nil
	}
	head := format.StateManifest{Workspace: x.names.workspace, Empty: true}
	var err error
	switch {
	case req.Head > 0:
		head, err = x.headToSeal(ctx, req.Head)
	case x.snapshot.Pointer: // written by a tool without versions
		head, err = x.s.manifests.fetchState(ctx, x.names.pointerTag(), x.names.workspace)
	}
	if err != nil {
		return fmt.Errorf("reading version %d to encrypt it: %w", req.Head, definiteRead(err))
	}
	m := head
	m.Parent = head.Manifest.Digest.String()
	m.ParentN = head.N
	m.N = req.N
	m.Fence = req.Claim.Fence
	m.LockID = x.info.ID
	m.Created = x.s.o.Now()
	m.Tool = x.s.o.Tool
	m.Who = x.info.Who
	m.Caller = callerName(ctx, x.s.repo)
	m.Operation = format.OperationTakeover
	if err := x.renew(ctx, head, &m, c); err != nil {
		return fmt.Errorf("encrypting version %d under another number: %w", req.Head, definiteRead(err))
	}
	c.manifest, err = format.NewStateManifest(m)
	return err
}

// renew stores the content of head for the place of m. Bytes stay unchanged without keys, and, with
// [Options].Unsealed, if they are not sealed: a takeover must not seal them.
func (x *session) renew(ctx context.Context, head format.StateManifest, m *format.StateManifest, c *content) error {
	s := x.s
	if s.o.Sealer == nil {
		if isSealed(head) {
			return s.vault.noKeyError(head, errNoKey)
		}
		return nil
	}
	unsealed := s.o.Unsealed && head.Manifest.Digest != ""
	if unsealed && !isSealed(head) {
		return nil
	}
	var kept error
	_, err := s.vault.view(ctx, head, 0, func(state []byte, _ Version) error {
		kept = x.keepContent(ctx, state, m, c, s.vault.usageIn(ctx, head))
		return nil
	})
	switch {
	case unsealed && errors.Is(err, ErrUnsealed):
		return nil
	case errors.Is(err, oci.ErrNotFound):
		return x.keepContent(ctx, nil, m, c, nil)
	case err != nil:
		return err
	}
	return kept
}

func (x *session) keepContent(ctx context.Context, state []byte, m *format.StateManifest, c *content, usage []byte) error {
	h := readHead(state)
	m.Lineage = h.lineage
	m.Serial = h.serial
	blob, ok, err := x.s.vault.storeState(ctx, state, m, usage)
	if err != nil || !ok {
		return err
	}
	c.blobs = []oci.Blob{blob}
	if err := x.s.repo.PushBlob(ctx, blob); err != nil {
		return fmt.Errorf("%v: %w", err, definiteError(err))
	}
	return nil
}
