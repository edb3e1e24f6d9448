// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/auditlog"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

// TestReadThroughAnother: through one server the holder reads what it wrote through another.
func TestReadThroughAnother(t *testing.T) {
	host := newRegistry(t)
	tool := newTool(t, newServer(t, host, setup{}))
	other := tool.at(newServer(t, host, setup{}))
	tool.create("prod")
	id := tool.read("prod")
	tool.lock(http.StatusOK, id)
	here, there := &command{client: tool, name: "prod", id: id}, &command{client: other, name: "prod", id: id}
	for serial := range 3 {
		if a := there.write(stateOf("a", serial+1)); a.status != http.StatusOK {
			t.Fatalf("write: %d %s", a.status, a.body)
		}
		if got := here.state(); got != stateOf("a", serial+1) {
			t.Errorf("the holder reads %s after it wrote serial %d", got, serial+1)
		}
		here, there = there, here
	}
	tool.unlock(http.StatusOK, id)
}

// TestAuditRefusedWrites refuses writes after the lock was ended by force, under no lock, and
// under another's: each is a row of the record like one that was stored.
//
// Shows: mistakes 39
func TestAuditRefusedWrites(t *testing.T) {
	host := newRegistry(t)
	queue := must.Get(oci.OpenRepo(host+"/queue", oci.Options{PlainHTTP: true}))(t)
	record := auditlog.New(auditlog.Options{Repo: queue})
	store := openStore(t, host, "acme")
	tool := newTool(t, newServer(t, host, setup{audit: slog.New(record.Handler(nil))}))
	tool.create("prod")
	lost, late := tool.begin("prod").read(), tool.begin("prod").read()
	lost.lock()
	lost.must(http.StatusCreated, http.MethodPost, "workspaces/"+lost.id+"/state-versions", announce(stateOf("a", 1)))
	lost.write(stateOf("a", 1))
	address := fmt.Sprint(lost.must(http.StatusCreated, http.MethodPost, "workspaces/"+lost.id+"/state-versions", announce(stateOf("a", 2))).item().Attributes["hosted-state-upload-url"])
	held := must.Get(store.Held(t.Context(), "prod"))(t).Info.ID
	must.Succeed(t, store.ForceUnlock(t.Context(), "prod", held))
	lost.anonymous().must(http.StatusConflict, http.MethodPut, address, stateOf("a", 2))
	if a := lost.write(stateOf("a", 2)); a.status != http.StatusConflict {
		t.Fatalf("a write after the lock was ended: %d", a.status)
	}
	script := newScript(t, tool.base).as("admin")
	if a := (&command{client: script, id: script.read("prod")}).write(stateOf("a", 2)); a.status != http.StatusConflict {
		t.Fatalf("a write without a lock: %d", a.status)
	}
	late.lock()
	other := *late
	other.client = late.as("admin")
	if a := other.write(stateOf("a", 2)); a.status != http.StatusForbidden {
		t.Fatalf("a write under another's lock: %d", a.status)
	}
	latest := must.Get(store.Held(t.Context(), "prod"))(t).Info.ID
	own := "" // the lock that the script would have
	var got []string
	for _, e := range record.Find(t.Context(), auditlog.Query{}).Entries {
		if e.Subject == "admin" {
			own = e.Lock
		}
		got = append(got, strings.Join([]string{e.Subject, e.Action, e.Object(), e.Result()}, " "))
	}
	slices.Reverse(got)
	if diff := cmp.Diff([]string{
		"ci create acme/prod done",
		"ci lock acme/prod done",
		"ci write acme/prod 1: serial 1 done",
		"ci write acme/prod 2 under lock " + held + ": not current refused",
		"ci write acme/prod under lock " + held + " serial 2 refused",
		"admin write acme/prod under lock " + own + " serial 2 refused",
		"ci lock acme/prod done",
		"admin write acme/prod under lock " + latest + " serial 2 refused",
	}, got); diff != "" {
		t.Errorf("the record (-want +got):\n%s", diff)
	}
}
