// SPDX-License-Identifier: Apache-2.0

package backendblock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/statebackend"
)

// Backend holds one block's arguments after defaults, environment, flags; zero is the default.
type Backend struct {
	Repository    string // HOST[:PORT]/PATH, may contain {workspace}
	Primary       string // the original of Repository, if that is a copy; "": it is not
	Replicas      []string
	CAFile        string
	Insecure      bool
	PlainHTTP     bool
	Compression   string // "", "zstd", "gzip" or "none"
	StrictReads   bool
	UnsafeLocking bool
	LockTimeout   time.Duration // how long to wait for a lock; 0: not at all
	LockTTL       time.Duration
	LockSettle    time.Duration
	MaxVersions   int // 0 keeps all
	Encryption    []Encryption
	Retry         Retry
}

// Encryption is an encryption block: a key that wraps data keys, or only opens them.
type Encryption struct {
	Type     string // "" or "aes-gcm"
	KeyID    string // a KMS URL, an age recipient, or the path of a key file
	Identity string // path of an age identity file that opens what KeyID sealed
}

// Retry is the retry block: repetitions of requests to the registry.
type Retry struct {
	MaxAttempts    int
	InitialBackoff time.Duration
	MaxBackoff     time.Duration
}

// keptWhenDisabled versions remain without versioning: the current one and the one to go back to.
const keptWhenDisabled = 2

// Each reports whether each workspace has a separate repository.
func (b Backend) Each() bool { return strings.Contains(b.Repository, statebackend.WorkspaceVariable) }

// ForWorkspace returns the settings with {workspace} replaced by the name.
func (b Backend) ForWorkspace(name string) Backend {
	b.Repository = strings.ReplaceAll(b.Repository, statebackend.WorkspaceVariable, name)
	b.Primary = strings.ReplaceAll(b.Primary, statebackend.WorkspaceVariable, name)
	return b
}

// ReplicateLimit bounds what a run spends on replicas; the rest is left to later ones.
const ReplicateLimit = 5 * time.Minute

// Replicate updates a workspace's replicas. Errors name those behind; they fail no run.
func (b Backend) Replicate(ctx context.Context, workspace string, open func(Backend) (*statebackend.Store, error)) []error {
	var errs []error
	for _, replica := range b.Replicas {
		if err := b.copyTo(ctx, replica, workspace, open); err != nil {
			errs = append(errs, b.behindError(err, replica))
		}
	}
	return errs
}

// behindError wraps an error with its remedy: the next run, or what the error itself says.
func (b Backend) behindError(err error, replica string) error {
	if errors.Is(err, statebackend.ErrReplica) {
		return fmt.Errorf("the replica is behind: %w", err)
	}
	return fmt.Errorf("the replica is behind: %w\nhint: the next run updates it, or run `okara state replicate %s %s`", err, b.Repository, replica)
}

func (b Backend) copyTo(ctx context.Context, replica, workspace string, open func(Backend) (*statebackend.Store, error)) error {
	from, err := open(b.ForWorkspace(workspace))
	if err != nil {
		return err
	}
	target := b
	target.Repository = replica
	target.Primary = ""
	to, err := open(target.ForWorkspace(workspace))
	if err != nil {
		return err
	}
	_, err = from.Replicas().Replicate(ctx, to, workspace)
	return err
}
