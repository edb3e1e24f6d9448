// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/text"
)

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := text.Wait(ctx, 40*time.Second); err != nil {
			t.Errorf("within the time: %v", err)
		}
		if err := text.Wait(ctx, 40*time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("beyond the time: %v", err)
		}
	})
}
