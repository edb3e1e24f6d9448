// SPDX-License-Identifier: Apache-2.0

package states_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

func checkNames(t *testing.T, s *states.States, want ...string) {
	t.Helper()
	got := must.Get(s.Names(t.Context()))(t)
	must.Match(t, "names", got, want)
}

// TestNames combines settings, entries and the list; forged entries add nothing.
func TestNames(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	all, some := mustClient(t, ocitest.Direct{Handler: h}), mustClient(t, unlisted(h))
	put(t, all, "stored", `{"version":4}`)
	queue := depottest.MustRepo(t, all, layout.QueueRepo())
	for _, e := range []artifact.CatalogEntry{
		{Kind: addr.KindState, Address: "entered", Repository: "acme/state/entered"},
		{Kind: addr.KindState, Address: "set", Repository: "acme/state/set"},
		{Kind: addr.KindState, Address: "evil", Repository: "acme/modules/net/vpc/aws"},
		{Kind: addr.KindState, Address: "evil", Repository: "elsewhere/state/evil"},
		{Kind: addr.KindModule, Address: "net/vpc/gcp", Repository: "acme/modules/net/vpc/gcp"},
	} {
		must.Succeed(t, artifact.AddCatalogEntry(t.Context(), queue, e))
	}
	m := must.Get(queue.Fetch(t.Context(), artifact.CatalogTag("acme/state/entered")))(t)
	must.Succeed(t, queue.PutTag(t.Context(), artifact.CatalogTag("acme/state/moved"), m))
	settings := []string{"set", "empty"}
	checkNames(t, mustStates(t, states.Options{Client: all, Names: settings}), "empty", "entered", "set", "stored")
	checkNames(t, mustStates(t, states.Options{Client: some, Names: settings}), "empty", "entered", "set")
	checkNames(t, mustStates(t, states.Options{Client: mustClient(t, unlisted(ocitest.Handler(t, ocitest.Quirks{}))), Names: settings}), "empty", "set")
	if _, err := states.New(states.Options{Client: all, Layout: layout, Names: []string{"../x"}}); err == nil {
		t.Error("a name that no state can have was taken")
	}
}

// TestNameAfterAbandonedClaim finds a state whose entry was listed before it could be read,
// as happens with new tags.
//
// Shows: mistakes 34 | the pages never listed a state whose entry could not be read when it was
// first listed; a state name that is too long was a server error | such an entry is read again;
// such a state is not found
func TestNameAfterAbandonedClaim(t *testing.T) {
	g := &ocitest.DanglingTags{Handler: ocitest.Handler(t, ocitest.Quirks{})}
	synctest.Test(t, func(t *testing.T) {
		c := mustClient(t, unlisted(g))
		s := mustStates(t, states.Options{Client: c, Names: []string{"set"}})
		put(t, c, "late", `{"version":4}`)
		g.Add(layout.QueueRepo(), artifact.CatalogTag("acme/state/late"))
		checkNames(t, s, "set")
		must.Succeed(t, artifact.AddCatalogEntry(t.Context(), depottest.MustRepo(t, c, layout.QueueRepo()), artifact.CatalogEntry{Kind: addr.KindState, Address: "late", Repository: "acme/state/late"}))
		time.Sleep(time.Hour)
		checkNames(t, s, "late", "set")
	})
}

// TestWrote writes one entry for a state, however often the state is stored.
func TestWrote(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		count := &ocitest.Count{Base: unlisted(h)}
		s := mustStates(t, states.Options{Client: mustClient(t, count)})
		checkNames(t, s)
		count.Take()
		for range 5 {
			s.Wrote(t.Context(), "shop")
			synctest.Wait()
		}
		if n := count.Take(); n["PUT manifest"] != 1 {
			t.Errorf("five writes: %v, want one entry", n)
		}
		checkNames(t, s, "shop") // at once
		again := mustStates(t, states.Options{Client: mustClient(t, count)})
		count.Take()
		again.Wrote(t.Context(), "shop")
		synctest.Wait()
		if n := count.Take(); n["PUT manifest"] != 0 || n["POST upload"] != 0 {
			t.Errorf("a server that starts again: %v, want no write", n)
		}
	})
}

