// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/statebackend/tfe"
)

// This is an apply as both tools do it, with every request of the write sent twice.
func TestWrite(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		c := newTool(t, newServer(t, host, setup{}))
		c.create("prod")
		id := c.read("prod")
		c.lock(http.StatusOK, id)
		c.want(http.StatusNotFound, http.MethodGet, "workspaces/"+id+"/current-state-version", nil)
		c.announce(http.StatusCreated, id, "l", 1)
		a := c.announce(http.StatusCreated, id, "l", 1)
		must.Equal(t, "the snapshot interval", a.header.Get("X-Terraform-Snapshot-Interval"), "30")
		pending := a.item().ID
		if got := c.want(http.StatusOK, http.MethodGet, "state-versions/"+pending, nil).item(); got.Attributes["status"] != "pending" || got.ID != pending {
			t.Errorf("before the upload: %+v", got)
		}
		state, duplicate := a.uploads()
		for range 2 {
			c.put(http.StatusOK, duplicate, `{"values":"in clear"}`)
			c.put(http.StatusOK, state, stateOf("l", 1))
		}
		if got := c.want(http.StatusOK, http.MethodGet, "state-versions/"+pending, nil).item(); got.Attributes["status"] != "finalized" || got.ID != pending {
			t.Errorf("after the upload: %+v", got)
		}
		c.announce(http.StatusCreated, id, "l", 1) // repeats a request whose upload took effect
		c.write(id, "l", 2)
		c.unlock(http.StatusOK, id)
		next := c.read("prod")
		c.wantState(next, stateOf("l", 2))
		if got := c.current(next).Attributes; got["serial"] != 2.0 || got["lineage"] != "l" || got["resources-processed"] != true || got["terraform-version"] != "1.12.6" {
			t.Errorf("current version: %v", got)
		}
		wantVersions(t, host, "prod", 2, 1)
	})
}

// TestUploadOfEndedToken: an upload address ends with its token, however.
func TestUploadOfEndedToken(t *testing.T) {
	var guard *access.Guard
	var at clock
	c := newTool(t, newServer(t, newRegistry(t), setup{clock: &at, change: func(o *tfe.Options) { guard = o.Kit.Guard }}))
	token := func(secret, scope string, ends time.Time) access.Policy {
		id, hash := must.GetBoth(statictoken.Hash(secret))(t)
		return access.Policy{Tokens: []statictoken.Token{{ID: id, Hash: hash, Expires: ends, Scopes: []rights.Scope{must.Get(rights.ParseScope(scope))(t)}}}}
	}
	good := token(tokenOf("ci"), "write:state:acme/**", time.Now().Add(10*time.Minute))
	must.Succeed(t, guard.Replace(good))
	c.create("prod")
	id := c.read("prod")
	c.lock(http.StatusOK, id)
	state, _ := c.announce(http.StatusCreated, id, "l", 1).uploads()
	for _, p := range []access.Policy{
		{}, token(tokenOf("ci")+"x", "write:state:acme/**", time.Time{}), token(tokenOf("ci"), "read:state:acme/**", time.Time{}),
	} {
		must.Succeed(t, guard.Replace(p))
		c.put(http.StatusForbidden, state, stateOf("l", 1))
	}
	must.Succeed(t, guard.Replace(good))
	c.put(http.StatusOK, state, stateOf("l", 1))
	at.advance(11 * time.Minute)
	c.put(http.StatusGone, state, stateOf("l", 1))
}

