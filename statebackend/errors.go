// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
)

var (
	// ErrLockLost says that a lock was taken over, forced or removed while its owner still ran. The
	// wrapping error names the version that keeps the bytes, if they were written.
	ErrLockLost = errors.New("lock lost")
	// ErrStale says that a state has another lineage than the stored one, or no higher serial.
	ErrStale = errors.New("state does not follow the stored one")
	// ErrUnsafe says that locking is refused on this registry.
	ErrUnsafe = errors.New("locking refused")
	// ErrReplica says that a repository is a read-only copy of another one.
	ErrReplica = errors.New("repository is a replica")
	// ErrUnsealed says that despite keys a version is in clear, or sealed for another place.
	ErrUnsealed = errors.New("not encrypted for this location")

	errNoKey = errors.New("it is encrypted and no key is configured")
)

type lostKind string

const (
	// ErrLockEnded says that there is a tombstone of the id: from a forced unlock or takeover, or
	// from its release where the registry does not delete. It is an ErrLockLost.
	ErrLockEnded = lostKind("lock no longer held")
	// ErrNotHeld says that a lock was never taken, or released and deleted. It is an ErrLockLost.
	ErrNotHeld = lostKind("not held")
)

func (e lostKind) Error() string        { return string(e) }
func (e lostKind) Is(target error) bool { return target == ErrLockLost }

// LockedError says that another client holds the lock.
type LockedError struct {
	Held       LockInfo
	Workspace  string
	Repository string
	Tag        string        // of the claim; "": an older tool's marker
	Since      time.Duration // age of the lock; 0: unknown
	// Unreadable says that the claim is listed, but reading it answers not found: it was released
	// in between, or never acknowledged; then attempts that go on for a minute end it.
	Unreadable bool

	gone      bool // no known holder
	expired   bool // the lease has expired
	abandoned bool // the claim was unreadable for long enough to be ended
	orphan    bool // the claim joined a lock that has ended
}

func (e *LockedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "workspace %q in %s is locked", e.Workspace, e.Repository)
	h := e.Held
	if h.Who != "" {
		fmt.Fprintf(&b, " by %s", h.Who)
	}
	if !h.Created.IsZero() {
		fmt.Fprintf(&b, " since %s (%s ago)", h.Created.UTC().Format(time.RFC3339), e.Since.Round(time.Second))
	}
	for _, part := range [...]struct{ name, value string }{
		{"operation", Version{Operation: h.Operation}.Why()}, {"run", h.Info}, {"lock id", h.ID},
	} {
		if part.value != "" {
			fmt.Fprintf(&b, ", %s %s", part.name, part.value)
		}
	}
	return b.String()
}

// endText says who ended a lock, when and why.
func endText(by format.LockManifest) string {
	var b strings.Builder
	if b.WriteString("the lock was taken over"); by.Reason == format.ReasonReleased {
		b.Reset()
		b.WriteString("the lock was released")
	}
	if !by.Created.IsZero() {
		fmt.Fprintf(&b, " at %s", by.Created.UTC().Format(time.RFC3339))
	}
	if by.Who != "" {
		fmt.Fprintf(&b, " by %s", by.Who)
	}
	if by.Reason != "" && by.Reason != format.ReasonReleased {
		fmt.Fprintf(&b, " (%s)", by.Reason)
	}
	return b.String()
}

// lostError says how a lock was lost, which version keeps the bytes and what became of it.
func lostError(repository, workspace string, kept int64, how, what string) error {
	return &RemediedError{
		Remedy{Kind: RemedyRestore, Repository: repository, Workspace: workspace, Version: kept},
		fmt.Errorf("workspace %q in %s: %s; your state was saved as version %d, %s: %w", workspace, repository, how, kept, what, ErrLockLost),
	}
}

// VersionError is about a version that a workspace does not have. It is an oci.ErrNotFound.
type VersionError struct {
	Repository, Workspace string
	N, Newest             int64
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("workspace %q of %s has no version %d, the newest is %d", e.Workspace, e.Repository, e.N, e.Newest)
}

func (e *VersionError) Unwrap() error { return oci.ErrNotFound }

// RemedyKind says what may resolve an error.
type RemedyKind int

// The kinds of remedies. The zero kind has no remedy, only a cause.
const (
	RemedyRestore RemedyKind = iota + 1 // compare with Version, which keeps the state that was not written, and restore it
	RemedyReseal                        // continue to replicate, but seal for the copy
	RemedyPromote                       // take over the copy, once nothing writes to its source
	RemedyGoBack                        // take over the workspace, to continue from the version before Version
	RemedyProbe                         // examine the registry, or lock in spite of the finding
	RemedySeal                          // seal the states that were never sealed, once
	RemedyDecrypt                       // open a version regardless of where it was found
	RemedyPrimary                       // name the original of a copy, or open the version
	RemedyKey                           // configure the key of Version
	RemedyUnlock                        // end Lock, whose holder could not release it
	RemedyAdopt                         // make Copy a copy of Repository although it has other versions, if Repository is the authoritative one
)

// Remedy is what may resolve an error. The user interface says how to carry it out.
type Remedy struct {
	Kind                  RemedyKind
	Repository, Workspace string
	Version               int64
	Copy                  string // the repository that is to become a copy
	Lock                  string // the lock id
	Cause                 string // a possible cause of the error; empty where the error names it
}

// RemediedError is an error with a [Remedy]. A [LockedError] has one without being wrapped in this.
type RemediedError struct {
	Remedy Remedy
	err    error
}

func (e *RemediedError) Error() string { return e.err.Error() }
func (e *RemediedError) Unwrap() error { return e.err }
