// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of [Machine.Step] and of checks, besides [template.ErrInvalid]. Refusals wrap
// one of them.
var (
	ErrNotFound  = errors.New("no such instance")
	ErrPhase     = errors.New("not in this phase") // the instance cannot do this now
	ErrExtends   = errors.New("cannot be extended further")
	ErrNoEnd     = errors.New("the instance has no end")
	ErrStalePlan = errors.New("the plan changed since you looked at it")
	ErrProtected = errors.New("the instance is protected")
	ErrDenied    = errors.New("not allowed")
	ErrKeyReused = errors.New("the key was used for another request")
	ErrPoolEmpty = errors.New("the pool is empty")
	ErrPaused    = errors.New("the template is paused")
	ErrExists    = errors.New("the owner has an instance with other values")
	ErrFull      = errors.New("no more instances fit")
	ErrNoLeader  = errors.New("no leader answers") // of the store
)

// refusal is an error of one of the kinds above with its own text.
type refusal struct {
	kind error
	text string
}

func (e *refusal) Error() string { return e.text }
func (e *refusal) Unwrap() error { return e.kind }

func refuse(kind error, format string, args ...any) error {
	return &refusal{kind: kind, text: fmt.Sprintf(format, args...)}
}

// QuotaError refuses what would exceed a limit, or reports how much of one is used.
type QuotaError struct {
	Limit, Used int
	What        string   // holder of the limit: you, group g, template t
	Of          string   // template that the limit counts; "": more than one
	IDs         []string // live instances that count, sorted; nil for a template's limit
}

func (e *QuotaError) Error() string {
	has := " has "
	if e.What == "you" {
		has = " have "
	}
	text := fmt.Sprintf("%s%s%d of %d instances", e.What, has, e.Used, e.Limit)
	if e.Of != "" && e.What != "template "+e.Of {
		text += " of " + e.Of
	}
	if ids := e.IDs; len(ids) > 10 {
		return text + ": " + strings.Join(ids[:10], ", ") + ", …"
	} else if len(ids) > 0 {
		return text + ": " + strings.Join(ids, ", ")
	}
	return text
}
