// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/instance"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/statebackend"
)

// twoMinds is a registry whose answers differ: who has just read a claim is told
// by the next list that there is none.
type twoMinds struct {
	lists int
	read  bool
}

func (m *twoMinds) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case strings.Contains(r.URL.Path, "/manifests/locked-"):
		m.read = true
	case strings.HasSuffix(r.URL.Path, "/tags/list"):
		m.lists++
		if m.read {
			m.read = false
			return ocitest.Respond("application/json", `{"name":"x","tags":[]}`)(r, nil)
		}
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestTakeLockPauses takes over a lock that is held when it asks for it and is not
// there when it ends it: it waits between two looks, and gives up at last.
func TestTakeLockPauses(t *testing.T) {
	tr := newTrial(t, ocitest.New(t, ocitest.Quirks{}), script(stubScript{}))
	lost := tr.order.Spec.Ref
	if _, err := tr.store.Lock(t.Context(), "default", statebackend.LockInfo{ID: LockID(lost), Operation: operation}); err != nil {
		t.Fatal(err)
	}
	tr.order.Spec.Took = LockID(lost)
	c := tr.next()
	via := &twoMinds{}
	tr.through(c, via)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // for who never gives up
	defer cancel()
	err := c.takeLock(ctx)
	if stopped, ok := errors.AsType[*stopError](err); !ok || stopped.outcome != instance.Held {
		t.Errorf("%v after %d lists, want that it ends as held", err, via.lists)
	}
	if most := int(2 * 2 * c.pace.held / c.pace.pause); via.lists > most {
		t.Errorf("%d lists, want at most %d", via.lists, most)
	}
}
