// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// keepers are the ways in which a registry keeps state-W at the first version.
func keepers() map[string]ocitest.Refusals {
	return map[string]ocitest.Refusals{
		"rule for all":         {Immutable: []string{"*"}},
		"rule for states":      {Immutable: []string{"state-*"}},
		"no update":            {NoUpdate: true},
		"no update, no delete": {NoUpdate: true, NoDelete: true},
	}
}

// TestImmutableTags: where state-W cannot move, every reader gets the newest state, and
// the writer logs once which tags to exempt.
//
// Shows: rules 1
func TestImmutableTags(t *testing.T) {
	for name, rules := range keepers() {
		t.Run(name, func(t *testing.T) {
			host := ocitest.NewRefusing(t, rules).Host
			var log bytes.Buffer
			s := newStore(t, host, nil, statebackend.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			for i := range 4 {
				l := mustLock(t, s, "prod", fmt.Sprint(i))
				if got, _, err := l.Get(t.Context()); i > 0 && (err != nil || !bytes.Equal(got, testState(i, 0))) {
					t.Errorf("read under lock %d: %s, %v", i, got, err)
				}
				mustPut(t, l, testState(i+1, 0))
				mustUnlock(t, l)
				for who, reader := range map[string]*statebackend.Store{"the writer": s, "another": newStore(t, host, nil, statebackend.Options{})} {
					if got, _, err := reader.Get(t.Context(), "prod"); err != nil || !bytes.Equal(got, testState(i+1, 0)) {
						t.Errorf("%s reads after write %d: %s, %v", who, i+1, got, err)
					}
				}
			}
			text := log.String()
			if strings.Count(text, "exempt state-*, locked-* and unlocked-*") != 1 || strings.Contains(text, "next lock repairs") {
				t.Errorf("log:\n%s", text)
			}
			v, err := s.Verdicts().Newest(t.Context())
			if err != nil || v.Pointer != format.PointerStuck {
				t.Errorf("verdict %+v, %v", v, err)
			}
		})
	}
}

// TestImmutableTagsUnrecorded: a reader without a verdict still reads the newest version,
// and logs that.
//
// Shows: rules 1
func TestImmutableTagsUnrecorded(t *testing.T) {
	host := ocitest.NewRefusing(t, ocitest.Refusals{Immutable: []string{"state-*"}}).Host
	refuse := &ocitest.Fault{Do: ocitest.Status(http.StatusForbidden, -1), Times: -1, Match: func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/okara-doctor")
	}}
	writer := newStore(t, host, refuse, statebackend.Options{})
	mustStore(t, writer, "prod", testState(1, 0))
	mustStore(t, writer, "prod", testState(2, 0))
	if _, err := writer.Verdicts().Newest(t.Context()); !errors.Is(err, oci.ErrNotFound) {
		t.Fatalf("verdict: %v", err)
	}
	var log bytes.Buffer
	reader := newStore(t, host, nil, statebackend.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if got, v, err := reader.Get(t.Context(), "prod"); err != nil || !bytes.Equal(got, testState(2, 0)) || v.N != 2 {
		t.Errorf("read %s, %+v, %v", got, v, err)
	}
	if text := log.String(); !strings.Contains(text, "older than the newest version") || !strings.Contains(text, "exempt state-*") {
		t.Errorf("log: %s", text)
	}
}

// TestNewerOnImmutable: a client that follows a state gets its newest version where
// state-W stays at the first one, also if it began before that was known.
//
// Shows: rules 1
func TestNewerOnImmutable(t *testing.T) {
	for name, rules := range keepers() {
		t.Run(name, func(t *testing.T) {
			host := ocitest.NewRefusing(t, rules).Host
			now := time.Now()
			follower := func() *statebackend.Store {
				return newStore(t, host, nil, statebackend.Options{Now: func() time.Time { return now }})
			}
			writer, early := newStore(t, host, nil, statebackend.Options{}), follower()
			for i := range 3 {
				mustStore(t, writer, "prod", testState(i+1, 0))
				now = now.Add(time.Minute)
				for who, s := range map[string]*statebackend.Store{"early": early, "late": follower()} {
					if b, v, err := s.Newer(t.Context(), "prod", int64(i)); err != nil || !bytes.Equal(b, testState(i+1, 0)) {
						t.Errorf("%s after write %d: version %d, %v", who, i+1, v.N, err)
					}
				}
			}
		})
	}
}

// TestPointerRequests: a read relies on state-W alone if the verdict says that it
// moves, and also lists if there is no verdict.
//
// Shows: rules 1
func TestPointerRequests(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	s := newStore(t, host, nil, statebackend.Options{})
	mustStore(t, s, "prod", testState(1, 0))
	read := func(reader *statebackend.Store, c *ocitest.Count, want map[string]int) {
		t.Helper()
		c.Take()
		if _, _, err := reader.Get(t.Context(), "prod"); err != nil {
			t.Fatal(err)
		}
		must.Match(t, "read", c.Take(), want)
	}
	c := &ocitest.Count{}
	read(newStore(t, host, c, statebackend.Options{}), c, map[string]int{"GET manifest": 1, "GET tags": 1})
	must.Succeed(t, s.Verdicts().Record(t.Context(), format.Verdict{Locking: statebackend.LockingExact, Pointer: format.PointerMoves}))
	reader := newStore(t, host, c, statebackend.Options{})
	read(reader, c, map[string]int{"GET manifest": 2, "GET tags": 1})
	read(reader, c, map[string]int{"GET manifest": 1})
}

// TestLaterVerdicts: where the tag of a verdict cannot move either, the newest verdict
// counts, also after a rule was changed.
//
// Shows: rules 2
func TestLaterVerdicts(t *testing.T) {
	g := ocitest.NewRefusing(t, ocitest.Refusals{Immutable: []string{"*"}})
	s := newStore(t, g.Host, nil, statebackend.Options{})
	mustStore(t, s, "prod", testState(1, 0))
	for i, want := range []format.Pointer{"", format.PointerStuck, format.PointerMoves} {
		if i == 2 {
			g.Refuse(ocitest.Refusals{})
		}
		must.Succeed(t, s.Verdicts().Record(t.Context(), format.Verdict{Locking: statebackend.LockingExact, Pointer: want, Rounds: i}))
		if v, err := s.Verdicts().Newest(t.Context()); err != nil || v.Pointer != want {
			t.Errorf("verdict %d: %+v, %v", i, v, err)
		}
	}
}

// TestContentTrust: a registry that serves only signed manifests refuses the first
// lock, and no lock is left there.
//
// Shows: rules 4
func TestContentTrust(t *testing.T) {
	g := ocitest.NewRefusing(t, ocitest.Refusals{ContentTrust: true})
	s := newStore(t, g.Host, nil, statebackend.Options{})
	_, err := s.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "a"})
	if !errors.Is(err, oci.ErrDenied) || !oci.WithheldByPolicy(err) || !strings.Contains(err.Error(), "not signed by cosign") {
		t.Fatalf("lock: %v", err)
	}
	g.Refuse(ocitest.Refusals{})
	if held, err := s.Held(t.Context(), "prod"); held != nil || err != nil {
		t.Errorf("held: %+v, %v", held, err)
	}
	mustStore(t, newStore(t, g.Host, nil, statebackend.Options{}), "prod", testState(1, 0))
	g.Refuse(ocitest.Refusals{ContentTrust: true})
	if _, _, err := s.Get(t.Context(), "prod"); !errors.Is(err, oci.ErrDenied) || !oci.WithheldByPolicy(err) {
		t.Errorf("read: %v", err)
	}
}

