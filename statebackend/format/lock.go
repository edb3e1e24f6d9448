// SPDX-License-Identifier: Apache-2.0

package format

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Types of lock manifests. Only older tools write a mediaLockInfo layer; okara uses an annotation.
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
	annLockBeside    = "vnd.okara.lock.beside"
	annLockCaller    = "vnd.okara.lock.caller"

	// Older tools put the lock information here.
	annOldLockID   = "org.terraform.lock.id"
	annOldLockInfo = "org.terraform.lock.info"
)

// MaxLockInfo bounds lock information, in bytes; the tools send a few hundred.
const MaxLockInfo = 4 << 10

// LockKind is the kind of a lock manifest.
type LockKind string

// The kinds of lock manifests. Older tools write the empty kind.
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
	ReasonAbandoned LockReason = "ghost"    // listed, but its GET answered 404 for too long
	ReasonRefused   LockReason = "refused"  // its client got the answer that the lock is held
	ReasonOrphan    LockReason = "orphaned" // the lock that the claim joined has ended
)

// IsTakeover reports whether another client ended the claim while its holder may still work.
// Who asks adds what the reason does not say: [ReasonAbandoned] has ended a claim that nobody
// could read, [ReasonOrphan] one whose lock may be held.
func (r LockReason) IsTakeover() bool { return r == ReasonForced || r == ReasonExpired }

// LockInfo describes the holder of a lock, in the field names of OpenTofu and Terraform.
type LockInfo struct {
	ID        string
	Operation string
	Info      string
	Who       string
	Version   string
	Created   time.Time
	Path      string
	Caller    string `json:"-"` // of the server that took the lock, "": none; a claim has it beside the rest
}

// LockManifest is the content of a claim, a tombstone or a marker.
type LockManifest struct {
	Manifest  oci.Descriptor
	Kind      LockKind
	Workspace string
	Info      LockInfo
	Fence     int64
	Heartbeat time.Time // by the registry's clock; zero without a lease
	TTL       time.Duration
	Nonce     string // empty: not written by okara
	Root      string // tag of the claim by which the same client won before; "": this one
	Beside    string // tag of the oldest claim of the id that was live when this one was made; "": none, or Root is set
	Reason    LockReason
	Who       string // who ended the claim
	Created   time.Time
}

// ClaimX returns the end of a claim's tags: 8 hex digits of the lock id's hash, by which the claim
// is found again, and 8 that distinguish attempts.
func ClaimX(lockID string, attempt uint32) string {
	return shortHash(lockID, 8) + fmt.Sprintf("%08x", attempt)
}

// IDOfClaim returns the part of a claim's x that all claims of one lock id share.
func IDOfClaim(x string) string { return x[:min(len(x), 8)] }

// ClaimOf reports whether x is of a claim of that lock id, or of one whose [ShownID] is lockID.
func ClaimOf(x, lockID string) bool {
	if len(x) != 16 {
		return false
	}
	hashed := len(lockID) == sha256.Size*2 && strings.Trim(lockID, "0123456789abcdef") == ""
	return x[:8] == shortHash(lockID, 8) || hashed && x[:8] == lockID[:8]
}

// maxShownID bounds an id that is shown unchanged; those of the tools have 36 characters.
const maxShownID = 128

// idPattern matches text that no shell and no terminal interprets.
var idPattern = text.Pattern(`^[A-Za-z0-9._-]*$`)

// ShownID returns the form in which another client's lock id is shown, since users paste it:
// unchanged, or its hexadecimal SHA-256 if it has characters other than A-Z a-z 0-9 . _ -.
func ShownID(lockID string) string {
	if len(lockID) <= maxShownID && idPattern().MatchString(lockID) {
		return lockID
	}
	return shortHash(lockID, sha256.Size*2)
}

// maxLockInfoDepth bounds the nesting of unknown members; the tools' members do not nest.
const maxLockInfoDepth = 16

// ParseLockInfo reads JSON; above [MaxLockInfo], or nested over 16 deep, it is [oci.ErrTooLarge].
func ParseLockInfo(b []byte) (LockInfo, error) {
	if len(b) > MaxLockInfo {
		return LockInfo{}, fmt.Errorf("lock information of %d bytes: %w", len(b), oci.ErrTooLarge)
	}
	if text.Levels(b) > maxLockInfoDepth {
		return LockInfo{}, fmt.Errorf("lock information nested more than %d deep: %w", maxLockInfoDepth, oci.ErrTooLarge)
	}
	var info LockInfo
	if err := json.Unmarshal(b, &info); err != nil {
		return LockInfo{}, fmt.Errorf("lock information: %w", err)
	}
	return info, nil
}

// shownInfo returns untrusted lock information in a form that is safe to display.
func (i LockInfo) shownInfo() LockInfo {
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
		annLockBeside:     l.Beside,
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
		ann[annLockCaller] = l.Info.Caller
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
	maps.DeleteFunc(ann, isEmpty)
	return artifact.NewBare(artifactLock, ann)
}

// ParseLock reads any lock manifest. Any account that may write can forge the holder's description,
// so it is made safe to display. For older tools only the lock information is set, and Nonce empty.
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
		Fence:     r.readInt(annLockFence),
		Nonce:     ann[annLockNonce],
		Root:      ann[annLockRoot],
		Beside:    ann[annLockBeside],
		Reason:    LockReason(text.Line(ann[annLockReason])),
		Who:       text.Line(ann[annLockWho]),
		Created:   r.readTime(ocispec.AnnotationCreated),
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
	l.Info.Caller = ann[annLockCaller]
	l.Info = l.Info.shownInfo()
	return l, nil
}
