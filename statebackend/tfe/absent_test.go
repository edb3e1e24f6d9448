// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// TestFirstRecord records a workspace of another API; commands before still work.
func TestFirstRecord(t *testing.T) {
	host, c := newRegistry(t), &clock{}
	mustPut(t, openStore(t, host, "acme"), "prod", stateOf("x", 1))
	tool := newTool(t, newServer(t, host, setup{clock: c}))
	id := tool.read("prod")
	c.advance(2 * time.Second)
	tool.want(http.StatusNoContent, http.MethodPost, "workspaces/"+id+"/relationships/tags", object{"data": []object{{"type": "tags", "attributes": object{"name": "net"}}}})
	tool.lock(http.StatusOK, id)
	other := tool.at(newServer(t, host, setup{clock: c}))
	other.want(http.StatusOK, http.MethodGet, "workspaces/"+id+"/current-state-version", nil)
	tool.unlock(http.StatusOK, id)

	c.advance(2 * time.Second)
	tool.want(http.StatusNoContent, http.MethodDelete, "workspaces/"+tool.read("prod"), nil)
	tool.lock(http.StatusNotFound, id)
	mustPut(t, openStore(t, host, "acme"), "prod", stateOf("y", 1))
	tool.want(http.StatusConflict, http.MethodGet, "workspaces/"+id+"/current-state-version", nil)
	c.advance(2 * time.Second)
	again := tool.read("prod")
	c.advance(2 * time.Second)
	tool.want(http.StatusNoContent, http.MethodPost, "workspaces/"+again+"/relationships/tags", object{"data": []object{{"type": "tags", "attributes": object{"name": "net"}}}})
	tool.lock(http.StatusOK, again)
	tool.lock(http.StatusConflict, id)
}

// meanwhile calls do once, before a request that fits is sent.
type meanwhile struct {
	fits func(*http.Request) bool
	do   func()
	once sync.Once
}

func (m *meanwhile) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.do != nil && m.fits(r) {
		m.once.Do(m.do)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestDeletedWhileLocking deletes a workspace between the first list of a lock and its
// claim: a command that has read it before must not find an empty one.
//
// Shows: cloud 27
func TestDeletedWhileLocking(t *testing.T) {
	for name, split := range map[string][]string{"together": nil, "split": {"acme"}} {
		t.Run(name, func(t *testing.T) {
			host := newRegistry(t)
			claim := &meanwhile{fits: func(r *http.Request) bool {
				return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/lock")
			}}
			tool := newTool(t, newServer(t, host, setup{via: claim, split: split}))
			tool.create("prod")
			repository, workspace := "acme", "prod"
			if split != nil {
				repository, workspace = "acme.prod", "default"
			}
			mustPut(t, openStore(t, host, repository), workspace, stateOf("x", 1))
			id := tool.read("prod")
			deleted := false
			claim.do = func() {
				newTool(t, newServer(t, host, setup{split: split})).want(http.StatusNoContent, http.MethodDelete, "organizations/acme/workspaces/prod", nil)
				deleted = true
			}
			tool.do(http.MethodPost, "workspaces/"+id+"/actions/lock", object{"reason": "test"})
			if !deleted {
				t.Fatal("nothing was claimed")
			}
			tool.want(http.StatusConflict, http.MethodGet, "workspaces/"+id+"/current-state-version", nil)
		})
	}
}

// TestSplitNoMore has a workspace whose state is no longer where the configuration looks,
// and one whose record was forged.
//
// Shows: cloud 23
func TestSplitNoMore(t *testing.T) {
	host := newRegistry(t)
	split := newTool(t, newServer(t, host, setup{split: []string{"acme"}}))
	split.create("prod")
	mustPut(t, openStore(t, host, "acme.prod"), "default", stateOf("x", 1))
	tool := split.at(newServer(t, host, setup{}))
	id := split.read("prod")
	tool.want(http.StatusUnprocessableEntity, http.MethodGet, "workspaces/"+id+"/current-state-version", nil)
	tool.want(http.StatusUnprocessableEntity, http.MethodGet, "organizations/acme/workspaces/prod", nil)
	split.want(http.StatusOK, http.MethodGet, "workspaces/"+id+"/current-state-version", nil)

	must.Get(openStore(t, host, "acme").Workspaces().Change(t.Context(), "No Name", func(r *statebackend.Record) error {
		r.State = format.StateSplit
		return nil
	}))(t)
	split.want(http.StatusUnprocessableEntity, http.MethodGet, "organizations/acme/workspaces/No%20Name", nil)
}

// TestManyProjects bounds the names that are compared with each project.
func TestManyProjects(t *testing.T) {
	script := newScript(t, newServer(t, newRegistry(t), setup{}))
	script.want(http.StatusOK, http.MethodGet, "organizations/acme/projects?filter%5Bnames%5D="+strings.Repeat("a,", 64), nil)
	script.want(http.StatusUnprocessableEntity, http.MethodGet, "organizations/acme/projects?filter%5Bnames%5D="+strings.Repeat("a,", 65), nil)
}
