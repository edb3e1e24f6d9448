// SPDX-License-Identifier: Apache-2.0

package format

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Types of lock manifests. mediaLockInfo is a layer that only older tools
// write; ours keep the lock information in an annotation.
const (
	artifactLock  = "application/vnd.opentofu.lock.v1"
	mediaLockInfo = "application/vnd.opentofu.lockinfo.v1"
)

// Annotations of lock manifests.
const (
	annLockID        = "vnd.okara.lock.id"
	annLockInfo      = "vnd.okara.lock.info"
	annLockKind      = "vnd.okara.lock.kind"
	annLockFence     = "vnd.okara.lock.fence"
	annLockHeartbeat = "vnd.okara.lock.beat"
	annLockNonce     = "vnd.okara.lock.nonce"
	annLockReason    = "vnd.okara.lock.reason"
	annLockWho       = "vnd.okara.lock.who"
	annLockRoot      = "vnd.okara.lock.root"

	// Older tools put the lock information here.
	annOldLockID   = "org.terraform.lock.id"
	annOldLockInfo = "org.terraform.lock.info"
)

// MaxLockInfo bounds the lock information that is read or written; the tools
// send a few hundred bytes.
const MaxLockInfo = 4 << 10

// LockKind is what a lock manifest stands for.
type LockKind string

// The kinds of lock manifests. The empty kind was written by an older tool.
const (
	KindClaim     LockKind = "claim"
	KindTombstone LockKind = "tombstone"
	KindUnlocked  LockKind = "unlocked"
)

// LockReason says why a claim ended.
type LockReason string

// The reasons of a tombstone.
const (
	ReasonReleased  LockReason = "released"
	ReasonForced    LockReason = "forced"
	ReasonExpired   LockReason = "expired"
	ReasonUncertain LockReason = "uncertain"
	ReasonAbandoned LockReason = "ghost"    // listed, but its GET was 404 for long
	ReasonRefused   LockReason = "refused"  // its client got the answer that somebody else holds it
	ReasonOrphan    LockReason = "orphaned" // the lock that it took part in has ended
)

// LockInfo describes who holds a lock, in the field names that OpenTofu and
// Terraform use.
type LockInfo struct {
	ID        string
	Operation string
	Info      string
	Who       string
	Version   string
	Created   time.Time
	Path      string
}

// LockManifest is what a claim, a tombstone or a marker says.
type LockManifest struct {
	Manifest  oci.Descriptor
	Kind      LockKind
	Workspace string
	Info      LockInfo
	Fence     int64
	Heartbeat time.Time // by the registry's clock; zero without a lease
	TTL       time.Duration
	Nonce     string // empty: not ours
	Root      string // tag of the claim by which the same client won before; "": by this one
	Reason    LockReason
	Who       string // who ended the claim
	Created   time.Time
}

// ClaimX returns the last part of a claim's tags: 8 hex digits of the lock's
// id, by which a claim is found again, and 8 that tell attempts apart.
func ClaimX(lockID string, attempt uint32) string {
	return shortHash(lockID, 8) + fmt.Sprintf("%08x", attempt)
}

// IDOfClaim is the part of a claim's x that the claims of one lock id have in common.
func IDOfClaim(x string) string { return x[:min(len(x), 8)] }

// ClaimOf reports whether x is of a claim with that lock id, or with the id that
// [ShownID] shows like that.
func ClaimOf(x, lockID string) bool {
	if len(x) != 16 {
		return false
	}
	hashed := len(lockID) == sha256.Size*2 && strings.Trim(lockID, "0123456789abcdef") == ""
	return x[:8] == shortHash(lockID, 8) || hashed && x[:8] == lockID[:8]
}

// maxShownID bounds an id that is shown as it is; the tools' have 36 characters.
const maxShownID = 128

// idPattern is what no shell and no terminal takes for anything but text.
var idPattern = text.Pattern(`^[A-Za-z0-9._-]*$`)

// ShownID is how the id of somebody else's lock is shown, for people paste it:
// as it is, or as the hexadecimal digits of its SHA-256 where it has other
// characters than A-Z a-z 0-9 . _ -.
func ShownID(lockID string) string {
	if len(lockID) <= maxShownID && idPattern().MatchString(lockID) {
		return lockID
	}
	return shortHash(lockID, sha256.Size*2)
}

// maxLockInfoDepth bounds how deep the members nest that okara does not know; the
// tools' have no depth at all.
const maxLockInfoDepth = 16

