// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"context"

	"github.com/seed-141914ff/okara/internal/instance"
)

// Store is where records live.
type Store interface {
	// View returns the document as it was committed last.
	View(ctx context.Context) (instance.View, error)
	// Do returns when the command is kept, or refused: errors of
	// [instance.Machine.Step], and instance.ErrNoLeader where it is not known
	// whether it was kept; then it may be sent again under its key.
	Do(ctx context.Context, c instance.Command) (instance.Answer, error)
}
