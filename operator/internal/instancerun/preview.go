// SPDX-License-Identifier: Apache-2.0

package instancerun

import (
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
)

// Preview is what Flux runs for an attempt, without what is prepared for it, and the run
// as okara serve knows it. It makes no request.
func (o Options) Preview(a instancectl.Attempt) (fluxexec.Spec, runaccess.Run, error) {
	x := New(o)
	s, err := x.spec(a)
	return s, x.access(a, s), err
}

// CopyOf is the Secret of an instance that has what one of the operator's has.
func CopyOf(credential string) string { return copyOf(credential) }
