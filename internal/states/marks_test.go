// SPDX-License-Identifier: Apache-2.0

package states_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

func mustStore(t *testing.T, c *oci.Client, name string) *statebackend.Store {
	t.Helper()
	return must.Get(states.Open(c, layout, name, statebackend.Options{}))(t)
}

// marked formats the marks that are known now.
func marked(t *testing.T, s *states.States) string {
	t.Helper()
	marks, whole := s.Marked(t.Context())
	words := []string{fmt.Sprint(whole)}
	for _, m := range marks {
		word := m.State
		if m.Replica != nil {
			word += " of " + m.Replica.Source
		}
		if m.Verdict != nil {
			word += " " + m.Verdict.Locking
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// TestMarked finds copies and verdicts, drops ended ones, keeps those out of reach.
func TestMarked(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		down := false
		count := &ocitest.Count{Base: &ocitest.Fault{Base: unlisted(h), Times: -1, Do: ocitest.Status(http.StatusBadGateway, 0), Match: func(r *http.Request) bool { return down && strings.Contains(r.URL.Path, "/copy/") }}}
		c := mustClient(t, ocitest.Direct{Handler: h})
		s := mustStates(t, states.Options{Client: mustClient(t, count), Names: []string{"shop", "copy", "odd"}})
		put(t, c, "shop", `{"version":4}`)
		must.Get(mustStore(t, c, "shop").Replicas().Replicate(t.Context(), mustStore(t, c, "copy"), "default"))(t)
		odd := depottest.MustRepo(t, c, "acme/state/odd")
		m := must.Get(depottest.MustRepo(t, c, "acme/state/copy").Fetch(t.Context(), format.TagReplica))(t)
		must.Get(odd.EnsureBlob(t.Context(), oci.EmptyBlob()))(t)
		if err := odd.PutTag(t.Context(), format.TagVerdict, m); err != nil { // it is not a verdict
			t.Fatal(err)
		}
		check := func(want string) {
			t.Helper()
			marked(t, s)
			synctest.Wait()
			must.Equal(t, "value", marked(t, s), want)
		}
		check("true, copy of registry.test/acme/state/shop")
		count.Take()
		must.Succeed(t, mustStore(t, c, "shop").Verdicts().Record(t.Context(), format.Verdict{Locking: "exact"}))
		check("true, copy of registry.test/acme/state/shop")
		if n := count.Total(); n != 0 {
			t.Errorf("asking again costs %v", count.Take())
		}
		must.Get(mustStore(t, c, "copy").TakeOver(t.Context(), "default", statebackend.LockInfo{ID: "b"}))(t)
		time.Sleep(time.Hour)
		down = true
		check("true, copy of registry.test/acme/state/shop, shop exact")
		down = false
		time.Sleep(time.Hour)
		check("true, shop exact")
	})
}

// TestMarkedSlowly reads sixty repositories, then three a second.
func TestMarkedSlowly(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		count := &ocitest.Count{Base: unlisted(h)}
		names := make([]string, 120)
		for i := range names {
			names[i] = fmt.Sprintf("team%03d", i)
		}
		s := mustStates(t, states.Options{Client: mustClient(t, count), Names: names})
		go s.Marked(t.Context())
		synctest.Wait()
		if n := count.Total(); n > 65 { // including the lists of the names
			t.Errorf("%d requests at once", n)
		}
		if got := marked(t, s); got != "true" { // the clock advances while it waits
			t.Errorf("got %s", got)
		}
		if n := count.Total(); n < 121 {
			t.Errorf("%d requests for 120 repositories", n)
		}
	})
}
