// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
)

// shelf holds the templates of a test.
type shelf struct {
	entries []template.Entry
	unread  bool
}

func (s *shelf) Known() ([]template.Entry, bool) { return s.entries, !s.unread }

func (s *shelf) Current(name string) (*template.Entry, bool) {
	i := slices.IndexFunc(s.entries, func(e template.Entry) bool { return e.Template.Name == name })
	if i < 0 {
		return nil, false
	}
	return &s.entries[i], true
}

// pending returns the pending events, each in a few words.
func (w *world) pending(s *shelf) string {
	events, _ := w.d.Pending(s, 4, w.now)
	var words []string
	for _, e := range events {
		word, _ := strings.CutPrefix(fmt.Sprintf("%T", e), "lifecycle.")
		switch e := e.(type) {
		case lifecycle.Fill:
			word += fmt.Sprintf(" %s %t %s", e.Name, e.Template != nil, e.Invalid)
		case lifecycle.Schedule:
			word += fmt.Sprint(" ", e.Concurrency)
		}
		words = append(words, strings.TrimSpace(word))
	}
	return strings.Join(words, ", ")
}

// TestPending: events, their order, and unreadable templates' pools.
func TestPending(t *testing.T) {
	w, tmpl, plain := newWorld(t), pooled(), with(func(*template.Template) {})
	id := w.create(anna, plain)
	s := &shelf{entries: []template.Entry{
		{Template: plain, Digest: digestOf(plain), Source: source("1.0.0")},
		{Template: tmpl, Digest: digestOf(tmpl), Source: source("1.0.0")},
	}}
	want := func(text string) {
		t.Helper()
		must.Equal(t, "due", w.pending(s), text)
	}
	want("Fill sandbox/pool true, Schedule 4")
	w.fill(tmpl)
	w.runAll(lifecycle.Result{Outcome: lifecycle.Done})
	s.entries[0].Source = source("1.1.0")
	want("Fill sandbox/pool true, UpdateCheck, Schedule 4")

	s.entries[1].Unseen, s.entries[1].Problem = true, "not yet"
	want("UpdateCheck, Schedule 4")
	s.entries[1].Unseen, s.entries[1].Problem = false, "no version matches"
	want("Fill sandbox/pool true no version matches, UpdateCheck, Schedule 4")

	s.entries, s.unread = s.entries[:1], true
	want("UpdateCheck, Schedule 4")
	s.unread = false
	want("Fill sandbox/pool false, UpdateCheck, Schedule 4")

	w.advance(100 * 365 * 24 * time.Hour)
	if got := w.pending(s); !strings.HasPrefix(got, "ExpireCheck, ") || strings.Count(got, "ExpireCheck") != 1+len(w.all(lifecycle.Available)) {
		t.Errorf("%s of %v: what ends comes first, got %q", id, w.all(lifecycle.Available), got)
	}
}