// TestRepeatedOnImmutable: a write without answer is done, though its repetition is refused.
func TestRepeatedOnImmutable(t *testing.T) {
	host := ocitest.NewRefusing(t, ocitest.Refusals{Immutable: []string{"*"}}).Host
	for _, part := range []string{"/manifests/state-prod-v", "/manifests/unlocked-prod-"} {
		lost := &ocitest.Fault{Do: ocitest.StatusAfter(http.StatusBadGateway), Match: func(r *http.Request) bool {
			return r.Method == http.MethodPut && strings.Contains(r.URL.Path, part)
		}}
		s := newStore(t, host, lost, statebackend.Options{})
		mustStore(t, s, "prod", testState(1, 0))
		if lost.Seen() < 2 {
			t.Errorf("%s was sent %d times", part, lost.Seen())
		}
		if held, err := s.Held(t.Context(), "prod"); held != nil || err != nil {
			t.Errorf("%s: held: %+v, %v", part, held, err)
		}
	}
}

// TestMaxVersionsWithoutDelete: a client that limits the number of versions gets one
// warning that the registry keeps all.
//
// Shows: rules 6 | a client that sets `max_versions` is told that nothing can be deleted, once and
// after each change
func TestMaxVersionsWithoutDelete(t *testing.T) {
	var log bytes.Buffer
	s := newStore(t, ocitest.New(t, ocitest.Quirks{NoDelete: true}), nil, statebackend.Options{MaxVersions: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for i := range 4 {
		mustStore(t, s, "prod", testState(i+1, 0))
	}
	if text := log.String(); strings.Count(text, "max_versions has no effect here") != 1 || strings.Count(text, "level=WARN") > 2 {
		t.Errorf("log:\n%s", text)
	}
}

// TestPruningSaysChanges: old versions that a registry does not delete are reported once
// for each workspace, not with each lock, and again after they could be removed.
//
// Shows: rules 6
func TestPruningSaysChanges(t *testing.T) {
	g := ocitest.NewRefusing(t, ocitest.Refusals{})
	var log bytes.Buffer
	s := newStore(t, g.Host, nil, statebackend.Options{MaxVersions: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	serial := 0
	for _, step := range []struct {
		rules ocitest.Refusals
		want  int // number of warnings
	}{
		{ocitest.Refusals{}, 0},
		{ocitest.Refusals{Immutable: []string{"state-*-v*"}}, 2},
		{ocitest.Refusals{}, 0},
		{ocitest.Refusals{Immutable: []string{"state-*-v*"}}, 2},
	} {
		g.Refuse(step.rules)
		log.Reset()
		for range 3 {
			serial++
			mustStore(t, s, "prod", testState(serial, 0))
			mustStore(t, s, "test", testState(serial, 0))
		}
		if n := strings.Count(log.String(), "old versions could not be removed"); n != step.want {
			t.Errorf("%+v: warned %d times, want %d\n%s", step.rules, n, step.want, log.String())
		}
	}
}

// TestAnonymousMayOnlyCreate: moving a tag asks for a login, which is permanent.
func TestAnonymousMayOnlyCreate(t *testing.T) {
	login := &ocitest.Fault{Nth: 2, Times: -1, Do: ocitest.Status(http.StatusUnauthorized, -1), Match: func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/manifests/state-prod")
	}}
	var log bytes.Buffer
	s := newStore(t, ocitest.New(t, ocitest.Quirks{}), login, statebackend.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for serial := 1; serial <= 3; serial++ {
		mustStore(t, s, "prod", testState(serial, 0))
	}
	if got, _, err := s.Get(t.Context(), "prod"); err != nil || !bytes.Equal(got, testState(3, 0)) {
		t.Errorf("read %s, %v", got, err)
	}
	if text := log.String(); strings.Count(text, "exempt state-*, locked-*") != 1 || strings.Contains(text, "next lock repairs") {
		t.Errorf("log:\n%s", text)
	}
}
