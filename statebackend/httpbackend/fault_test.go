// SPDX-License-Identifier: Apache-2.0

package httpbackend_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/httpbackend"
)

// retry sends a request up to three times, as both tools do after a 5xx.
func (c client) retry(method, query, body string) int {
	c.t.Helper()
	status := 0
	for range 3 {
		if status = c.do(method, query, body).status; status < 500 {
			break
		}
	}
	return status
}

// TestFaults breaks each registry request of a run once, before and after it
// took effect. The client repeats failed requests. An acknowledged state is never
// lost, and if the run does not end well, one command recovers.
func TestFaults(t *testing.T) {
	const body = "lock-1"
	for name, act := range map[string]ocitest.Act{"before": ocitest.FailBefore, "after": ocitest.FailAfter, "answered 500": ocitest.StatusAfter(500)} {
		t.Run(name, func(t *testing.T) {
			recovered := 0
			for nth := 1; ; nth++ {
				host := ocitest.New(t, ocitest.Quirks{})
				mustPost(t, host, stateOf("a", 1))
				fault := &ocitest.Fault{Nth: nth, Do: act}
				c := client{t, newFaultyServer(t, host, fault), "default"}
				acknowledged := stateOf("a", 1)
				locked := c.retry("LOCK", "", lockBody(body)) == http.StatusOK
				if locked && c.retry(http.MethodPost, "ID="+body, stateOf("a", 2)) == http.StatusOK {
					acknowledged = stateOf("a", 2)
				}
				unlocked := locked && c.retry("UNLOCK", "", lockBody(body)) == http.StatusOK
				if fault.Seen() < nth {
					if !unlocked || acknowledged != stateOf("a", 2) {
						t.Errorf("a run without a fault: unlocked %v", unlocked)
					}
					if nth < 10 {
						t.Fatalf("a run had %d requests", nth-1)
					}
					t.Logf("%d requests, %d runs needed a forced unlock", nth-1, recovered)
					return
				}
				other := client{t, newServer(t, host), "default"}
				other.checkAfter(nth, acknowledged, &recovered)
			}
		})
	}
}

// checkAfter is the next run.
func (c client) checkAfter(nth int, acknowledged string, recovered *int) {
	c.t.Helper()
	next := stateOf("a", 3)
	got := c.want(http.StatusOK, http.MethodGet, "", "").body
	// A state whose answer was lost may be current without being acknowledged.
	if got != acknowledged && got != stateOf("a", 2) {
		c.t.Errorf("fault at request %d: the state is %.80s, acknowledged was %.80s", nth, got, acknowledged)
	}
	a := c.do("LOCK", "", lockBody("lock-2"))
	if a.status == http.StatusLocked {
		*recovered++
		c.want(http.StatusOK, "UNLOCK", "", "")
		a = c.do("LOCK", "", lockBody("lock-2"))
	}
	if a.status != http.StatusOK {
		c.t.Fatalf("fault at request %d: the next lock: %d %s", nth, a.status, a.body)
	}
	c.want(http.StatusOK, http.MethodPost, "ID=lock-2", next)
	c.want(http.StatusOK, "UNLOCK", "", lockBody("lock-2"))
	c.wantState(next)
}

func mustPost(t *testing.T, host, state string) {
	t.Helper()
	client{t, newServer(t, host), "default"}.want(http.StatusOK, http.MethodPost, "", state)
}

// newFaultyServer is a server whose transport does not repeat registry requests, so
// that each fault is noticed.
func newFaultyServer(t *testing.T, host string, fault http.RoundTripper) string {
	t.Helper()
	r := must.Get(oci.OpenRepo(host+"/infra/state", oci.Options{PlainHTTP: true, Transport: fault, Retry: oci.Retry{MaxAttempts: 1}}))(t)
	store := statebackend.New(r, statebackend.Options{Tool: "test", StrictReads: true})
	return serve(t, httpbackend.Options{Open: func(_ context.Context, name string) (*statebackend.Store, error) {
		if name != "app" {
			return nil, fmt.Errorf("state %q: %w", name, oci.ErrNotFound)
		}
		return store, nil
	}})
}
