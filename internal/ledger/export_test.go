// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"time"

	"github.com/seed-141914ff/okara/internal/instance"
)

// SetStep has commands judged by something smaller than the machine.
func SetStep(l *Ledger, step func(*instance.Document, instance.Command, time.Time) (*instance.Document, []instance.Effect, instance.Answer, error)) {
	l.step = step
}
