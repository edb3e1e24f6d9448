// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"net/http"
	"sync"
	"testing"
)

// TestScriptsAtOnce: of two scripts with one token that lock at the same moment, through two
// servers, at most one gets the lock, and it can be taken again.
func TestScriptsAtOnce(t *testing.T) {
	registry := newRegistry(t)
	a := newScript(t, newServer(t, registry, setup{}))
	b := a.at(newServer(t, registry, setup{}))
	id := a.create("prod")
	for range 20 {
		var got [2]reply
		var both sync.WaitGroup
		for i, c := range []client{a, b} {
			both.Go(func() { got[i] = c.do(http.MethodPost, "workspaces/"+id+"/actions/lock", object{"reason": "deploy"}) })
		}
		both.Wait()
		won := 0
		for _, r := range got {
			switch r.status {
			case http.StatusOK:
				won++
			case http.StatusConflict:
			default:
				t.Fatalf("%d: %s", r.status, r.body)
			}
		}
		if won > 1 {
			t.Fatal("both have the lock")
		}
		if won == 0 { // both saw the other: the workspace is free
			a.want(http.StatusOK, http.MethodPost, "workspaces/"+id+"/actions/lock", object{})
		}
		a.want(http.StatusOK, http.MethodPost, "workspaces/"+id+"/actions/unlock", object{})
	}
}
