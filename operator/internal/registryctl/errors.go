// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/scan"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

func asProblem(err error) (*verdict.Problem, bool) { return errors.AsType[*verdict.Problem](err) }

// defaultPause is for an origin at its limit that names no pause; a longer one than maxPause is
// cut.
const (
	defaultPause = 10 * time.Minute
	maxPause     = 24 * time.Hour
)

// limitText is the same for every try, so that the status does not change.
const limitText = "the rate limit of the origin is reached: it is retried later"

// pauseOf returns how long the origin must not be asked after an error of a rate limit.
func pauseOf(err error) (time.Duration, bool) {
	if limit, ok := errors.AsType[*limitError](err); ok {
		return limit.pause, true
	}
	if !errors.Is(err, oci.ErrRateLimited) {
		return 0, false
	}
	pause, _ := upstream.RateLimitPause(err)
	if answer, ok := errors.AsType[*oci.ResponseError](err); ok {
		pause = max(pause, answer.RetryAfter)
	}
	if pause <= 0 {
		pause = defaultPause
	}
	return min(pause, maxPause), true
}

// limitError says that a run of another entry hit the limit of the origin.
type limitError struct{ pause time.Duration }

func (e *limitError) Error() string { return limitText }

// soonError says that a run was requested too soon after the last one.
type soonError struct{ wait time.Duration }

func (e *soonError) Error() string {
	return "the last run ended less than " + requestPause.String() + " ago"
}

// problemOf turns an error that another try cannot cure into a *verdict.Problem.
func problemOf(err error) error {
	if taken, ok := errors.AsType[*supply.OwnerError](err); ok {
		return &verdict.Problem{Reason: v1alpha1.ReasonAddressTaken, Message: fmt.Sprintf(
			"%s has versions of another namespace, perhaps of an earlier one of this name: an administrator can let this one take them over with %s=%s, or assign the address to it for good with %s",
			taken.Entry, v1alpha1.AnnotationTakeOver, taken.Owner, v1alpha1.AnnotationAddresses)}
	}
	if errors.Is(err, scan.ErrMissing) {
		return &verdict.Problem{Reason: v1alpha1.ReasonScannerMissing, Message: "spec.scan: the operator's scanner was not found: " + err.Error()}
	}
	if inside, ok := errors.AsType[*upstream.InsideError](err); ok {
		return &verdict.Problem{Reason: v1alpha1.ReasonSourceNotAllowed, Message: inside.Host + " is not a public address: an administrator can allow it with --allow-origin"}
	}
	return err
}

// refusalProblem turns the refusal of an origin into a *verdict.Problem: its source has to change.
func refusalProblem(err error) error {
	if errors.Is(err, oci.ErrDenied) || errors.Is(err, oci.ErrUnsupported) {
		return &verdict.Problem{Reason: v1alpha1.ReasonSourceNotAllowed, Message: err.Error()}
	}
	return err
}

// strictOrigins makes refusals by these origins a *verdict.Problem.
func strictOrigins(from supply.Origins) supply.Origins {
	permit := from.Permit
	open := from.Open
	registry := from.Registry
	provider := from.Provider
	from.Permit = func(l upstream.Location) error { return refusalProblem(permit(l)) }
	from.Open = func(reference string) (*oci.Repo, error) {
		r, err := open(reference)
		return r, refusalProblem(err)
	}
	from.Registry = func(host string, m addr.Module) (*upstream.ModuleRegistry, error) {
		r, err := registry(host, m)
		return r, refusalProblem(err)
	}
	from.Provider = func(origin string, p addr.Provider) (depot.Source, error) {
		s, err := provider(origin, p)
		return s, refusalProblem(err)
	}
	return from
}

// verdictOf is the verdict on an error: only a *verdict.Problem needs a user to act.
func verdictOf(err error) verdict.Verdict {
	if p, ok := asProblem(err); ok {
		return p.Verdict()
	}
	if errors.Is(err, errSuspended) {
		return verdict.Verdict{State: verdict.Held, Reason: v1alpha1.ReasonSuspended, Message: err.Error()}
	}
	if _, limited := pauseOf(err); limited {
		return verdict.Verdict{State: verdict.Failing, Reason: v1alpha1.ReasonRateLimited, Message: limitText}
	}
	v := verdict.Verdict{State: verdict.Failing, Reason: v1alpha1.ReasonFailed, Message: err.Error()}
	if missing, ok := errors.AsType[*secretError](err); ok && apierrors.IsNotFound(missing.err) {
		v.Reason = v1alpha1.ReasonSecretMissing
	}
	return v
}

// secretError says that a Secret could not be read.
type secretError struct{ err error }

func (e *secretError) Error() string { return "auth.secretRef: " + e.err.Error() }
func (e *secretError) Unwrap() error { return e.err }
