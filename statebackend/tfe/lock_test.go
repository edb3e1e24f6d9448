// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// TestLocks: a lock belongs to one command. Another command with the same token waits,
// and cannot end it. A repeated unlock does no harm.
//
// Shows: cloud 5
func TestLocks(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		tool := newTool(t, newServer(t, host, setup{}))
		tool.create("prod")
		mine, theirs := tool.read("prod"), tool.read("prod")
		if mine == theirs {
			t.Fatalf("two commands got the id %s", mine)
		}
		tool.lock(http.StatusOK, mine)
		tool.lock(http.StatusOK, mine) // repeated
		must.Equal(t, "the title", tool.lock(http.StatusConflict, theirs).doc().Errors[0].Title, "workspace already locked")
		held := tool.want(http.StatusOK, http.MethodGet, "workspaces/"+theirs, nil).item()
		if held.Attributes["locked"] != true || !strings.Contains(string(held.Relationships["locked-by"].Data), `"ci@`) || held.ID != theirs {
			t.Errorf("the workspace is %+v", held)
		}
		if left := tool.unlock(http.StatusOK, theirs).item(); left.Attributes["locked"] != true || !strings.Contains(string(left.Relationships["locked-by"].Data), `"ci@`) {
			t.Errorf("the workspace is %+v", left)
		}
		tool.lock(http.StatusConflict, theirs)
		tool.unlock(http.StatusOK, mine)
		tool.unlock(http.StatusOK, mine) // repeated
		tool.lock(http.StatusOK, theirs)
		tool.unlock(http.StatusOK, mine) // repeated while the next command holds the lock
		tool.lock(http.StatusConflict, mine)
		tool.unlock(http.StatusOK, theirs)
		if held := tool.want(http.StatusOK, http.MethodGet, "workspaces/"+mine, nil).item(); held.Attributes["locked"] != false {
			t.Errorf("the workspace is %+v", held)
		}
	})
}

// TestLockAtReplicas sends the requests of one command to two processes.
//
// Shows: cloud 5
func TestLockAtReplicas(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		a := newTool(t, newServer(t, host, setup{}))
		b := a.at(newServer(t, host, setup{}))
		a.create("prod")
		mine, theirs := a.read("prod"), b.read("prod")
		a.lock(http.StatusOK, mine)
		b.lock(http.StatusConflict, theirs)
		b.lock(http.StatusOK, mine) // repeated, and taken over
		b.lock(http.StatusConflict, theirs)
		a.unlock(http.StatusOK, mine)
		b.lock(http.StatusOK, theirs)
		a.unlock(http.StatusOK, mine) // repeated
		a.lock(http.StatusConflict, mine)
		a.unlock(http.StatusOK, theirs)
	})
}

// TestLockOfScripts: a subject's scripts exclude each other, at two processes too.
func TestLockOfScripts(t *testing.T) {
	host := newRegistry(t)
	a := newScript(t, newServer(t, host, setup{}))
	b := a.at(newServer(t, host, setup{}))
	id := a.create("prod")
	if again := b.read("prod"); again != id || strings.Contains(id, ".") {
		t.Errorf("the ids are %q and %q", id, again)
	}
	a.lock(http.StatusOK, id)
	a.lock(http.StatusConflict, id)
	b.lock(http.StatusConflict, id)
	a.as("admin").lock(http.StatusConflict, id)
	title := a.as("admin").unlock(http.StatusConflict, id).doc().Errors[0].Title
	if !strings.Contains(title, "is locked by User ci@") { // the text that go-tfe looks for
		t.Errorf("the title is %q", title)
	}
	b.unlock(http.StatusOK, id)
	a.unlock(http.StatusOK, id) // there is no lock left
	b.lock(http.StatusOK, id)
	a.lock(http.StatusConflict, id)
	b.unlock(http.StatusOK, id)
	tool := newTool(t, a.base)
	command := tool.read("prod")
	tool.lock(http.StatusOK, command)
	a.lock(http.StatusConflict, id)
	a.unlock(http.StatusConflict, id)
	tool.unlock(http.StatusOK, command)
}

func TestForceUnlock(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		tool := newTool(t, newServer(t, host, setup{}))
		other := tool.at(newServer(t, host, setup{}))
		tool.create("prod")
		mine := tool.read("prod")
		tool.lock(http.StatusOK, mine)
		command := other.begin("prod").read()
		force := "workspaces/" + command.id + "/actions/force-unlock"
		if got := command.must(http.StatusOK, http.MethodPost, force, nil).item(); got.Attributes["locked"] != false {
			t.Errorf("the workspace is %+v", got)
		}
		other.want(http.StatusConflict, http.MethodPost, force, nil)
		// The overtaken command gets an error, and its unlock does no harm.
		next := other.read("prod")
		other.lock(http.StatusOK, next)
		tool.unlock(http.StatusOK, mine)
		other.lock(http.StatusOK, next) // still held
		tool.lock(http.StatusConflict, next[:strings.IndexByte(next, '.')]+mine[strings.IndexByte(mine, '.'):])
		other.unlock(http.StatusOK, next)
	})
}

// TestCommandIDElsewhere uses the command ID of one workspace with another, where it
// is just another lock.
//
// Shows: cloud 24
func TestCommandIDElsewhere(t *testing.T) {
	host := newRegistry(t)
	tool := newTool(t, newServer(t, host, setup{}))
	tool.create("prod")
	tool.create("test")
	prod, test := tool.read("prod"), tool.read("test")
	tool.lock(http.StatusOK, prod)
	tool.lock(http.StatusOK, test)
	keyOf, commandIDOf := func(id string) string { return strings.Split(id, ".")[0] }, func(id string) string { return strings.Split(id, ".")[1] }
	mixed := keyOf(test) + "." + commandIDOf(prod)
	tool.lock(http.StatusConflict, mixed)
	tool.unlock(http.StatusOK, mixed) // ends nothing
	tool.lock(http.StatusConflict, mixed)
	tool.unlock(http.StatusOK, test)
	tool.lock(http.StatusOK, mixed)
	tool.unlock(http.StatusOK, mixed)
	tool.lock(http.StatusOK, prod) // still held
	tool.unlock(http.StatusOK, prod)
}

// TestLockOfAnotherCaller: another's ID holds nothing, at any server.
func TestLockOfAnotherCaller(t *testing.T) {
	host := newRegistry(t)
	one, two := newTool(t, newServer(t, host, setup{})), newTool(t, newServer(t, host, setup{}))
	one.create("prod")
	id := one.read("prod")
	one.lock(http.StatusOK, id)
	for _, c := range []client{one.as("runner"), two.as("runner")} {
		c.lock(http.StatusConflict, id)
		c.want(http.StatusForbidden, http.MethodPost, "workspaces/"+id+"/actions/unlock", nil)
	}
	two.unlock(http.StatusOK, id)
	two.as("runner").lock(http.StatusOK, id)
}

// TestOneLock: this API and another one share one lock.
//
// Shows: cloud 4
func TestOneLock(t *testing.T) {
	host := newRegistry(t)
	tool := newTool(t, newServer(t, host, setup{}))
	store := openStore(t, host, "acme")
	tool.create("prod")
	id := tool.read("prod")
	l := mustLock(t, store, "prod")
	tool.lock(http.StatusConflict, id)
	must.Succeed(t, l.Unlock(t.Context()))
	tool.lock(http.StatusOK, id)
	if _, err := store.Lock(t.Context(), "prod", lockInfo()); err == nil {
		t.Error("two doors have the lock at once")
	}
	tool.unlock(http.StatusOK, id)
}
