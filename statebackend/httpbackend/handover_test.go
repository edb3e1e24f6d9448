// SPDX-License-Identifier: Apache-2.0

package httpbackend_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/httpbackend"
)

// replicas are servers on one registry that share nothing else. They are called
// without a network, so that waits take no time in a synctest bubble.
type replicas struct {
	t       *testing.T
	servers []http.Handler
}

func newReplicas(t *testing.T, n int, transport func(server int) http.RoundTripper) *replicas {
	t.Helper()
	r := &replicas{t: t}
	for i := range n {
		repo := must.Get(oci.OpenRepo("registry.test/infra/state", oci.Options{PlainHTTP: true, Transport: transport(i), Retry: oci.Retry{MaxAttempts: 1}}))(t)
		store := statebackend.New(repo, statebackend.Options{Tool: "test", StrictReads: true})
		r.servers = append(r.servers, httpbackend.New(httpbackend.Options{Open: func(context.Context, string) (*statebackend.Store, error) { return store, nil }}))
	}
	return r
}

// ask sends a request to one server.
func (r *replicas) ask(server int, method, query, body string) (int, string) {
	req := httptest.NewRequest(method, "/state/app/default?"+query, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	r.servers[server].ServeHTTP(w, req)
	return w.Code, w.Body.String()
}

// persist sends a request up to four times, as both tools do after 429 and 5xx.
func (r *replicas) persist(server func() int, method, query, body string) (status int, answer string) {
	for range 4 {
		if status, answer = r.ask(server(), method, query, body); status < 500 && status != http.StatusTooManyRequests {
			return status, answer
		}
		time.Sleep(time.Second)
	}
	return status, answer
}

// TestFaultMatrix breaks every request to the registry once, in every way, while one
// run locks through one server, writes through another and unlocks through the first.
// The run succeeds or gets an error, and its lock never stays.
//
// Shows: servers 3 | each request to the registry fails once (before or after it took effect,
// repeated, late, refused): a run with `http`, an apply through the wrapper
func TestFaultMatrix(t *testing.T) {
	acts := []struct {
		name string
		do   ocitest.Act
	}{
		{"lost before", ocitest.FailBefore},
		{"answer lost", ocitest.FailAfter},
		{"503", ocitest.Status(503, -1)},
		{"500 after", ocitest.StatusAfter(500)},
		{"429", ocitest.Status(429, 1)},
		{"refused", ocitest.Refuse},
		{"twice", ocitest.Twice},
		{"late", nil},
	}
	for _, servers := range []int{1, 2} {
		for _, act := range acts {
			var row strings.Builder
			for nth := 1; ; nth++ {
				outcome, hit := faultyRun(t, servers, nth, act.do)
				if !hit {
					t.Logf("%d servers, %-11s at request 1 to %2d: %s", servers, act.name, nth-1, row.String())
					break
				}
				row.WriteString(outcome + " ")
			}
		}
	}
}

// faultyRun is one run whose nth request to the registry fails; false if it has fewer.
// The outcome is "ok" or the request that was refused, with the answer.
func faultyRun(t *testing.T, servers, nth int, do ocitest.Act) (outcome string, hit bool) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		base := ocitest.Direct{Handler: h}
		fault, deliver := oneFault(base, nth, do)
		r := newReplicas(t, servers, func(int) http.RoundTripper { return fault })
		outcome = r.run(t)
		hit = fault.Seen() >= nth
		deliver()
		clean := newReplicas(t, 1, func(int) http.RoundTripper { return base })
		clean.nextRun(t, fmt.Sprintf("fault %d, %s", nth, outcome), strings.HasPrefix(outcome, "ok"))
	})
	return outcome, hit
}

// oneFault breaks the nth request or, if do is nil, delays it, at most until deliver is
// called.
func oneFault(base http.RoundTripper, nth int, do ocitest.Act) (fault *ocitest.Fault, deliver func()) {
	if do == nil {
		late, deliver := ocitest.Late()
		return &ocitest.Fault{Base: base, Nth: nth, Times: -1, Do: late}, deliver
	}
	return &ocitest.Fault{Base: base, Nth: nth, Do: do}, func() {}
}

// run is one run of a tool.
func (r *replicas) run(t *testing.T) string {
	const id = "0b5ddc1b-5f5e-4f4e-9c7c-7f1f4a2f9f10"
	lock, write := func() int { return 0 }, func() int { return len(r.servers) - 1 }
	status, answer := r.persist(lock, "LOCK", "", lockBody(id))
	if status != http.StatusOK {
		if status == http.StatusLocked {
			t.Errorf("LOCK: %d, and nobody else asked: %s", status, answer)
		}
		return fmt.Sprint("LOCK:", status)
	}
	outcome := "ok"
	if status, answer = r.persist(write, http.MethodPost, "ID="+id, stateOf("a", 1)); status != http.StatusOK {
		t.Errorf("a write of the holder: %d %s", status, answer)
		outcome = fmt.Sprint("POST:", status)
	}
	if status, answer = r.persist(lock, "UNLOCK", "", lockBody(id)); status != http.StatusOK {
		t.Errorf("UNLOCK: %d %s", status, answer)
		outcome += fmt.Sprint(" UNLOCK:", status)
	}
	return outcome
}

// nextRun finds the lock free, and the acknowledged state.
func (r *replicas) nextRun(t *testing.T, after string, wrote bool) {
	here := func() int { return 0 }
	if status, answer := r.persist(here, "LOCK", "", lockBody("next")); status != http.StatusOK {
		t.Errorf("%s: the next LOCK: %d %s", after, status, answer)
		return
	}
	if status, answer := r.ask(0, http.MethodGet, "", ""); wrote && (status != http.StatusOK || answer != stateOf("a", 1)) {
		t.Errorf("%s: the state: %d %.80s", after, status, answer)
	}
	if status, answer := r.ask(0, "UNLOCK", "", lockBody("next")); status != http.StatusOK {
		t.Errorf("%s: the next UNLOCK: %d %s", after, status, answer)
	}
}

// TestLateLock: a LOCK that a proxy repeats after its UNLOCK does not, for an hour, make a
// lock that is never released; other clients do not have to wait for it.
//
// Shows: servers 6 | a `LOCK` that is repeated after its `UNLOCK`
func TestLateLock(t *testing.T) {
	const id = "7a1c9e02-4a55-4d0e-9c55-2f6d8a0b1c3d"
	r := must.Get(oci.OpenRepo(ocitest.New(t, ocitest.Quirks{})+"/infra/state", oci.Options{PlainHTTP: true}))(t)
	now := time.Now()
	store := statebackend.New(r, statebackend.Options{Now: func() time.Time { return now }})
	c := client{t, serve(t, httpbackend.Options{Open: func(context.Context, string) (*statebackend.Store, error) { return store, nil }}), "default"}
	c.want(http.StatusOK, "LOCK", "", lockBody(id))
	c.want(http.StatusOK, http.MethodPost, "ID="+id, stateOf("a", 1))
	c.want(http.StatusOK, "UNLOCK", "", lockBody(id))
	c.want(http.StatusConflict, "LOCK", "", lockBody(id))
	if held, err := store.Held(t.Context(), "default"); held != nil || err != nil {
		t.Errorf("held: %+v, %v", held, err)
	}
	c.want(http.StatusOK, "LOCK", "", lockBody("another"))
	c.want(http.StatusOK, "UNLOCK", "", lockBody("another"))
	now = now.Add(61 * time.Minute)
	c.want(http.StatusOK, "LOCK", "", lockBody(id))
}
