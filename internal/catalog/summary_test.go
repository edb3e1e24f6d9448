// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestSummaryMoved: lists show a moved tag's new content; tags are checked in turn, few a list.
func TestSummaryMoved(t *testing.T) {
	s := newStore(t, func(o *catalog.Options) { o.TagTTL = 10 * time.Second })
	it := must.Fixed(addr.ParseModule(vpc)).Item()
	for _, v := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		s.module(t, vpc, v)
	}
	l := must.Fixed(s.Versions(t.Context(), it))
	readSummaries := func(limit int) map[string]int {
		return s.requests(func() { s.ReadSummaries(t.Context(), it, l, l.Listed, limit) })
	}
	if n := readSummaries(10); n["GET manifest"] != 3 {
		t.Fatalf("asked %v", n)
	}
	last := l.Listed[2]
	was, _ := s.Summary(it, last, l)
	r := s.repo(vpcRepo)
	must.Succeed(t, r.PutTag(t.Context(), last.Tag(), must.Fixed(r.Fetch(t.Context(), "1.2.0"))))
	must.Match(t, "within the time of a tag", readSummaries(10), map[string]int{})
	s.pass(11 * time.Second)
	until := time.Now().Add(time.Minute)
	for {
		s.ReadSummaries(t.Context(), it, l, l.Listed, 1)
		if now, ok := s.Summary(it, last, l); ok && now.Manifest.Digest != was.Manifest.Digest {
			return
		}
		if time.Now().After(until) {
			t.Fatal("the list never tells that the tag moved")
		}
		time.Sleep(time.Millisecond)
	}
}
