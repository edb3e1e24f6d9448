// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"context"

	"github.com/seed-141914ff/okara/instances/lifecycle"
)

// Store is where records live.
type Store interface {
	// View returns the document as it was committed last.
	View(ctx context.Context) (lifecycle.View, error)
	// Do returns when the command is kept, or refused: errors of
	// [lifecycle.Machine.Step], and lifecycle.ErrNoLeader where it is not known
	// whether it was kept; then it may be sent again under its key.
	Do(ctx context.Context, c lifecycle.Command) (lifecycle.Answer, error)
}
