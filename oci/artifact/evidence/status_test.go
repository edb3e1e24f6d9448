// SPDX-License-Identifier: Apache-2.0

package evidence_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

func TestStatusEvents(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		r := must.Get(oci.OpenRepo(host+"/providers/acme/dns", oci.Options{}))(t)
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		put := func(action, version, message string) {
			t.Helper()
			at = at.Add(time.Second)
			e, err := evidence.PutStatusEvent(t.Context(), r, evidence.StatusEvent{Action: action, Version: version, Message: message, Time: at, Actor: "ci", Replacement: "2.0.0"})
			if err != nil || !evidence.IsStatusTag(e.Tag) {
				t.Fatal(e.Tag, err)
			}
		}
		put(evidence.ActionDeprecate, "1.0.0", "use 2.0.0")
		put(evidence.ActionYank, "1.0.0", "leaks")
		put(evidence.ActionUnyank, "1.0.0", "")
		put(evidence.ActionYank, "1.1.0", "broken")
		put(evidence.ActionDeprecate, evidence.AllVersions, "moved")
		put(evidence.ActionUndeprecate, "1.1.0", "")
		var tags []string
		for tag, err := range r.Tags(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			tags = append([]string{tag}, tags...)
		}
		events, _, err := evidence.ReadStatusEvents(t.Context(), r, oci.TagList{Tags: append(tags, "1.0.0", "latest")})
		if err != nil || len(events) != 6 {
			t.Fatalf("%d events, %v", len(events), err)
		}
		if e := events[0]; e.Message != "use 2.0.0" || e.Actor != "ci" || e.Replacement != "2.0.0" || !e.Time.Equal(at.Add(-5*time.Second)) {
			t.Errorf("first event %+v", e)
		}
		got := map[string][2]string{}
		for _, v := range []string{"1.0.0", "1.1.0", "3.0.0"} {
			s := evidence.FoldStatus(events, v, "")
			got[v] = [2]string{message(s.Deprecated), message(s.Yanked)}
		}
		want := map[string][2]string{"1.0.0": {"moved", "-"}, "1.1.0": {"-", "broken"}, "3.0.0": {"moved", "-"}}
		must.Match(t, "deprecated, yanked", got, want)
	})
}

func message(e *evidence.StatusEvent) string {
	if e == nil {
		return "-"
	}
	return e.Message
}

func TestStatusEventRefuses(t *testing.T) {
	r := must.Get(oci.OpenRepo(ocitest.New(t, ocitest.Quirks{})+"/x", oci.Options{}))(t)
	for name, e := range map[string]evidence.StatusEvent{
		"action":  {Action: "delete", Version: "1.0.0", Time: time.Now()},
		"version": {Action: evidence.ActionYank, Version: "1.0", Time: time.Now()},
		"message": {Action: evidence.ActionYank, Version: "1.0.0", Message: strings.Repeat("x", 301), Time: time.Now()},
		"resign":  {Action: evidence.ActionResign, Version: "1.0.0", Time: time.Now()},
		"time":    {Action: evidence.ActionYank, Version: "1.0.0", Time: time.UnixMilli(1e13)},
	} {
		if _, err := evidence.PutStatusEvent(t.Context(), r, e); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
	if _, err := r.Snapshot(t.Context()); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("something was pushed: %v", err)
	}
}

func TestIsStatusTag(t *testing.T) {
	for tag, want := range map[string]bool{
		"okara-status-1767225600000-0123456789abcdef": true, "okara-status-1-0123456789abcdef": false,
		"okara-status-1767225600000-0123456789ABCDEF": false, "1.0.0": false, "okara-status-": false,
	} {
		must.Equal(t, tag, evidence.IsStatusTag(tag), want)
	}
}

func TestFoldStatusResign(t *testing.T) {
	a, b := digest.FromString("a"), digest.FromString("b")
	events := []evidence.StatusEvent{{Action: evidence.ActionResign, Version: "1.0.0", Subject: a, Message: "1"}, {Action: evidence.ActionResign, Version: "1.0.0", Subject: a, Message: "2"}}
	if s := evidence.FoldStatus(events, "1.0.0", a); s.Resigned == nil || s.Resigned.Message != "2" {
		t.Errorf("got %+v", s)
	}
	if s := evidence.FoldStatus(events, "1.0.0", b); s.Resigned != nil {
		t.Errorf("an event for another index counts: %+v", s)
	}
}

func TestFoldStatusKeepsReasons(t *testing.T) {
	events := []evidence.StatusEvent{
		{Action: evidence.ActionYank, Version: "1.0.0", Message: "broken", Replacement: "1.0.1"},
		{Action: evidence.ActionYank, Version: "1.0.0", Actor: "again"},
	}
	s := evidence.FoldStatus(events, "1.0.0", "")
	if s.Yanked == nil || s.Yanked.Message != "broken" || s.Yanked.Replacement != "1.0.1" || s.Yanked.Actor != "again" {
		t.Errorf("yanked again: %+v", s.Yanked)
	}
	if events[1].Message != "" {
		t.Error("the event itself was changed")
	}
	events = append(events, evidence.StatusEvent{Action: evidence.ActionUnyank, Version: "1.0.0"}, evidence.StatusEvent{Action: evidence.ActionYank, Version: "1.0.0"})
	if s := evidence.FoldStatus(events, "1.0.0", ""); s.Yanked == nil || s.Yanked.Message != "" {
		t.Errorf("yanked after a yank that was taken back: %+v", s.Yanked)
	}
}