// Shows: cloud 18
func TestAnnouncement(t *testing.T) {
	host := newRegistry(t)
	base := newServer(t, host, setup{})
	c, script := newTool(t, base), newScript(t, base)
	c.create("prod")
	stable := script.read("prod")
	id := c.read("prod")
	c.lock(http.StatusOK, id)
	c.write(id, "l", 5)
	good := func() object { return announced("l", 6, stateOf("l", 6)) }
	for _, tt := range []struct {
		name   string
		c      client
		id     string
		body   any
		status int
		title  string
	}{
		{"good", c, id, good(), 201, ""},
		{"the current one again", c, id, announced("l", 5, stateOf("l", 5)), 201, ""},
		{"same serial", c, id, announced("l", 5, stateOf("l", 5)+" "), 409, "state does not follow the stored one"},
		{"older serial", c, id, announced("l", 4, stateOf("l", 4)), 409, "state does not follow the stored one"},
		{"another lineage", c, id, announced("m", 6, stateOf("m", 6)), 409, "state does not follow the stored one"},
		{"older, forced", c, id, but(announced("m", 1, stateOf("m", 1)), object{"force": true}), 201, ""},
		{"no serial", c, id, but(good(), object{"serial": nil}), 422, "invalid attribute"},
		{"negative serial", c, id, but(good(), object{"serial": -1}), 400, ""},
		{"no md5", c, id, but(good(), object{"md5": nil}), 422, "invalid attribute"},
		{"short md5", c, id, but(good(), object{"md5": "abcd"}), 422, "invalid attribute"},
		{"lineage of a line", c, id, but(good(), object{"lineage": "a\nb"}), 422, "invalid attribute"},
		{"no document", c, id, `<html>`, 400, "bad request"},
		{"deep", c, id, strings.Repeat(`{"data":`, 40) + "1" + strings.Repeat("}", 40), 400, "bad request"},
		{"empty", c, id, "", 422, "invalid attribute"},
		{"a script without a lock", script, stable, good(), 409, ""},
		{"a command without the lock", c, c.read("prod"), good(), 409, ""},
		{"another subject, with the handle", c.as("admin"), id, good(), 403, "lock held by another caller"},
		{"without right", c.as("other"), id, good(), 403, "forbidden"},
		{"who may read", c.as("reader"), id, good(), 403, "forbidden"},
		{"without token", c.as(""), id, good(), 401, "unauthorized"},
		{"no such workspace", c, "ws-YWNtZQBub25l", good(), 404, "not found"},
		{"no id", c, "ws-x", good(), 404, "not found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.c.t = t
			a := tt.c.want(tt.status, http.MethodPost, "workspaces/"+tt.id+"/state-versions", tt.body)
			if tt.title != "" && a.doc().Errors[0].Title != tt.title {
				t.Errorf("title %q, want %q", a.doc().Errors[0].Title, tt.title)
			}
		})
	}
	r := must.Get(http.NewRequest(http.MethodPost, base+"/api/v2/workspaces/"+id+"/state-versions", strings.NewReader("state=x")))(t)
	r.Header.Set("Authorization", "Bearer "+tokenOf("ci"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded") // a type that a page may send without preflight
	resp := must.Get(http.DefaultClient.Do(r))(t)
	defer resp.Body.Close()
	must.Equal(t, "a form: status", resp.StatusCode, http.StatusUnsupportedMediaType)
	c.wantState(id, stateOf("l", 5))
}

// The content of an upload address limits what may be stored by it.
//
// Shows: cloud 16
func TestUploadAddress(t *testing.T) {
	host, clock := newRegistry(t), &clock{}
	c := newTool(t, newServer(t, host, setup{clock: clock}))
	c.create("prod")
	id := c.read("prod")
	c.lock(http.StatusOK, id)
	state, duplicate := c.announce(http.StatusCreated, id, "l", 1).uploads()
	i := strings.LastIndexByte(state, '.')
	for _, tt := range []struct {
		name, address, body string
		status              int
	}{
		{"another signature", state[:i+1] + otherThan(state[i+1]) + state[i+2:], stateOf("l", 1), 403},
		{"no signature", state[:i+1], stateOf("l", 1), 403},
		{"that of the twin", state[:i] + duplicate[strings.LastIndexByte(duplicate, '.'):], stateOf("l", 1), 403},
		{"other bytes", state, stateOf("l", 1) + " ", 422},
		{"no bytes", state, "", 422},
		{"what is no state", c.want(201, "POST", "workspaces/"+id+"/state-versions", announced("l", 1, "<html>")).state(), "<html>", 422},
		{"a state cut short", c.want(201, "POST", "workspaces/"+id+"/state-versions", announced("l", 1, stateOf("l", 1)[:90])).state(), stateOf("l", 1)[:90], 422},
		{"another serial inside", c.want(201, "POST", "workspaces/"+id+"/state-versions", announced("l", 2, stateOf("l", 1))).state(), stateOf("l", 1), 422},
		{"another lineage inside", c.want(201, "POST", "workspaces/"+id+"/state-versions", announced("m", 1, stateOf("l", 1))).state(), stateOf("l", 1), 422},
		{"the state to the twin, which is dropped", duplicate, stateOf("l", 1), 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := c
			c.t = t
			c.put(tt.status, tt.address, tt.body)
		})
	}
	c.want(http.StatusNotFound, http.MethodGet, "workspaces/"+id+"/current-state-version", nil)
	clock.advance(time.Hour)
	c.put(http.StatusGone, state, stateOf("l", 1))
	if got := versions(t, host, "prod"); len(got) != 0 {
		t.Errorf("versions %v", got)
	}
}

func (a reply) state() string {
	state, _ := a.uploads()
	return state
}