// ParseLockInfo reads lock information in the tools' JSON. What is longer than
// [MaxLockInfo] or nests more than 16 deep is [oci.ErrTooLarge].
func ParseLockInfo(b []byte) (LockInfo, error) {
	if len(b) > MaxLockInfo {
		return LockInfo{}, fmt.Errorf("lock information of %d bytes: %w", len(b), oci.ErrTooLarge)
	}
	depth := 0
	dec := json.NewDecoder(bytes.NewReader(b))
	for {
		t, err := dec.Token()
		if err != nil {
			break // Unmarshal says what is wrong
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > maxLockInfoDepth {
				return LockInfo{}, fmt.Errorf("lock information nested more than %d deep: %w", maxLockInfoDepth, oci.ErrTooLarge)
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
	var info LockInfo
	if err := json.Unmarshal(b, &info); err != nil {
		return LockInfo{}, fmt.Errorf("lock information: %w", err)
	}
	return info, nil
}

// shown returns what a stranger wrote in a form that can be shown.
func (i LockInfo) shown() LockInfo {
	i.ID = ShownID(i.ID)
	for _, s := range [...]*string{&i.Operation, &i.Info, &i.Who, &i.Version, &i.Path} {
		*s = text.Line(*s)
	}
	return i
}

// NewLockManifest encodes a claim, a tombstone or a marker.
func NewLockManifest(l LockManifest) (oci.Manifest, error) {
	ann := map[string]string{
		AnnStateWorkspace: l.Workspace,
		annLockKind:       string(l.Kind),
		annLockID:         l.Info.ID,
		annLockNonce:      l.Nonce,
		annLockReason:     string(l.Reason),
		annLockWho:        l.Who,
		annLockRoot:       l.Root,
	}
	if l.Kind == KindClaim {
		info, err := json.Marshal(l.Info)
		if err != nil {
			return oci.Manifest{}, fmt.Errorf("encoding lock information: %w", err)
		}
		if len(info) > MaxLockInfo {
			return oci.Manifest{}, fmt.Errorf("lock information of %d bytes: %w", len(info), oci.ErrTooLarge)
		}
		ann[annLockInfo] = string(info)
	}
	if l.Fence > 0 {
		ann[annLockFence] = strconv.FormatInt(l.Fence, 10)
	}
	if !l.Heartbeat.IsZero() {
		ann[annLockHeartbeat] = l.Heartbeat.UTC().Format(time.RFC3339) + " " + l.TTL.String()
	}
	if !l.Created.IsZero() {
		ann[ocispec.AnnotationCreated] = l.Created.UTC().Format(time.RFC3339)
	}
	for k, v := range ann {
		if v == "" {
			delete(ann, k)
		}
	}
	return artifact.NewBare(artifactLock, ann)
}

// ParseLock reads any lock manifest. What it says of its holder is the word of
// whoever may write to the registry, and is returned as it can be shown. Of older tools' manifests only the lock
// information is known, and Nonce is empty.
func ParseLock(m oci.Manifest) (LockManifest, error) {
	img, err := m.Image()
	if err != nil {
		return LockManifest{}, err
	}
	ann := img.Annotations
	r := annotationReader{ann: ann}
	l := LockManifest{
		Manifest:  m.Descriptor,
		Kind:      LockKind(ann[annLockKind]),
		Workspace: ann[AnnStateWorkspace],
		Fence:     r.int(annLockFence),
		Nonce:     ann[annLockNonce],
		Root:      ann[annLockRoot],
		Reason:    LockReason(text.Line(ann[annLockReason])),
		Who:       text.Line(ann[annLockWho]),
		Created:   r.time(ocispec.AnnotationCreated),
	}
	if r.err != nil {
		return LockManifest{}, fmt.Errorf("manifest %s: %w", m.Digest, r.err)
	}
	var heartbeat, ttl string
	if n, _ := fmt.Sscan(ann[annLockHeartbeat], &heartbeat, &ttl); n == 2 {
		l.Heartbeat, _ = time.Parse(time.RFC3339, heartbeat)
		l.TTL, _ = time.ParseDuration(ttl)
	}
	info := ann[annLockInfo]
	if info == "" {
		info = ann[annOldLockInfo]
	}
	if info != "" {
		l.Info, err = ParseLockInfo([]byte(info))
	}
	if err != nil && !errors.Is(err, oci.ErrTooLarge) {
		return LockManifest{}, fmt.Errorf("manifest %s: %v: %w", m.Digest, err, oci.ErrCorrupt)
	}
	for _, key := range [...]string{annLockID, annOldLockID} {
		if l.Info.ID == "" {
			l.Info.ID = ann[key]
		}
	}
	l.Info = l.Info.shown()
	return l, nil
}
