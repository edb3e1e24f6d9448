// SPDX-License-Identifier: Apache-2.0

package instance

import "errors"

// Errors of [Machine.Step] and of checks. What refuses is wrapped around them.
var (
	ErrNotFound  = errors.New("no such instance")
	ErrInvalid   = errors.New("invalid")           // a [*FieldError] tells where
	ErrPhase     = errors.New("not in this phase") // the instance cannot do this now
	ErrExtends   = errors.New("cannot be extended further")
	ErrNoEnd     = errors.New("the instance has no end")
	ErrStalePlan = errors.New("the plan changed since you looked at it")
	ErrProtected = errors.New("the instance is protected")
	ErrDenied    = errors.New("not allowed")
	ErrKeyReused = errors.New("the key was used for another request")
	ErrPoolEmpty = errors.New("the pool is empty")
	ErrPaused    = errors.New("the template is paused")
	ErrFull      = errors.New("no more instances fit")
	ErrNoLeader  = errors.New("no leader answers") // of the store
)

// QuotaError refuses what would go beyond a limit.
type QuotaError struct {
	Limit, Used int
	What        string   // whose limit: you, group g, template t, pool p
	IDs         []string // live instances that count
}

func (e *QuotaError) Error() string { return "quota of " + e.What + " used up" }

// FieldError says what is wrong with one value.
type FieldError struct {
	Path string // JSON Pointer (RFC 6901), such as /size
	Text string
}

func (e *FieldError) Error() string { return e.Path + ": " + e.Text }
func (e *FieldError) Unwrap() error { return ErrInvalid }
