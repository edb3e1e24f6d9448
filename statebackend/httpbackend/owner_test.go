// SPDX-License-Identifier: Apache-2.0

package httpbackend_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/httpbackend"
)

const (
	owner    = "run:acme/5f0c"
	stranger = "run:acme/77aa"
)

// owners is a process that serves several owners' runs, and others.
func owners(t *testing.T, store *statebackend.Store) (mine, other, person client) {
	t.Helper()
	s := httpbackend.New(httpbackend.Options{Open: func(context.Context, string) (*statebackend.Store, error) { return store, nil }})
	of := func(h http.Handler) client {
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		return client{t, server.URL, "vpcs.prod"}
	}
	return of(s.For(owner)), of(s.For(stranger)), of(s)
}

// own writes the owner into the record of the workspace.
func own(t *testing.T, s *statebackend.Store, who string) {
	t.Helper()
	must.Get(s.Workspaces().Change(t.Context(), "vpcs.prod", func(r *statebackend.Record) error { r.Owner = who; return nil }))(t)
}

// requests sends one request of each kind; the last ones unlock the workspace.
func (c client) requests(id string) map[string]answer {
	c.t.Helper()
	lock := lockBody(id)
	return map[string]answer{
		"get":                  c.do(http.MethodGet, "", ""),
		"lock":                 c.do("LOCK", "", lock),
		"write":                c.do(http.MethodPost, "ID="+id, stateOf("a", 9)),
		"write without a lock": c.do(http.MethodPost, "", stateOf("a", 9)),
		"delete":               c.do(http.MethodDelete, "ID="+id, ""),
		"delete without":       c.do(http.MethodDelete, "", ""),
		"unlock":               c.do("UNLOCK", "", lock),
		"unlock by id":         c.do("UNLOCK", "", `{"ID":"`+id+`"}`),
		"unlock whatever":      c.do("UNLOCK", "", ""),
	}
}

// TestOwner: a run gets 409 for a state that is not its own, whatever it sends.
func TestOwner(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		store := newStore(t, host, nil)
		mine, other, person := owners(t, store)
		refused := func(what string, c client) {
			t.Helper()
			for request, a := range c.requests("lock-1") {
				if a.status != http.StatusConflict || !strings.Contains(a.body, "not this object's state") {
					t.Errorf("%s: %s: %d %s", what, request, a.status, a.body)
				}
			}
		}
		refused("no record", mine)
		own(t, store, "")
		refused("no owner", mine)
		own(t, store, owner)
		refused("another owner", other)

		mine.want(http.StatusNoContent, http.MethodGet, "", "")
		mine.want(http.StatusOK, "LOCK", "", lockBody("lock-1"))
		mine.want(http.StatusOK, http.MethodPost, "ID=lock-1", stateOf("a", 1))
		refused("under the owner's lock", other)
		_, elsewhere, _ := owners(t, newStore(t, host, nil))
		refused("under the owner's lock, in another process", elsewhere)
		mine.want(http.StatusOK, http.MethodPost, "ID=lock-1", stateOf("a", 2))
		mine.want(http.StatusOK, "UNLOCK", "", lockBody("lock-1"))
		mine.wantState(stateOf("a", 2))

		person.want(http.StatusOK, "LOCK", "", lockBody("lock-2"))
		person.want(http.StatusOK, http.MethodPost, "ID=lock-2", stateOf("a", 3))
		person.want(http.StatusOK, "UNLOCK", "", lockBody("lock-2"))
		l := must.Get(store.Lock(t.Context(), "vpcs.prod", statebackend.LockInfo{Who: "test"}))(t)
		must.Succeed(t, l.DeleteWorkspace(t.Context(), nil, "", "test"))
		must.Succeed(t, l.Unlock(t.Context()))
		refused("deleted", mine)
	})
}

// TestOwnerCosts: an owner's run costs no more requests, once the record is read.
func TestOwnerCosts(t *testing.T) {
	count := &ocitest.Count{}
	host := ocitest.New(t, ocitest.Quirks{})
	store := newStore(t, host, count)
	mine, _, person := owners(t, store)
	person.want(http.StatusOK, http.MethodPost, "", stateOf("a", 1))
	own(t, store, owner)
	mine.want(http.StatusOK, http.MethodGet, "", "")
	run := func(c client, id string, serial int) map[string]int {
		t.Helper()
		count.Take()
		c.want(http.StatusOK, "LOCK", "", lockBody(id))
		c.want(http.StatusOK, http.MethodGet, "", "")
		c.want(http.StatusOK, http.MethodPost, "ID="+id, stateOf("a", serial))
		c.want(http.StatusOK, "UNLOCK", "", lockBody(id))
		return count.Take()
	}
	if diff := cmp.Diff(run(person, "p", 2), run(mine, "m", 3)); diff != "" {
		t.Errorf("requests (-anybody +owner):\n%s", diff)
	}
}
