// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/runtest"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// twoMinds is a registry with inconsistent answers: after a claim was read, the next list
// does not have it.
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

// TestTakeLockPauses takes over a lock that is held when it is requested and gone when it
// is released: it waits between two tries, and gives up at last.
func TestTakeLockPauses(t *testing.T) {
	tr := newTrial(t, ocitest.New(t, ocitest.Quirks{}), runtest.Script{}.Module())
	lost := tr.order.Spec.Ref
	must.Get(tr.Store.Lock(t.Context(), "default", statebackend.LockInfo{ID: run.LockID(lost), Operation: operation}))(t)
	tr.order.Spec.Took = run.LockID(lost)
	c := tr.next()
	via := &twoMinds{}
	tr.through(c, via)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // in case it never gives up
	defer cancel()
	err := takeLock(ctx, c)
	if stopped, ok := errors.AsType[*stopError](err); !ok || stopped.outcome != lifecycle.Held {
		t.Errorf("%v after %d lists, want that it ends as held", err, via.lists)
	}
	if limit := int(2 * 2 * c.pace.held / c.pace.pause); via.lists > limit {
		t.Errorf("%d lists, want at most %d", via.lists, limit)
	}
}

// inMemory answers from a handler in this process.
type inMemory struct{ http.Handler }

func (h inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	h.ServeHTTP(w, in)
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

// TestTakeLockAbandoned meets a claim that the registry lists but cannot return, because
// its deletion was interrupted. A claim of the attempt before is removed at once, any
// other after the time for abandoned claims.
func TestTakeLockAbandoned(t *testing.T) {
	tr := newTrial(t, ocitest.New(t, ocitest.Quirks{}), runtest.Script{}.Module())
	lost := run.LockID(tr.order.Spec.Ref)
	sum := sha256.Sum256([]byte(lost))
	tr.pace.held, tr.pace.pause = time.Minute, 10*time.Second
	for _, tc := range []struct {
		name, x string
		soon    bool
	}{
		{"own", hex.EncodeToString(sum[:4]) + "00000001", true},
		{"another's", "0123456789abcdef", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := tr.next()
			c.Order.Spec.Took = lost
			g := &ocitest.DanglingTags{Handler: ocitest.Handler(t, ocitest.Quirks{})}
			tr.through(c, inMemory{g})
			repository := c.repo.Repo.Name()
			tag := format.StateTag{Kind: format.LockClaim, Fragment: format.StateFragment("default"), N: 1, X: tc.x}
			g.Add(repository, tag.String())
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				must.Succeed(t, takeLock(t.Context(), c))
				if took := time.Since(begin); tc.soon != (took < time.Minute) {
					t.Errorf("it took %s", took)
				}
				if err := c.lock.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestErroredOfPlans: only runs that change something leave a state, even if the module
// writes a file of that name.
func TestErroredOfPlans(t *testing.T) {
	for kind, keeps := range map[lifecycle.RunKind]bool{lifecycle.RunApply: true, lifecycle.RunDestroy: true, lifecycle.RunPlan: false, lifecycle.RunDrift: false} {
		tr := newTrial(t, ocitest.New(t, ocitest.Quirks{}), runtest.Script{"init": {{Write: [2]string{sandbox.ErroredFile, "{}"}}}}.Module())
		tr.order.Spec.Ref.Kind = kind
		tr.run()
		if got := sandbox.FindErrored(tr.order.Scratch) != ""; got != keeps {
			t.Errorf("%s: kept: %v", kind, got)
		}
	}
}
