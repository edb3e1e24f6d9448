// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/statebackend/tfe"
)

// TestReadTwice changes a workspace through another server between the two reads of a
// command. The second read reuses the list; later requests see the change.
//
// Shows: cloud 2
func TestReadTwice(t *testing.T) {
	const path = workspaces + "/prod"
	for name, tt := range map[string]struct {
		change func(other client)
		check  func(tool client, id string)
	}{
		"deleted": {
			func(other client) { other.want(http.StatusNoContent, http.MethodDelete, path, nil) },
			func(tool client, id string) {
				tool.want(http.StatusConflict, http.MethodGet, "workspaces/"+id+"/current-state-version", nil) // not 404, at which the tool would plan from nothing
				tool.lock(http.StatusNotFound, id)
				tool.want(http.StatusConflict, http.MethodPost, "workspaces/"+id+"/state-versions", announce(stateOf("a", 2)))
			},
		},
		"locked": {
			func(other client) { other.lock(http.StatusOK, other.read("prod")) },
			func(tool client, id string) {
				tool.lock(http.StatusConflict, id)
				tool.want(http.StatusConflict, http.MethodPost, "workspaces/"+id+"/state-versions", announce(stateOf("a", 2)))
			},
		},
		"written": {
			func(other client) { other.apply("prod", stateOf("a", 2)) },
			func(tool client, id string) {
				cmd := &command{client: tool, name: "prod", id: id}
				tool.lock(http.StatusOK, id)
				must.Equal(tool.t, "the state", cmd.state(), stateOf("a", 2))
				if a := cmd.write(stateOf("a", 3)); a.status != http.StatusOK {
					tool.t.Errorf("write: %d %s", a.status, a.body)
				}
				tool.unlock(http.StatusOK, id)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			host, count, now := newRegistry(t), &ocitest.Count{}, time.Now()
			still := func(o *tfe.Options) { o.Now = func() time.Time { return now } } // all at the same time
			tool := newTool(t, newServer(t, host, setup{via: count, change: still}))
			tool.create("prod")
			tool.apply("prod", stateOf("a", 1))
			tool.read("prod")
			tt.change(tool.at(newServer(t, host, setup{change: still})))
			count.Take()
			id := tool.read("prod")
			if n := count.Take(); len(n) != 0 {
				t.Errorf("the second read asks the registry: %v", n)
			}
			tt.check(tool, id)
		})
	}
}

// TestReadAfterUnlock: the next command on the connection sees the workspace free.
func TestReadAfterUnlock(t *testing.T) {
	now := time.Now()
	tool := newTool(t, newServer(t, newRegistry(t), setup{change: func(o *tfe.Options) { o.Now = func() time.Time { return now } }}))
	const path = workspaces + "/prod"
	tool.create("prod")
	id := tool.read("prod")
	for name, unlock := range map[string]func(){
		"unlock": func() { tool.unlock(http.StatusOK, id) },
		"force":  func() { tool.want(http.StatusOK, http.MethodPost, "workspaces/"+id+"/actions/force-unlock", nil) },
	} {
		tool.lock(http.StatusOK, id)
		if held := tool.want(http.StatusOK, http.MethodGet, path, nil).item(); held.Attributes["locked"] != true {
			t.Fatalf("%s: not locked", name)
		}
		unlock()
		if left := tool.want(http.StatusOK, http.MethodGet, path, nil).item(); left.Attributes["locked"] != false {
			t.Errorf("%s: still locked for who reads it next", name)
		}
	}
}

// TestReadAgain shows who gets a new list: a later command, a script, and a command
// after a change through the same server.
//
// Shows: cloud 2
func TestReadAgain(t *testing.T) {
	host, clock := newRegistry(t), &clock{}
	tool := newTool(t, newServer(t, host, setup{clock: clock}))
	other := tool.at(newServer(t, host, setup{clock: clock}))
	const path = workspaces + "/prod"
	description := func(c client, change string) {
		c.want(http.StatusOK, http.MethodPatch, path, object{"data": object{"attributes": object{"description": change}}})
	}
	tool.create("prod")
	for want, do := range map[string]func() client{
		"here":  func() client { description(tool, "here"); return tool },
		"there": func() client { description(other, "there"); clock.advance(2 * time.Second); return tool },
		"script": func() client {
			description(other, "script")
			script := tool
			script.tool = ""
			return script
		},
	} {
		tool.read("prod")
		if got := do().want(http.StatusOK, http.MethodGet, path, nil).item().Attributes["description"]; got != want {
			t.Errorf("%s: the description is %q", want, got)
		}
	}
}