// A command with locking disabled may write while the workspace is free, and has lost
// if a lock of its own was ended.
//
// Shows: cloud 12 | `-lock=false`: with a free lock, with a held one, after a forced unlock, days
// later
func TestWriteWithoutLock(t *testing.T) {
	host, clock := newRegistry(t), &clock{}
	base := newServer(t, host, setup{clock: clock})
	c := newTool(t, base)
	c.create("prod")
	id := c.read("prod")
	c.write(id, "l", 1)
	c.write(id, "l", 2)
	wantVersions(t, host, "prod", 2, 1)

	holder := c.read("prod")
	state, _ := c.announce(http.StatusCreated, id, "l", 3).uploads()
	c.lock(http.StatusOK, holder)
	c.announce(http.StatusConflict, id, "l", 3)
	c.put(http.StatusConflict, state, stateOf("l", 3))
	c.unlock(http.StatusOK, holder)
	c.put(http.StatusOK, state, stateOf("l", 3))

	ended := c.read("prod")
	c.lock(http.StatusOK, ended)
	state, _ = c.announce(http.StatusCreated, ended, "l", 4).uploads()
	c.want(http.StatusOK, http.MethodPost, "workspaces/"+ended+"/actions/force-unlock", nil)
	for _, c := range []client{c, c.at(newServer(t, host, setup{clock: clock}))} {
		must.Equal(t, "title", c.announce(http.StatusConflict, ended, "l", 4).doc().Errors[0].Title, "lock lost")
	}
	c.put(http.StatusConflict, state, stateOf("l", 4))

	clock.advance(6*24*time.Hour + time.Minute)
	c.announce(http.StatusConflict, id, "l", 5)
	c.wantState(c.read("prod"), stateOf("l", 3))
}

// An overtaken run cannot write, regardless of its number of tries and its serial.
//
// Shows: cloud 7
func TestOvertaken(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		base := newServer(t, host, setup{})
		c := newTool(t, base)
		c.create("prod")
		first, second := c.read("prod"), c.read("prod")
		c.lock(http.StatusOK, first)
		c.write(first, "l", 1)
		late, _ := c.announce(http.StatusCreated, first, "l", 2).uploads()
		c.want(http.StatusOK, http.MethodPost, "workspaces/"+first+"/actions/force-unlock", nil)
		c.lock(http.StatusOK, second)
		other := c.at(newServer(t, host, setup{}))
		c.put(http.StatusConflict, late, stateOf("l", 2))
		c.write(second, "l", 2)
		for serial := 3; serial < 6; serial++ {
			c.announce(http.StatusConflict, first, "l", serial)
			other.announce(http.StatusConflict, first, "l", serial)
		}
		c.unlock(http.StatusOK, second)
		c.announce(http.StatusConflict, first, "l", 9)
		c.put(http.StatusConflict, late, stateOf("l", 2))
		other.put(http.StatusConflict, strings.Replace(late, base, other.base, 1), stateOf("l", 2))
		c.wantState(c.read("prod"), stateOf("l", 2))
	})
}

// The requests of one command reach two processes in turn.
func TestWriteThroughReplicas(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		a, b := newTool(t, newServer(t, host, setup{})), newTool(t, newServer(t, host, setup{}))
		a.create("prod")
		id := b.read("prod")
		a.lock(http.StatusOK, id)
		pending := b.announce(http.StatusCreated, id, "l", 1)
		state, _ := pending.uploads()
		a.put(http.StatusOK, state, stateOf("l", 1))
		must.Equal(t, "status", b.want(http.StatusOK, http.MethodGet, "state-versions/"+pending.item().ID, nil).item().Attributes["status"], "finalized")
		state, _ = a.announce(http.StatusCreated, id, "l", 2).uploads()
		b.put(http.StatusOK, strings.Replace(state, a.base, b.base, 1), stateOf("l", 2))
		b.wantState(id, stateOf("l", 2))
		a.unlock(http.StatusOK, id)
		a.wantState(a.read("prod"), stateOf("l", 2))
		b.lock(http.StatusOK, b.read("prod")) // no lock is left
	})
}

// A script has the lock of its subject, and writes under it.
func TestScriptWrites(t *testing.T) {
	host := newRegistry(t)
	c := newScript(t, newServer(t, host, setup{}))
	id := c.create("prod")
	must.Equal(t, "title", c.announce(http.StatusConflict, id, "l", 1).doc().Errors[0].Title, "workspace not locked")
	c.lock(http.StatusOK, id)
	pending := c.write(id, "l", 1)
	must.Equal(t, "status", c.want(http.StatusOK, http.MethodGet, "state-versions/"+pending, nil).item().Attributes["status"], "finalized")
	c.as("admin").announce(http.StatusConflict, id, "l", 2)
	c.unlock(http.StatusOK, id)
	c.announce(http.StatusConflict, id, "l", 2)
	c.wantState(id, stateOf("l", 1))
}

