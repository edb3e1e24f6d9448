// SPDX-License-Identifier: Apache-2.0

package s3facade_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/s3facade"
)

// newTakenRun is a run under a lock taken before, of a workspace not called default.
func newTakenRun(t *testing.T, host string, transport http.RoundTripper) (*run, *statebackend.Lock, *statebackend.Store, *[]statebackend.Version) {
	t.Helper()
	r := &run{t: t, repo: host + "/infra/state"}
	repo := must.Get(oci.OpenRepo(r.repo, oci.Options{PlainHTTP: true, Transport: transport, Retry: oci.Retry{MaxAttempts: 1}}))(t)
	store := statebackend.New(repo, statebackend.Options{})
	lock := must.Get(store.Lock(t.Context(), "abc", statebackend.LockInfo{ID: "ours"}))(t)
	var stored []statebackend.Version
	r.facade = s3facade.New(s3facade.Options{
		AccessKey: accessKey, Repositories: []string{r.repo}, TempDir: t.TempDir(), MaxState: 1 << 20,
		Taken: lock, Persist: time.Minute, Stored: func(v statebackend.Version, _ []byte) { stored = append(stored, v) },
		Failed: func(err error) { r.failed = append(r.failed, err) },
	})
	server := httptest.NewServer(r.facade)
	t.Cleanup(server.Close)
	r.url = server.URL
	return r, lock, store, &stored
}

// TestTaken sends the requests of a tool while its lock is held for it.
func TestTaken(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		r, lock, store, stored := newTakenRun(t, host, nil)
		state := `{"version":4,"serial":1,"lineage":"l"}`
		r.must(200, "GET", "?list-type=2&prefix=env:/", "")
		for _, id := range []string{"one", "two"} {
			r.must(404, "GET", r.key()+".tflock", "")
			r.must(200, "PUT", r.key()+".tflock", lockBody(id), "If-None-Match", "*")
			if a := r.must(200, "GET", r.key()+".tflock", ""); !strings.Contains(a.body, `"`+id+`"`) {
				t.Errorf("the tool's lock is shown as %s", a.body)
			}
			r.must(200, "PUT", r.key(), state)
			r.must(204, "DELETE", r.key()+".tflock", "")
		}
		must.Equal(t, "state", r.must(200, "GET", r.key(), "").body, state)
		r.must(200, "PUT", r.key(), state) // also without requesting the lock
		for _, refused := range [][2]string{
			{"DELETE", r.key()}, {"PUT", r.keyOf("other")}, {"GET", r.keyOf("abc")}, {"PUT", r.keyOf("other") + ".tflock"},
			{"GET", "/" + host + "/another/state"}, {"POST", "/" + host + "/another/state?uploads"}, {"GET", "/" + r.repo + "/remote"},
		} {
			if a := r.do(refused[0], refused[1], state); a.status != http.StatusForbidden {
				t.Errorf("%s %s: %d", refused[0], refused[1], a.status)
			}
		}
		if len(*stored) != 3 || (*stored)[2].LockID != "ours" {
			t.Errorf("stored %+v", *stored)
		}
		if _, err := store.Lock(t.Context(), "abc", statebackend.LockInfo{ID: "theirs"}); err == nil {
			t.Error("the tool ended the lock")
		}
		must.Succeed(t, lock.Unlock(t.Context()))
		if b, _, err := store.Get(t.Context(), "abc"); err != nil || string(b) != state {
			t.Errorf("state in the store: %s, %v", b, err)
		}
	})
}

// TestTakenLost: a tool whose lock was forced gets the usual error.
func TestTakenLost(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	r, _, store, stored := newTakenRun(t, host, nil)
	must.Succeed(t, store.ForceUnlock(t.Context(), "abc", "ours"))
	r.must(http.StatusConflict, "PUT", r.key(), `{"version":4,"serial":1,"lineage":"l"}`)
	if len(r.failed) != 1 || !errors.Is(r.failed[0], statebackend.ErrLockLost) || len(*stored) != 0 {
		t.Errorf("told %v, stored %v", r.failed, *stored)
	}
}

// TestPersist repeats a write until the registry answers again.
func TestPersist(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	fault := &ocitest.Fault{Match: ocitest.OnTag("PUT"), Do: ocitest.FailBefore, Nth: 3, Times: 6}
	r, lock, store, _ := newTakenRun(t, host, fault)
	r.must(200, "PUT", r.key(), `{"version":4,"serial":1,"lineage":"l"}`)
	must.Succeed(t, lock.Unlock(t.Context()))
	if _, v, err := store.Get(t.Context(), "abc"); err != nil || v.Serial != 1 {
		t.Errorf("state %+v, %v", v, err)
	}
}