// TestWroteSeen reads what was just stored, whatever is cached.
func TestWroteSeen(t *testing.T) {
	c := mustClient(t, ocitest.Direct{Handler: ocitest.Handler(t, ocitest.Quirks{})})
	s := must.Get(states.New(states.Options{Client: c, Layout: layout}))(t)
	for n := int64(1); n <= 2; n++ {
		put(t, c, "shop", fmt.Sprintf(`{"version":4,"serial":%d,"lineage":"l"}`, n))
		s.Wrote(t.Context(), "shop")
		if w, err := s.Workspace(t.Context(), "shop", "default"); err != nil || w.Numbers[0] != n {
			t.Errorf("after version %d: %+v, %v", n, w, err)
		}
	}
}

// TestWroteAgain tries again at the next write after a failure, and logs the reason.
func TestWroteAgain(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		refused := &ocitest.Fault{Base: unlisted(h), Match: ocitest.OnTag(http.MethodPut), Do: ocitest.Status(http.StatusForbidden, 0)}
		s := mustStates(t, states.Options{Client: mustClient(t, refused), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		s.Wrote(t.Context(), "shop")
		synctest.Wait()
		if !strings.Contains(log.String(), "not listed yet") || !strings.Contains(log.String(), "state=shop") {
			t.Errorf("the log says %q", log.String())
		}
		checkNames(t, s)
		s.Wrote(t.Context(), "shop")
		synctest.Wait()
		checkNames(t, s, "shop")
	})
}

// TestNoSuchName sends no request for names that no state can have.
//
// Shows: mistakes 34
func TestNoSuchName(t *testing.T) {
	count := &ocitest.Count{Base: unlisted(ocitest.Handler(t, ocitest.Quirks{}))}
	s := mustStates(t, states.Options{Client: mustClient(t, count)})
	for _, name := range []string{"", "..", "../x", "A", strings.Repeat("a", 1000)} {
		_, summary := s.Summary(t.Context(), name)
		_, workspace := s.Workspace(t.Context(), name, "default")
		_, version := s.Version(t.Context(), name, "default", 1)
		_, document := s.Document(t.Context(), name, "default", 1)
		for _, err := range []error{summary, workspace, version, document} {
			if !errors.Is(err, oci.ErrNotFound) {
				t.Errorf("%q: %v, want not found", name, err)
			}
		}
	}
	must.Equal(t, "requests", count.Total(), 0)
}

// TestManyNames keeps ten thousand names, and bounds the cost.
func TestManyNames(t *testing.T) {
	const there = 12_000
	repositories := make([]string, there)
	for i := range repositories {
		repositories[i] = fmt.Sprintf(`"acme/state/team%05d"`, there-1-i)
	}
	count := &ocitest.Count{Base: &ocitest.Fault{
		Base: ocitest.Direct{Handler: ocitest.Handler(t, ocitest.Quirks{})}, Times: -1,
		Match: func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/_catalog") },
		Do:    ocitest.Respond("application/json", `{"repositories":[`+strings.Join(repositories, ",")+`]}`),
	}}
	s := mustStates(t, states.Options{Client: mustClient(t, count), Names: []string{"a-first"}})
	for range 2 {
		names := must.Get(s.Names(t.Context()))(t)
		if len(names) != 10_000 || names[0] != "a-first" || names[1] != "team00000" || names[9_999] != "team09998" || !slices.IsSorted(names) {
			t.Errorf("%d names, from %q and %q to %q", len(names), names[0], names[1], names[len(names)-1])
		}
	}
	if n := count.Take(); n["GET tags"] > 1 || len(n) > 2 {
		t.Errorf("ten thousand names cost %v, want the list of the registry and that of the entries once", n)
	}
}