// If the server does not know its address, the state comes in the body, as from
// tools that support nothing else.
//
// Shows: cloud 17 | a state inside the request that announces it
func TestOneStep(t *testing.T) {
	host := newRegistry(t)
	c := newTool(t, newServer(t, host, setup{change: func(o *tfe.Options) {
		o.PublicURL = func(*http.Request) string { return "" }
	}}))
	c.create("prod")
	id := c.read("prod")
	c.lock(http.StatusOK, id)
	const exactly = "param is missing or the value is empty: state" // the text that the tools look for
	must.Equal(t, "title", c.announce(http.StatusBadRequest, id, "l", 1).doc().Errors[0].Title, exactly)
	body := but(announced("l", 1, stateOf("l", 1)), object{"state": []byte(stateOf("l", 1)), "json-state": strings.Repeat("e30=", 50_000)})
	for range 2 {
		got := c.want(http.StatusCreated, http.MethodPost, "workspaces/"+id+"/state-versions", body).item()
		if got.Attributes["status"] != "finalized" || got.Attributes["serial"] != 1.0 {
			t.Errorf("%+v", got)
		}
	}
	c.want(http.StatusUnprocessableEntity, http.MethodPost, "workspaces/"+id+"/state-versions",
		but(announced("l", 2, stateOf("l", 2)), object{"state": []byte(stateOf("l", 3))}))
	c.want(http.StatusBadRequest, http.MethodPost, "workspaces/"+id+"/state-versions", but(announced("l", 2, stateOf("l", 2)), object{"state": "%"}))
	c.want(http.StatusConflict, http.MethodPost, "workspaces/"+id+"/state-versions",
		but(announced("m", 2, stateOf("m", 2)), object{"state": []byte(stateOf("m", 2))}))
	large := c.want(http.StatusRequestEntityTooLarge, http.MethodPost, "workspaces/"+id+"/state-versions",
		but(announced("l", 2, stateOf("l", 2)), object{"state": strings.Repeat("e30=", 8<<20+1)}))
	if !strings.Contains(large.doc().Errors[0].Detail, "upload in two steps") {
		t.Errorf("%s", large.body)
	}
	c.unlock(http.StatusOK, id)
	wantVersions(t, host, "prod", 1)
	next := c.read("prod") // without a lock
	c.want(http.StatusCreated, http.MethodPost, "workspaces/"+next+"/state-versions",
		but(announced("l", 2, stateOf("l", 2)), object{"state": []byte(stateOf("l", 2))}))
	wantVersions(t, host, "prod", 2, 1)
}

// Data that a command read before the workspace was deleted must not be written back.
//
// Shows: cloud 27
func TestWriteAfterDelete(t *testing.T) {
	host, clock := newRegistry(t), &clock{}
	base := newServer(t, host, setup{clock: clock})
	c := newTool(t, base)
	c.create("prod")
	id := c.read("prod")
	c.write(id, "l", 1)
	state, _ := c.announce(http.StatusCreated, id, "l", 2).uploads()
	clock.advance(time.Minute)
	c.want(http.StatusNoContent, http.MethodDelete, "organizations/acme/workspaces/prod", nil)
	check := func(statuses ...int) {
		t.Helper()
		for _, c := range []client{c, c.at(newServer(t, host, setup{clock: clock}))} {
			a := c.do(http.MethodPut, strings.Replace(state, base, c.base, 1), stateOf("l", 2))
			b := c.do(http.MethodPost, "workspaces/"+id+"/state-versions", announced("l", 2, stateOf("l", 2)))
			if a.status != statuses[0] && a.status != statuses[1] || b.status != statuses[0] && b.status != statuses[1] {
				t.Errorf("upload %d %s, announcement %d %s", a.status, a.body, b.status, b.body)
			}
			c.want(http.StatusConflict, http.MethodGet, "workspaces/"+id+"/current-state-version", nil)
		}
	}
	check(http.StatusConflict, http.StatusNotFound)
	clock.advance(time.Minute)
	c.create("prod")
	check(http.StatusConflict, http.StatusConflict)
	c.want(http.StatusNotFound, http.MethodGet, "workspaces/"+c.read("prod")+"/current-state-version", nil)
}

// otherThan returns a character of a signature other than c.
func otherThan(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}
