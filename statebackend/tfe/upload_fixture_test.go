// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"crypto/md5"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// announced is the body of POST for a state.
func announced(lineage string, serial int, state string) object {
	sum := md5.Sum([]byte(state))
	return object{"data": object{"type": "state-versions", "attributes": object{
		"serial": serial, "md5": hex.EncodeToString(sum[:]), "lineage": lineage, "force": false, "json-state-outputs": "e30=",
	}}}
}

// but returns the body with other attributes; nil removes one.
func but(body object, changes object) object {
	attributes := body["data"].(object)["attributes"].(object)
	for name, value := range changes {
		if value == nil {
			delete(attributes, name)
			continue
		}
		attributes[name] = value
	}
	return body
}

// announce begins the write of a state.
func (c client) announce(status int, id, lineage string, serial int) reply {
	c.t.Helper()
	return c.want(status, http.MethodPost, "workspaces/"+id+"/state-versions", announced(lineage, serial, stateOf(lineage, serial)))
}

// uploads returns the two addresses of a pending version.
func (a reply) uploads() (state, duplicate string) {
	a.t.Helper()
	at := a.item().Attributes
	state, _ = at["hosted-state-upload-url"].(string)
	duplicate, _ = at["hosted-json-state-upload-url"].(string)
	if at["status"] != "pending" || !strings.HasPrefix(state, "http://") || !strings.HasPrefix(duplicate, "http://") || state == duplicate {
		a.t.Fatalf("no two addresses: %s", a.body)
	}
	return state, duplicate
}

// put uploads without a token, as the tools do.
func (c client) put(status int, address, body string) reply {
	c.t.Helper()
	c.caller = ""
	return c.want(status, http.MethodPut, address, body)
}

// write stores a state in two steps and returns the id from the announcement.
func (c client) write(id, lineage string, serial int) string {
	c.t.Helper()
	a := c.announce(http.StatusCreated, id, lineage, serial)
	state, _ := a.uploads()
	c.put(http.StatusOK, state, stateOf(lineage, serial))
	return a.item().ID
}

// current returns the current version of a workspace.
func (c client) current(id string) item {
	c.t.Helper()
	return c.want(http.StatusOK, http.MethodGet, "workspaces/"+id+"/current-state-version", nil).item()
}

// wantState reads the current state as the tools do.
func (c client) wantState(id, state string) {
	c.t.Helper()
	address, _ := c.current(id).Attributes["hosted-state-download-url"].(string)
	a := c.want(http.StatusOK, http.MethodGet, address, nil)
	must.Match(c.t, "state", string(a.body), state)
	if h := a.header; h.Get("Content-Type") != "application/json" || h.Get("X-Content-Type-Options") != "nosniff" {
		c.t.Errorf("header of a state: %v", h)
	}
}

// versions returns the version numbers of a workspace, newest first.
func versions(t testing.TB, host, workspace string) []int64 {
	t.Helper()
	list := []int64{}
	for v, err := range openStore(t, host, "acme").History(t.Context(), workspace) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, v.N)
	}
	return list
}

func wantVersions(t testing.TB, host, workspace string, want ...int64) {
	t.Helper()
	must.Match(t, "versions", versions(t, host, workspace), want)
}

// endless is a body that never ends and never sends a byte.
type endless struct{ closed chan struct{} }

func newEndless(t testing.TB) endless {
	e := endless{make(chan struct{})}
	t.Cleanup(func() { close(e.closed) })
	return e
}

func (e endless) Read([]byte) (int, error) {
	<-e.closed
	return 0, io.ErrUnexpectedEOF
}
