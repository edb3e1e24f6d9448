// SPDX-License-Identifier: Apache-2.0

package site

import (
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/service"
)

const (
	maxRenders       = 8 // of one replica
	maxCallerRenders = 2 // of one caller; all callers without a token count as one
)

// RenderLimiter bounds the concurrent work on large input that is not cached: archives,
// docs, states, comparisons. A caller over the limit gets a 503 to try again, instead of
// waiting on an open connection.
type RenderLimiter struct{ limiter *service.Limiter[string] }

// NewRenderLimiter returns a limiter without work.
func NewRenderLimiter() RenderLimiter {
	return RenderLimiter{service.NewLimiter[string](service.Limits{Total: maxRenders, Share: maxCallerRenders})}
}

// Do calls render if the limiter has a place for the caller.
func (c RenderLimiter) Do(caller access.Caller, render func() error) error {
	release, ok := c.limiter.Acquire(caller.Mode+"\n"+caller.Issuer+"\n"+caller.Subject, 1)
	if !ok {
		return service.TooMany("large pages")
	}
	defer release()
	return render()
}
