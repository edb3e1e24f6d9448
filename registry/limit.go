// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/seed-141914ff/okara/internal/service"
)

const (
	// openTimeout is how long the registry may take to start sending a blob, including all
	// attempts: a hanging registry must not occupy all download slots.
	openTimeout = 30 * time.Second
	// maxStreams bounds the concurrent downloads.
	maxStreams = 512
	// maxHooks and maxLargeHooks bound the webhooks whose body is in memory.
	maxHooks, maxLargeHooks = 64, 8
)

// answerWithin returns a context that ends with ctx, or after d unless answered is called before,
// which takes the error of the operation and returns the error to report.
func answerWithin(ctx context.Context, d time.Duration) (_ context.Context, answered func(error) error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(d, cancel)
	return ctx, func(err error) error {
		if err == nil {
			late.Stop() // the context now belongs to the body
			return nil
		}
		if !late.Stop() {
			err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
		}
		cancel()
		return err
	}
}

// readJSON decodes the body of a request, which may have at most limit bytes.
func readJSON(r *http.Request, limit int64, to any) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return &service.Error{Status: http.StatusBadRequest, Text: fmt.Sprintf("the request ended early after %d bytes", len(body))}
	}
	if int64(len(body)) > limit {
		return &service.Error{Status: http.StatusRequestEntityTooLarge, Text: fmt.Sprintf("more than %d bytes", limit)}
	}
	if err := json.Unmarshal(body, to); err != nil {
		return unprocessableError(fmt.Errorf("read the request: %w", err))
	}
	return nil
}
