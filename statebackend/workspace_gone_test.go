// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"errors"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// TestRecordReplaced reads a record that another client has replaced and removed
// since it was listed.
//
// Shows: cloud 27
func TestRecordReplaced(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	before := func() time.Time { return time.Now().Add(-2 * time.Hour) }
	old := mustRecord(t, newStore(t, host, nil, statebackend.Options{Now: before}), "prod", func(r *statebackend.Record) { r.Description = "one" })
	l := mustListing(t, newStore(t, host, nil, statebackend.Options{}))
	next := mustRecord(t, newStore(t, host, nil, statebackend.Options{}), "prod", func(r *statebackend.Record) { r.Description = "two" })
	if tags := recordTags(t, newStore(t, host, nil, statebackend.Options{})); len(tags) != 1 || tags[0] == old.Tag {
		t.Fatalf("the old record is still there: %v", tags)
	}
	r, err := l.Record(t.Context(), "prod")
	if err != nil || r == nil || r.Tag != next.Tag {
		t.Errorf("record %+v, %v, want %s", r, err, next.Tag)
	}
	if ok, err := l.Exists(t.Context(), "prod"); !ok || err != nil {
		t.Errorf("exists: %t, %v", ok, err)
	}
}

// TestWorkspaceUnread: an object with wrong bytes never counts as absent.
func TestWorkspaceUnread(t *testing.T) {
	t.Run("record", func(t *testing.T) {
		host := ocitest.New(t, ocitest.Quirks{})
		mustRecord(t, newStore(t, host, nil, statebackend.Options{}), "prod", func(r *statebackend.Record) { r.Description = "one" })
		f := &ocitest.Fault{Match: ocitest.On("GET", "manifest"), Do: ocitest.Corrupt, Times: -1}
		if ok, err := mustListing(t, newStore(t, host, f, statebackend.Options{})).Exists(t.Context(), "prod"); ok || !errors.Is(err, oci.ErrCorrupt) || f.Seen() == 0 {
			t.Errorf("exists: %t, %v", ok, err)
		}
	})
	t.Run("state", func(t *testing.T) {
		s := newStore(t, ocitest.New(t, ocitest.Quirks{}), nil, statebackend.Options{})
		r := mustRecord(t, s, "other", func(r *statebackend.Record) { r.Description = "one" })
		m := must.Get(s.Repo().Fetch(t.Context(), r.Tag))(t)
		tag := format.StateTag{Kind: format.StateNumbered, Fragment: format.StateFragment("prod"), N: 1}
		if err := s.Repo().PutTag(t.Context(), tag.String(), m); err != nil { // the form that a later okara may write
			t.Fatal(err)
		}
		for range 2 { // the second time from memory
			if ok, err := mustListing(t, s).Exists(t.Context(), "prod"); ok || !errors.Is(err, oci.ErrCorrupt) {
				t.Errorf("exists: %t, %v", ok, err)
			}
		}
	})
}
