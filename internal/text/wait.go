// SPDX-License-Identifier: Apache-2.0

package text

import (
	"context"
	"time"
)

// Wait waits for d. If ctx ends before, it returns the error of ctx.
func Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
